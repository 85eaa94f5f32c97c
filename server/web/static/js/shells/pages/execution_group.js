/**
 * A group of the list, with its rows and the way to older ones.
 */

import { element, keyedChildren, setText } from "../../core/dom.js";
import { isEnded, numberWords } from "../../core/format.js";
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

  /**
   * @param {ExecutionPage} page
   * @param {Map<string, LineRow>} known rows of any group: what is open in them stays open
   */
  show(page, known) {
    this.take(page.executions, page, known);
  }

  async askOlder() {
    this.older.disabled = true;
    try {
      const page = await this.ask(this.cursor);
      this.take([...[...this.rows.values()].map((row) => row.heard.line), ...page.executions], page, this.rows);
    } finally {
      this.older.disabled = false;
    }
  }

  /**
   * @param {ExecutionLine[]} lines
   * @param {ExecutionPage} page
   * @param {Map<string, LineRow>} known
   */
  take(lines, page, known) {
    const heard = Date.now();
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
    this.tell(this.rows.size);
  }

  /** @param {number} number of executions that belong here */
  tell(number) {
    setText(this.count, `${numberWords(number)}${this.cursor === null ? "" : "+"}`);
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

/** @typedef {{fresh: number, needing: number, ended: number, calmed: number}} News executions that are not shown where they belong */

/**
 * Updates the rows that are shown, in their place; the heads of their groups count what belongs there now.
 * @param {ExecutionGroup[]} groups
 * @param {ExecutionPage[]} pages the first page of each
 * @returns {{news: News, lost: LineRow[]}} lost: rows on no page any more
 */
export function hearPages(groups, pages) {
  const rows = new Map(groups.flatMap((group) => [...group.rows]));
  /** @type {Map<string, ExecutionGroup>} */
  const place = new Map();
  const news = { fresh: 0, needing: 0, ended: 0, calmed: 0 };
  /** @type {LineRow[]} */
  const lost = [];
  const counts = groups.map((group, index) => {
    let count = group.rows.size;
    for (const line of pages[index]?.executions ?? []) {
      const row = rows.get(line.id);
      place.set(line.id, group);
      row?.update({ line, heard: Date.now() });
      if (group.rows.has(line.id) || (row === undefined && group.isBehind(line))) continue;
      count += 1;
      if (group.about.name === "attention") news.needing += 1;
      else if (row === undefined) news.fresh += 1;
    }
    return count;
  });
  groups.forEach((group, index) => {
    let left = 0;
    for (const [id, row] of group.rows) {
      const now = place.get(id) ?? (pages[index]?.next_cursor === null ? null : group);
      if (now === group) continue;
      left += 1;
      if (now === null && !isEnded(row.heard.line.status)) lost.push(row);
      if (group.about.name === "attention") news.calmed += 1;
      else if (now?.about.name !== "attention") news.ended += 1;
    }
    group.tell((counts[index] ?? 0) - left);
  });
  return { news, lost };
}
