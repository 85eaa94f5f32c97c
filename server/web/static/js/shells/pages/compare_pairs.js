/**
 * The two trees and their pairs: a row for each, which opens to the words that differ.
 */

import { element } from "../../core/dom.js";
import { durationWords, numberWords, priceWords, tokenNumber } from "../../core/format.js";
import { plainText } from "../../core/plain_text.js";
import { diffWords } from "../../core/word_diff.js";
import { statusBadge, statusMark } from "../parts.js";
import { executionHref } from "../router.js";

/** @import {Child} from "../../core/dom.js" */
/** @import {ComparedNode, ComparedPair, ComparedTree, Comparison} from "../../types_pages.js" */

/** @type {Record<ComparedPair["change"], {sign: string, words: string}>} */
const CHANGES = {
  same: { sign: "=", words: "equal" },
  changed: { sign: "≠", words: "changed" },
  only_a: { sign: "−", words: "only in A" },
  only_b: { sign: "+", words: "only in B" },
};

/** @param {Comparison} comparison */
export function comparisonHead({ a, b }) {
  return element("div", { class: "compared" }, treeCard("A", a, b), treeCard("B", b, a));
}

/**
 * @param {string} side
 * @param {ComparedTree} tree
 * @param {ComparedTree} other
 */
function treeCard(side, tree, other) {
  const after = side === "B";
  const figure = (
    /** @type {string} */ name,
    /** @type {(tree: ComparedTree) => number} */ value,
    /** @type {(value: number) => string} */ words,
  ) =>
    element(
      "div",
      {},
      element("dt", {}, name),
      element("dd", {}, words(value(tree)), after && change(value(other), value(tree))),
    );
  return element(
    "section",
    { class: "card compared-tree", "data-side": side.toLowerCase(), "aria-label": side },
    element(
      "header",
      { class: "row wrap" },
      element("span", { class: "side-name" }, side),
      element("h2", { class: "cut" }, element("a", { href: executionHref(tree.id) }, tree.agent)),
      statusBadge(tree),
      element("code", { class: "faint push" }, tree.short_id),
    ),
    element("p", { class: "soft clamp" }, tree.task),
    element(
      "dl",
      { class: "figures small" },
      figure("time", (each) => each.seconds, durationWords),
      figure("tokens", (each) => each.tokens, tokenNumber),
      figure(
        "cost",
        (each) => each.cost_usd,
        (usd) => priceWords(usd, tree.pricing),
      ),
      figure("executions", (each) => each.executions, numberWords),
    ),
    element(
      "div",
      { class: "compared-answer prose", tabindex: "0" },
      ...(after ? diffed(...plainly(other, tree), "added") : diffed(...plainly(tree, other), "removed")),
    ),
  );
}

/**
 * How much more or less, in percent, or how many times as much; nothing below one percent.
 * @param {number} before
 * @param {number} after
 */
function change(before, after) {
  if (before <= 0 || Math.abs(after - before) / before < 0.01) return null;
  const percent = Math.round((100 * (after - before)) / before);
  const words =
    percent >= 900 ? `×${numberWords(Math.round(after / before))}` : `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %`;
  return element("span", { class: "delta", "data-more": String(percent > 0) }, ` ${words}`);
}

/**
 * Two answers as plain words, unless they differ in their marks only.
 * @param {{answer: string}} a
 * @param {{answer: string}} b
 * @returns {[string, string]}
 */
function plainly({ answer: a }, { answer: b }) {
  const [before, after] = [plainText(a), plainText(b)];
  return before === after && a !== b ? [a, b] : [before, after];
}

/**
 * One side of a difference: the words of the other side are left out.
 * @param {string} a
 * @param {string} b
 * @param {"removed" | "added"} side
 * @returns {Child[]}
 */
function diffed(a, b, side) {
  if ((side === "added" ? b : a) === "") return [element("span", { class: "faint" }, "none")];
  return diffWords(a, b)
    .filter((part) => part.kind === "same" || part.kind === side)
    .map((part) => (part.kind === "same" ? part.text : element(side === "added" ? "ins" : "del", {}, part.text)));
}

/**
 * @param {ComparedPair[]} pairs
 * @param {Comparison} comparison
 * @returns {Child[]}
 */
export function pairRows(pairs, { a, b }) {
  if (pairs.length === 0) return [element("p", { class: "vacant soft" }, "None.")];
  const head = element(
    "div",
    { class: "pair-head", "aria-hidden": "true" },
    element("span", {}, "agent"),
    element("span", {}, "differs in"),
    ...["A", "B"].map((name) =>
      element(
        "span",
        { class: "pair-side", "data-side": name.toLowerCase() },
        element("span", { class: "side-name" }, name),
        ...["time", "tokens", "calls"].map((words) => element("span", {}, words)),
      ),
    ),
  );
  const rows = pairs.map((pair) => {
    const { sign, words } = CHANGES[pair.change];
    const name = element(
      "span",
      { class: "pair-agent" },
      element("span", { class: "pair-sign", "aria-hidden": "true" }, sign),
      element("span", { class: "cut" }, pair.differs.includes("agent") ? `${a.agent} / ${b.agent}` : pair.agent),
    );
    name.style.setProperty("padding-inline-start", `${Math.min(pair.level, 12) * 18}px`);
    const made = element(
      "details",
      { class: "pair", "data-change": pair.change },
      element(
        "summary",
        {},
        name,
        element("span", { class: "pair-differs" }, pair.change === "changed" ? pair.differs.join(", ") : words),
        side(pair.a),
        side(pair.b),
      ),
    );
    made.addEventListener("toggle", () => made.open && made.childElementCount === 1 && made.append(pairDetail(pair)));
    return made;
  });
  return [head, ...rows];
}

/** @param {ComparedNode | null} node */
function side(node) {
  if (node === null) return element("span", { class: "pair-side" });
  return element(
    "span",
    { class: "pair-side" },
    statusMark(node),
    element("span", {}, durationWords(node.seconds)),
    element("span", {}, tokenNumber(node.tokens)),
    element("span", {}, numberWords(node.tool_call_count)),
  );
}

/** @param {ComparedPair} pair */
function pairDetail({ a, b }) {
  const cell = (/** @type {string} */ name, /** @type {ComparedNode | null} */ node, /** @type {Child[]} */ children) =>
    element(
      "div",
      { class: "pair-cell" },
      element(
        "p",
        { class: "row faint" },
        name,
        node !== null && element("a", { class: "mono push", href: executionHref(node.id) }, node.short_id),
      ),
      ...(node === null ? ["There is none."] : children),
    );
  const both = (
    /** @type {string} */ title,
    /** @type {(node: ComparedNode) => string} */ of,
    [before, after] = [a === null ? "" : of(a), b === null ? "" : of(b)],
  ) => {
    if (before === "" && after === "") return null;
    const split = a !== null && b !== null;
    return element(
      "div",
      { class: "pair-part" },
      element("h3", {}, title),
      element(
        "div",
        { class: "pair-split" },
        cell("A", a, [
          element("p", { class: "prose", tabindex: "0" }, ...(split ? diffed(before, after, "removed") : [before])),
        ]),
        cell("B", b, [
          element("p", { class: "prose", tabindex: "0" }, ...(split ? diffed(before, after, "added") : [after])),
        ]),
      ),
    );
  };
  return element(
    "div",
    { class: "pair-detail" },
    both("Task", (node) => node.task),
    both("Answer", (node) => node.answer, plainly(a ?? { answer: "" }, b ?? { answer: "" })),
    both("Tool calls", (node) => node.tool_calls.join("\n")),
  );
}
