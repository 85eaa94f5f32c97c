/**
 * One execution of a list: a row that is made once and updated in place.
 */

import { element, setAttribute, setText } from "../../core/dom.js";
import {
  agoWords,
  clockWords,
  durationWords,
  isEnded,
  priceNote,
  priceWords,
  shownStatus,
  statusShape,
  statusWords,
  tokenNumber,
} from "../../core/format.js";
import { plainLine } from "../../core/plain_text.js";
import { executionHref } from "../router.js";

/** @import {ExecutionLine} from "../../types.js" */

/** @type {Record<string, string>} */
const ATTENTION = {
  approval: "waits for your approval",
  interrupted: "interrupted: its process is gone",
  blocked: "blocked",
  failed: "failed",
  timed_out: "timed out",
  over_budget: "over its budget",
};

/** A line with the moment at which the server told of it; the seconds since then count too. @typedef {{line: ExecutionLine, heard: number}} HeardLine */

/**
 * Why an execution needs attention, or what it does: one phrase and the words behind it.
 * @param {ExecutionLine} line
 */
export function lineWords(line) {
  if (line.attention !== null) {
    const why = ATTENTION[line.attention] ?? line.attention.replaceAll("_", " ");
    const detail = line.attention === "approval" ? "" : plainLine(line.error ?? line.reason ?? "", 240);
    return { words: why, detail: detail === why ? "" : detail };
  }
  if (!isEnded(line.status)) return { words: line.activity || statusWords(line), detail: "" };
  if (shownStatus(line) === "completed") return { words: "", detail: "" };
  const detail = plainLine(line.error ?? line.reason ?? "", 240);
  return { words: statusWords(line), detail: detail === line.status ? "" : detail };
}

/**
 * Descendants that have ended, of all; empty if it has none.
 * @param {ExecutionLine} line
 */
export function childrenWords(line) {
  const below = line.subtree_executions - 1;
  if (below <= 0) return "";
  const ended = line.subtree_ended - (isEnded(line.status) ? 1 : 0);
  return isEnded(line.status) && ended === below ? `${below}` : `${Math.max(0, ended)} / ${below}`;
}

/**
 * The seconds a line has to show at a moment.
 * @param {HeardLine} heard
 * @param {number} now
 */
export function lineSeconds({ line, heard }, now) {
  return isEnded(line.status) || line.owner_gone ? line.seconds : line.seconds + Math.max(0, now - heard) / 1000;
}

export class LineRow {
  /** @param {HeardLine} heard */
  constructor(heard) {
    this.heard = heard;
    const cell = (/** @type {string} */ name, /** @type {string} */ title) =>
      element("span", { class: `line-${name}`, title });
    this.mark = element("span", { class: "status line-mark", "aria-hidden": "true" });
    this.status = element("span", { class: "hidden-visually" });
    this.agent = element("span", { class: "line-agent cut" });
    this.task = element("span", { class: "line-task cut" });
    this.why = element("strong", {});
    this.detail = element("span", { class: "cut" });
    this.now = element("span", { class: "line-now cut" }, this.why, this.detail);
    this.children = cell("children", "descendants that have ended, of all");
    this.elapsed = cell("elapsed", "time");
    this.tokens = cell("tokens", "tokens of the whole tree");
    this.cost = cell("cost", "");
    this.started = cell("started", "");
    this.link = element(
      "a",
      { class: "line", "aria-keyshortcuts": "Enter Space j k x" },
      this.mark,
      this.agent,
      this.status,
      this.task,
      this.now,
      this.children,
      this.elapsed,
      this.tokens,
      this.cost,
      this.started,
    );
    this.peek = element("div", { class: "peek", hidden: true });
    /** How often what is shown below it was asked for. */
    this.asked = 0;
    this.element = element("li", {}, this.link, this.peek);
    this.update(heard);
  }

  /** @param {HeardLine} heard */
  update(heard) {
    this.heard = heard;
    const { line } = heard;
    const { words, detail } = lineWords(line);
    for (const [name, value] of Object.entries({
      "data-execution": line.id,
      "data-status": line.status,
      "data-outcome": line.outcome,
      "data-attention": line.attention,
      "data-quiet": words === "",
    }))
      setAttribute(this.element, name, value);
    setAttribute(this.link, "href", executionHref(line.id));
    setAttribute(this.mark, "data-status", line.status);
    setText(this.mark, statusShape(line));
    setText(this.status, statusWords(line));
    setText(this.agent, line.agent);
    setText(this.task, plainLine(line.task) || "(no task)");
    this.task.title = line.task;
    setText(this.why, words);
    setText(this.detail, detail);
    this.now.title = detail;
    setText(this.children, childrenWords(line));
    setText(this.tokens, line.subtree_tokens > 0 ? tokenNumber(line.subtree_tokens) : "");
    setText(this.cost, line.pricing.length > 0 ? priceWords(line.subtree_cost_usd, line.pricing) : "");
    this.cost.title = priceNote(line.pricing);
    this.tick(Date.now());
  }

  /** @param {number} now */
  tick(now) {
    const { line } = this.heard;
    const seconds = lineSeconds(this.heard, now);
    const whole = !isEnded(line.status) && seconds < 60;
    setText(this.elapsed, whole ? `${Math.floor(seconds)}s` : durationWords(seconds));
    setText(this.started, agoWords(line.created_at, now));
    this.started.title = clockWords(line.created_at, now);
  }
}
