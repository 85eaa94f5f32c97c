/**
 * The palette: every page, recent executions and what can be started, found by a few letters.
 */

import { element, replaceChildren, setAttribute } from "../core/dom.js";
import { agoWords, statusShape } from "../core/format.js";
import { plainLine } from "../core/plain_text.js";
import { withQuery } from "../sources/api.js";
import { PLACES } from "./chrome.js";
import { openDialog } from "./dialogs.js";
import { choicesFor } from "./palette_choices.js";
import { executionHref } from "./router.js";
import { openStart } from "./start_form.js";

/** @import {ExecutionPage} from "../types.js" */
/** @import {Agents} from "../types_pages.js" */
/** @import {Choice} from "./palette_choices.js" */
/** @import {Shell} from "./shell.js" */

const TYPING = 200;

/** @param {Shell} shell */
export function openPalette(shell) {
  if (document.querySelector("dialog[open]") === null) new Palette(shell);
}

class Palette {
  /** @param {Shell} shell */
  constructor(shell) {
    this.shell = shell;
    /** @type {Choice[]} */
    this.fixed = PLACES.map(({ href, words }) => ({
      group: "Pages",
      words,
      note: "",
      run: () => shell.router.go(href),
    }));
    /** @type {Choice[]} */
    this.startable = [];
    /** @type {Choice[]} */
    this.executions = [];
    /** @type {Choice[]} */
    this.shown = [];
    this.at = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.typing = undefined;
    this.field = element("input", {
      class: "palette-field",
      type: "text",
      role: "combobox",
      "aria-expanded": "true",
      "aria-controls": "palette-list",
      "aria-autocomplete": "list",
      "aria-label": "Go to a page or an execution, or start an agent",
      placeholder: "Go to a page or an execution, start an agent…",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.typed(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.pressed(event),
    });
    this.list = element("div", { class: "palette-list", id: "palette-list", role: "listbox", "aria-label": "Choices" });
    this.dialog = openDialog(
      "Go to",
      { name: "palette", onclose: () => clearTimeout(this.typing) },
      this.field,
      this.list,
    );
    this.field.focus();
    this.draw();
    void this.look("");
    void shell.ask("/agents").then(
      (agents) => this.learn(/** @type {Agents} */ (agents)),
      () => {},
    );
  }

  /** @param {Agents} agents */
  learn({ agents, chains }) {
    this.startable = [...chains, ...agents].map((each) => ({
      group: "Start",
      words: each.name,
      note: plainLine(each.description, 80),
      run: () => void openStart(this.shell, each.name),
    }));
    this.draw();
  }

  /** @param {string} text */
  async look(text) {
    try {
      /** @type {ExecutionPage} */
      const page = await this.shell.api.get(
        withQuery("/executions", { q: text, limit: 8, all: text === "" ? "" : "1" }),
      );
      if (this.field.value.trim() !== text) return;
      const now = Date.now();
      this.executions = page.executions.map((line) => ({
        group: "Executions",
        words: `${statusShape(line)} ${line.agent}`,
        note: `${plainLine(line.task, 70)} · ${agoWords(line.created_at, now)}`,
        found: true,
        run: () => this.shell.router.go(executionHref(line.id)),
      }));
      this.draw();
    } catch {
      // Without executions the palette still leads to pages.
    }
  }

  typed() {
    this.at = 0;
    this.draw();
    clearTimeout(this.typing);
    this.typing = setTimeout(() => void this.look(this.field.value.trim()), TYPING);
  }

  draw() {
    const text = this.field.value.trim();
    this.shown = choicesFor(text, [...this.fixed, ...this.executions, ...this.startable]);
    this.at = Math.min(this.at, Math.max(0, this.shown.length - 1));
    let group = "";
    const rows = this.shown.flatMap((choice, index) => {
      const head =
        choice.group === group ? [] : [element("div", { class: "palette-group", role: "presentation" }, choice.group)];
      group = choice.group;
      const option = element(
        "div",
        {
          class: "palette-choice",
          role: "option",
          id: `choice-${index}`,
          "aria-selected": String(index === this.at),
          onclick: () => this.take(index),
        },
        element("span", { class: "cut" }, choice.words),
        element("span", { class: "cut faint" }, choice.note),
      );
      return [...head, option];
    });
    replaceChildren(
      this.list,
      ...rows,
      rows.length === 0 && element("p", { class: "palette-none soft" }, "Nothing found."),
    );
    this.mark();
  }

  mark() {
    setAttribute(this.field, "aria-activedescendant", this.shown.length > 0 ? `choice-${this.at}` : null);
    for (const option of this.list.querySelectorAll("[role=option]")) {
      const selected = option.id === `choice-${this.at}`;
      setAttribute(option, "aria-selected", String(selected));
      if (selected) option.scrollIntoView({ block: "nearest" });
    }
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by !== 0 && this.shown.length > 0) {
      this.at = (this.at + by + this.shown.length) % this.shown.length;
      this.mark();
    } else if (event.key === "Enter") this.take(this.at);
    else return;
    event.preventDefault();
  }

  /** @param {number} index */
  take(index) {
    const choice = this.shown[index];
    if (choice === undefined) return;
    this.dialog.close();
    choice.run();
  }
}
