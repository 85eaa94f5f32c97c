/**
 * The facts of an execution: when, how long, how much, and how much is left.
 */

import { append, element } from "./dom.js";
import {
  clockWords,
  durationWords,
  isEnded,
  numberWords,
  priceNote,
  priceWords,
  secondsBetween,
  timeOf,
  tokenNumber,
  tokenWords,
  usdWords,
} from "./format.js";
import { KINDS } from "./layout.js";
import { pricingOf, tokensOf } from "./store.js";
import { subtreeSeconds, sumPrice } from "./tree_row.js";

/** @import {Execution, SpanKind, TreeNode} from "../types.js" */
/** @import {TreeEntry} from "./store.js" */

const SHOWN = /** @type {SpanKind[]} */ (Object.keys(KINDS));

/**
 * @param {TreeEntry} entry
 * @param {Execution | null} execution
 * @param {number} now
 * @returns {HTMLElement}
 */
export function factList(entry, execution, now) {
  const { node, sums } = entry;
  const list = element("dl", { class: "x-facts" });
  const fact = (/** @type {string} */ name, /** @type {string} */ words, /** @type {string} */ title = "") => {
    if (words === "") return;
    append(list, [element("div", title ? { title } : {}, element("dt", {}, name), element("dd", {}, words))]);
  };
  const below = sums.executions - 1;
  const own = secondsBetween(node.started_at, node.finished_at, now);
  const whole = subtreeSeconds(entry, now);
  fact("started", clockWords(node.started_at, Date.now()), node.started_at ?? "");
  const until = whole - own > 0.5 ? `, ${durationWords(whole)} with all below` : "";
  fact("duration", node.started_at === null ? "" : durationWords(own) + until);
  fact("level", node.level > 0 ? String(node.level) : "");
  const active = sums.running + sums.pending - (isEnded(node.status) ? 0 : 1);
  const many = active === below ? "" : numberWords(below);
  fact("below", below > 0 ? [many, active > 0 ? `${numberWords(active)} active` : ""].filter(Boolean).join(", ") : "");
  fact("turns", node.turns > 0 ? numberWords(node.turns) : "");
  fact("tool calls", node.tool_call_count > 0 ? numberWords(node.tool_call_count) : "");
  const shared = (/** @type {string} */ mine, /** @type {string} */ all) =>
    all === mine || all === "" ? mine : [mine, `${all} with all below`].filter(Boolean).join(", ");
  const counted = (/** @type {number} */ tokens) => (tokens > 0 ? tokenNumber(tokens) : "");
  const parts = `${tokenNumber(node.input_tokens)} in, ${tokenNumber(node.output_tokens)} out, ${tokenNumber(node.cache_read_tokens)} read from and ${tokenNumber(node.cache_write_tokens)} written to the cache`;
  fact("tokens", shared(counted(tokensOf(node)), counted(sums.tokens)), `itself: ${parts}`);
  const price = node.pricing.length > 0 ? priceWords(node.cost_usd, node.pricing) : "";
  const all = sumPrice(sums);
  fact("cost", all === "rehearsed" ? all : shared(price, all), priceNote(pricingOf(sums)));
  fact("model", node.model ?? "");
  fact("strategy", node.strategy);
  if (node.attempt > 1) fact("attempt", String(node.attempt));
  fact("for", execution?.principal ?? "");
  return list;
}

/**
 * How much of each limit is used.
 * @param {TreeEntry} entry
 * @param {Execution | null} execution
 * @param {number} now
 * @returns {HTMLElement[]}
 */
export function budgetBars(entry, execution, now) {
  return budgetsOf(entry, execution, now).map(({ name, part, words }) => {
    const bar = element("span", { class: "x-meter-fill" });
    bar.style.setProperty("width", `${Math.min(100, part * 100)}%`);
    const meter = element("span", { class: "x-meter", "data-near": part >= 0.8 }, bar);
    return element("div", { class: "x-budget" }, element("span", {}, name), meter, element("span", {}, words));
  });
}

/**
 * @param {TreeEntry} entry
 * @param {Execution | null} execution
 * @param {number} now
 */
export function budgetsOf({ node, sums }, execution, now) {
  const budgets = [];
  if (node.budget_usd) {
    const words = `${usdWords(Math.max(0, sums.cost))} of ${usdWords(node.budget_usd)}`;
    budgets.push({ name: "budget", part: sums.cost / node.budget_usd, words });
  }
  if (node.budget_tokens) {
    const words = `${tokenNumber(sums.tokens)} of ${tokenWords(node.budget_tokens)}`;
    budgets.push({ name: "tokens", part: sums.tokens / node.budget_tokens, words });
  }
  const whole = execution?.timeout_seconds ?? 0;
  const deadline = timeOf(execution?.node.deadline_at);
  // Without its process no time passes for it.
  if (execution && whole > 0 && Number.isFinite(deadline) && !isEnded(node.status) && !node.owner_gone) {
    const stopped = execution.clock_stopped_at;
    const left = Math.max(0, (deadline - (stopped === null ? now : timeOf(stopped))) / 1000);
    const words = `${durationWords(left)} left of ${durationWords(whole)}${stopped === null ? "" : ", its clock stands"}`;
    budgets.push({ name: "time", part: 1 - left / whole, words });
  }
  return budgets;
}

/**
 * A kind of time with its colour.
 * @param {SpanKind} kind
 * @param {string} [words]
 */
export function kindElement(kind, words = "") {
  const [name, title] = KINDS[kind];
  return element("li", { title }, element("span", { class: "x-swatch", "data-kind": kind }), name + words);
}

/**
 * Where the time went until now: the part that lasts has grown since the server told.
 * @param {TreeNode} node
 * @param {number} now
 * @returns {Record<SpanKind, number>}
 */
export function timesUntil({ times, created_at }, now) {
  const { lasting, ...parts } = times;
  const told = SHOWN.reduce((sum, kind) => sum + parts[kind], 0);
  if (lasting !== null) parts[lasting] += Math.max(0, secondsBetween(created_at, null, now) - told);
  return parts;
}

/**
 * Where the time went, as one bar with its words.
 * @param {TreeNode} node
 * @param {number} now
 * @returns {HTMLElement | null}
 */
export function timesBar(node, now) {
  const times = timesUntil(node, now);
  const whole = SHOWN.reduce((sum, kind) => sum + times[kind], 0);
  if (!(whole > 0)) return null;
  const shown = SHOWN.filter((kind) => times[kind] > 0);
  const bar = element("div", { class: "x-times", "aria-hidden": "true" });
  const words = element("ul", { class: "x-legend" });
  for (const kind of shown) {
    const piece = element("span", { "data-kind": kind });
    piece.style.setProperty("flex-grow", String(times[kind] / whole));
    bar.append(piece);
    words.append(kindElement(kind, ` ${durationWords(times[kind])}`));
  }
  return element("div", { class: "x-where" }, bar, words);
}
