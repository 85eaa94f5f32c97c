/**
 * A group of the list, with its rows and the way to older ones.
 */

import { element, keyedChildren, setText } from "../../core/dom.js";
import { numberWords } from "../../core/format.js";
import { LineRow } from "./execution_line.js";

/** @import {ExecutionLine, ExecutionPage} from "../../types.js" */

/** @typedef {{name: "attention" | "running" | "finished" | "all", title: string}} GroupAbout */

/** @type {GroupAbout[]} */
export const GROUPS = [
  { name: "attention", title: "Needs attention" },
  { name: "running", title: "Running" },
  { name: "finished", title: "Finished" },
];

/** One list of every level, newest first. @type {GroupAbout[]} */
export const EVERY_LEVEL = [{ name: "all", title: "All executions" }];

const HEADS = [
  ["children", "below"],
  ["elapsed", "time"],
  ["tokens", "tokens"],
  ["cost", "cost"],
  ["started", "started"],
];

export class ExecutionGroup {
  /**
   * @param {GroupAbout} about
   * @param {(cursor: string | null) => Promise<ExecutionPage>} ask
   */
  constructor(about, ask) {
    this.about = about;
    this.ask = ask;
    /** @type {Map<string, LineRow>} */
    this.rows = new Map();
    /** @type {string | null} */
    this.cursor = null;
    this.count = element("span", { class: "group-count" });
    this.list = element("ul", { class: "lines", "aria-label": about.title });
    this.older = element(
      "button",
      { class: "button older", type: "button", "data-action": "older", onclick: () => void this.askOlder() },
      "Older",
    );
    this.element = element(
      "section",
      { class: "group card", "data-group": about.name, "aria-label": about.title },
      element(
        "div",
        { class: "line group-head" },
        element("h2", {}, about.title, " ", this.count),
        ...HEADS.map(([name, words]) => element("span", { class: `line-${name}`, "aria-hidden": "true" }, words)),
      ),
      this.list,
      this.older,
    );
  }

  /** @param {ExecutionPage} page */
  show(page) {
    this.take(page.executions, page);
  }

  async askOlder() {
    this.older.disabled = true;
    try {
      const page = await this.ask(this.cursor);
      this.take([...[...this.rows.values()].map((row) => row.heard.line), ...page.executions], page);
    } finally {
      this.older.disabled = false;
    }
  }

  /**
   * @param {ExecutionLine[]} lines
   * @param {ExecutionPage} page
   */
  take(lines, page) {
    const heard = Date.now();
    const known = this.rows;
    this.rows = new Map();
    for (const line of lines) {
      const row = known.get(line.id) ?? new LineRow({ line, heard });
      row.update({ line, heard });
      this.rows.set(line.id, row);
    }
    keyedChildren(this.list, [...this.rows.values()], { key: (row) => row.heard.line.id, make: (row) => row.element });
    this.cursor = page.next_cursor;
    this.older.hidden = page.next_cursor === null;
    setText(this.older, page.searched_to === null ? "Older" : "Search further back");
    setText(this.count, `${numberWords(this.rows.size)}${page.next_cursor === null ? "" : "+"}`);
  }

  /**
   * Whether a line that is not shown belongs behind the last one that is: then it is no news.
   * @param {ExecutionLine} line
   */
  isBehind(line) {
    const last = [...this.rows.values()].at(-1)?.heard.line;
    if (this.cursor === null || last === undefined) return false;
    if (this.about.name !== "attention") return line.id < last.id;
    return (line.finished_at ?? "~") < (last.finished_at ?? "~"); // the open ones first, then by their end
  }
}
