/**
 * One row of the tree: made once, then filled with one execution after the other as the list scrolls.
 */

import { element, setAttribute, setText } from "./dom.js";
import { DEEPEST, hiddenWords } from "./flatten.js";
import {
  durationWords,
  firstLine,
  isEnded,
  priceWords,
  secondsBetween,
  shownStatus,
  statusShape,
  statusWords,
  timeOf,
  tokenNumber,
  tokenWords,
} from "./format.js";
import { plainLine } from "./plain_text.js";
import { pricingOf, tokensOf } from "./store.js";

/** @import {TreeRow} from "./flatten.js" */
/** @import {Sums, TreeEntry} from "./store.js" */

/** Characters of a row that may be seen. */
const SEEN = 130;

/** The parts of a row that change. */
export class RowParts {
  constructor() {
    this.twisty = element("span", { class: "x-twisty", "aria-hidden": "true" });
    this.shape = element("span", { class: "x-shape", "aria-hidden": "true" });
    this.agent = element("span", { class: "x-agent" });
    this.level = element("span", { class: "x-level" });
    this.words = element("span", { class: "x-words" });
    this.task = element("span", { class: "x-task" });
    this.seconds = element("span", { class: "x-figure", role: "gridcell" });
    this.tokens = element("span", { class: "x-figure", role: "gridcell" });
    this.price = element("span", { class: "x-figure", role: "gridcell" });
    this.name = element("span", { class: "x-name", role: "gridcell" }, this.twisty, this.shape, this.agent, this.level);
    this.row = element(
      "div",
      { class: "x-row", role: "row" },
      this.name,
      element("span", { class: "x-text", role: "gridcell" }, this.words, this.task),
      this.seconds,
      this.tokens,
      this.price,
    );
    /** @type {TreeRow | null} */
    this.shown = null;
  }

  /**
   * @param {TreeRow} row
   * @param {{root: TreeEntry, now: number, approval: string | null}} about
   */
  fill(row, about) {
    const { row: target } = this;
    this.shown = row;
    setAttribute(target, "aria-level", row.level);
    setAttribute(target, "aria-posinset", row.index);
    setAttribute(target, "aria-setsize", row.siblings);
    setAttribute(target, "aria-expanded", row.expanded === null ? null : String(row.expanded));
    setAttribute(target, "data-found", row.found);
    target.style.setProperty("--x-indent", String(Math.min(row.level, DEEPEST) - 1));
    setText(this.twisty, row.expanded === null ? "" : row.expanded ? "▾" : "▸");
    setText(this.level, row.level > DEEPEST ? `level ${row.level}` : "");
    if (row.refusal === null) this.fillExecution(row, about);
    else this.fillRefusal(row);
  }

  /** @param {TreeRow} row */
  fillRefusal({ refusal, id }) {
    const { row: target } = this;
    setAttribute(target, "data-execution", null);
    setAttribute(target, "data-refused", id);
    setAttribute(target, "data-status", "refused");
    setText(this.shape, "⊖");
    setText(this.agent, refusal?.agent ?? "");
    setText(this.words, plainLine(`dispatch refused: ${refusal?.message ?? ""}`, SEEN));
    setText(this.task, "");
    for (const figure of [this.seconds, this.tokens, this.price]) {
      setText(figure, "");
      setAttribute(figure, "data-heat", null);
    }
    setAttribute(target, "aria-label", `${refusal?.agent}, dispatch refused: ${refusal?.message}`);
  }

  /**
   * @param {TreeRow} row
   * @param {{root: TreeEntry, now: number, approval: string | null}} about
   */
  fillExecution({ entry, expanded }, { root, now, approval }) {
    const { row: target } = this;
    const { node } = entry;
    const done = rowWords(entry);
    // A copy in a fork ended before its tree began.
    const kept = timeOf(node.finished_at) < timeOf(root.node.created_at) ? `kept: ${done}` : done;
    const words = approval === null ? kept : `waits for your decision on ${approval}`;
    const folded = expanded === false ? hiddenWords(entry, true) : "";
    setAttribute(target, "data-execution", node.id);
    setAttribute(target, "data-refused", null);
    setAttribute(target, "data-status", approval === null ? toneOf(entry) : "approval");
    setText(this.shape, statusShape(node));
    setText(this.agent, node.agent);
    const said = folded === "" ? words : words === "" ? folded : `${folded} · ${words}`;
    // What cannot be seen in a row is not laid out: the whole stands in the detail.
    setText(this.words, firstLine(said, SEEN));
    setAttribute(this.agent, "title", node.agent);
    const task = said.length < SEEN ? plainLine(node.task, SEEN - said.length) : "";
    setText(this.task, said === "" || task === "" ? task : ` — ${task}`);
    setAttribute(this.words, "title", words);
    this.fillFigures(entry, root, now);
    const label = [
      node.agent,
      statusWords(node),
      words,
      expanded === false && hiddenWords(entry),
      plainLine(node.task, 80),
    ];
    setAttribute(target, "aria-label", label.filter(Boolean).join(", "));
  }

  /**
   * @param {TreeEntry} entry
   * @param {TreeEntry} root
   * @param {number} now
   */
  fillFigures(entry, root, now) {
    const { node, sums } = entry;
    const own = node.started_at === null ? 0 : secondsBetween(node.started_at, node.finished_at, now);
    const whole = Math.max(own, subtreeSeconds(entry, now));
    const below = sums.executions > 1;
    setText(this.seconds, node.started_at === null && isEnded(node.status) ? "" : durationWords(whole));
    setAttribute(
      this.seconds,
      "title",
      below ? `${durationWords(own)} itself, ${durationWords(whole)} with all below` : null,
    );
    const tokens = tokensOf(node);
    setText(this.tokens, sums.tokens === 0 ? "" : tokenNumber(sums.tokens));
    setAttribute(
      this.tokens,
      "title",
      below ? `${tokenWords(tokens)} itself, ${tokenWords(sums.tokens)} with all below` : null,
    );
    setText(this.price, sumPrice(sums));
    const price = priceWords(node.cost_usd, node.pricing);
    setAttribute(this.price, "title", below ? `${price} itself, ${sumPrice(sums)} with all below` : null);
    setAttribute(this.seconds, "data-heat", entry === root ? null : heatOf(whole, subtreeSeconds(root, now)));
    setAttribute(this.tokens, "data-heat", entry === root ? null : heatOf(sums.tokens, root.sums.tokens));
    setAttribute(this.price, "data-heat", entry === root ? null : heatOf(sums.cost, root.sums.cost));
  }
}

/** @param {Sums} sums */
export function sumPrice(sums) {
  const pricing = pricingOf(sums);
  return pricing.length === 0 ? "" : priceWords(Math.max(0, sums.cost), pricing);
}

/**
 * From the start of an execution until everything below it has ended, or until now.
 * @param {TreeEntry} entry
 * @param {number} now
 */
export function subtreeSeconds({ node, sums }, now) {
  const from = timeOf(node.started_at ?? node.created_at);
  const until = sums.ended < sums.executions ? now : sums.lastEnd;
  return Number.isFinite(from) ? Math.max(0, (until - from) / 1000) : 0;
}

/**
 * How much of the whole: nothing below a tenth, 3 from a half.
 * @param {number} part
 * @param {number} whole
 */
function heatOf(part, whole) {
  const share = whole > 0 ? part / whole : 0;
  if (share < 0.1) return null;
  return share < 0.25 ? 1 : share < 0.5 ? 2 : 3;
}

/**
 * The word that colours a row.
 * @param {TreeEntry} entry
 */
export function toneOf({ node }) {
  if (!isEnded(node.status) && node.owner_gone) return "interrupted";
  if (!isEnded(node.status) && node.cancel_requested) return "cancelling";
  return shownStatus(node);
}

/**
 * What an execution does, or how it ended, in words.
 * @param {TreeEntry} entry
 * @returns {string}
 */
export function rowWords({ node }) {
  if (!isEnded(node.status) && (node.owner_gone || node.cancel_requested)) return statusWords(node);
  switch (node.status) {
    case "running":
      return node.activity || (node.waiting_for ? `waiting for ${node.waiting_for}` : "working");
    case "pending":
      return node.activity || "waiting for a slot";
    case "completed": {
      const part = node.outcome === "partial" ? `in part${node.reason ? ` (${node.reason})` : ""}` : "";
      return [part, plainLine(node.summary)].filter(Boolean).join(": ");
    }
    case "failed":
    case "timed_out":
      return node.error ? `${statusWords(node)}: ${plainLine(node.error)}` : statusWords(node);
    default:
      return node.reason && node.reason !== node.status ? `${statusWords(node)}: ${node.reason}` : statusWords(node);
  }
}
