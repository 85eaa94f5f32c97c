/**
 * Which two executions are compared: by id, or from the recent ones.
 */

import { element, replaceChildren } from "../../core/dom.js";
import { agoWords } from "../../core/format.js";
import { plainLine } from "../../core/plain_text.js";
import { errorWords, withQuery } from "../../sources/api.js";
import { actionButton, skeleton, statusMark } from "../parts.js";

/** @import {ExecutionLine, ExecutionPage} from "../../types.js" */
/** @import {Shell} from "../shell.js" */

/** @typedef {{a: string, b: string}} Sides */

export class ComparisonChoice {
  /**
   * @param {Shell} shell
   * @param {(sides: Sides) => void} chosen
   */
  constructor(shell, chosen) {
    this.shell = shell;
    this.chosen = chosen;
    this.ended = new AbortController();
    this.a = this.field("a");
    this.b = this.field("b");
    const swap = () => this.tell({ a: this.b.value.trim(), b: this.a.value.trim() });
    this.element = element(
      "form",
      { class: "compare-choice", onsubmit: (/** @type {SubmitEvent} */ event) => this.submitted(event) },
      element("label", { class: "side", "data-side": "a" }, element("span", { class: "side-name" }, "A"), this.a),
      actionButton("swap", "⇄", swap, { kind: "quiet", title: "Swap", label: "Swap A and B" }),
      element("label", { class: "side", "data-side": "b" }, element("span", { class: "side-name" }, "B"), this.b),
      element("button", { class: "button", "data-kind": "primary", "data-action": "compare" }, "Compare"),
    );
  }

  destroy() {
    this.ended.abort();
  }

  /** @param {"a" | "b"} name */
  field(name) {
    return element("input", {
      class: "input mono",
      name,
      placeholder: "id of an execution",
      autocomplete: "off",
      spellcheck: "false",
    });
  }

  /** @param {Sides} sides */
  show({ a, b }) {
    this.a.value = a;
    this.b.value = b;
  }

  /** @param {SubmitEvent} event */
  submitted(event) {
    event.preventDefault();
    this.tell({ a: this.a.value.trim(), b: this.b.value.trim() });
  }

  /** @param {Sides} sides */
  tell(sides) {
    this.show(sides);
    this.chosen(sides);
  }

  /** The recent executions, each of which can be taken as one of the two. */
  list() {
    const place = element("section", { class: "card", "aria-label": "Recent executions" }, skeleton(6, 34));
    void this.fill(place);
    return place;
  }

  /** @param {HTMLElement} place */
  async fill(place) {
    try {
      /** @type {ExecutionPage} */
      const page = await this.shell.ask(withQuery("/executions", { limit: 30 }), this.ended.signal);
      if (page.executions.length < 2) {
        replaceChildren(
          place,
          element(
            "div",
            { class: "vacant" },
            element("h2", {}, "Nothing to compare yet"),
            element(
              "p",
              {},
              "Two executions are needed. Run the same agent or chain twice, or run one again from a step.",
            ),
            element("a", { class: "button", href: "/" }, "Executions"),
          ),
        );
        return;
      }
      const now = Date.now();
      replaceChildren(
        place,
        element(
          "p",
          { class: "panel-note soft" },
          "Choose two: the same agent or chain at two times shows best what has changed.",
        ),
        element("ul", { class: "lines" }, ...page.executions.map((line) => this.row(line, now))),
      );
    } catch (failure) {
      if (!this.ended.signal.aborted)
        replaceChildren(place, element("p", { class: "vacant soft" }, errorWords(failure).message));
    }
  }

  /**
   * @param {ExecutionLine} line
   * @param {number} now
   */
  row(line, now) {
    const take = (/** @type {"a" | "b"} */ side) => {
      const button = element(
        "button",
        {
          class: "button",
          "data-size": "small",
          type: "button",
          "aria-pressed": String(this[side].value === line.id),
          "aria-label": `${line.agent} ${line.short_id} as ${side.toUpperCase()}`,
          "data-take": side,
        },
        side.toUpperCase(),
      );
      button.addEventListener("click", () => {
        this[side].value = line.id;
        const sides = { a: this.a.value.trim(), b: this.b.value.trim() };
        if (sides.a !== "" && sides.b !== "") return this.tell(sides);
        for (const each of document.querySelectorAll(`[data-take="${side}"]`))
          each.setAttribute("aria-pressed", String(each === button));
      });
      return button;
    };
    return element(
      "li",
      { class: "line choice", "data-execution": line.id },
      statusMark(line),
      element("span", { class: "line-agent cut" }, line.agent),
      element("span", { class: "line-task cut" }, plainLine(line.task)),
      element("span", { class: "line-started" }, agoWords(line.created_at, now)),
      element("code", { class: "faint" }, line.short_id),
      element("span", { class: "row" }, take("a"), take("b")),
    );
  }
}
