/**
 * Markdown within a line: emphasis, code, addresses, and what an answer cites as its evidence.
 */

import { element } from "./dom.js";

/** @import {Citation} from "../types.js" */

/**
 * @typedef {object} InlineHooks
 * @property {Map<string, Citation>} [citations] by what is written
 * @property {(citation: Citation) => void} [cite] opens the call
 * @property {number} [top] the highest level of its headings
 */

const DEEPEST_MARK = 6;
/** A longer line is shown as it is: to look for marks in it would keep its reader waiting. */
const LONGEST_LINE = 5000;
const TOKEN =
  /(?<code>`+)(?<coded>[^`]+?)\k<code>|!?\[(?<name>[^\]]*)\]\((?<to>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+"[^"]*")?\)|(?<address>https?:\/\/[^\s<>"'`)\]]+)|\*\*(?<strong>(?:[^*]|\*(?!\*))+)\*\*|__(?<strong2>[^_]+)__|(?<![\w*])\*(?<soft>[^*\s](?:[^*]*[^*\s])?)\*|(?<![\w_])_(?<soft2>[^_\s](?:[^_]*[^_\s])?)_(?!\w)|~~(?<gone>[^~]+)~~|\[?(?<call>(?:toolu|call|tool)_[\w-]{3,})\]?|\\(?<escaped>[\\`*_{}[\]()#+.!|~>-])/gu;

/**
 * @param {string} text one line
 * @param {InlineHooks} hooks
 * @param {number} [depth]
 * @returns {Node[]}
 */
export function inlineParts(text, hooks, depth = 0) {
  if (text.length > LONGEST_LINE) return [document.createTextNode(text)];
  /** @type {Node[]} */
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    if (found.index > at) parts.push(...citedParts(text.slice(at, found.index), hooks));
    parts.push(...tokenParts(found, hooks, depth));
    at = found.index + found[0].length;
  }
  if (at < text.length) parts.push(...citedParts(text.slice(at), hooks));
  return parts;
}

/**
 * The words of a line without its marks: a link is its name, code is its text.
 * @param {string} text one line
 * @param {number} [depth]
 * @returns {string}
 */
export function plainInline(text, depth = 0) {
  if (text.length > LONGEST_LINE || depth > DEEPEST_MARK || !/[*_`~[\\]/.test(text)) return text;
  return text.replace(TOKEN, (whole, ...found) => {
    const { coded, name, to, strong, strong2, soft, soft2, gone, escaped } = found.at(-1);
    if (coded !== undefined) return coded;
    if (to !== undefined) return plainInline(name || to, depth + 1);
    const inner = strong ?? strong2 ?? soft ?? soft2 ?? gone;
    return inner === undefined ? (escaped ?? whole) : plainInline(inner, depth + 1);
  });
}

/**
 * @param {RegExpMatchArray} found
 * @param {InlineHooks} hooks
 * @param {number} depth
 * @returns {Node[]}
 */
function tokenParts(found, hooks, depth) {
  const said = found.groups ?? {};
  const inner = (/** @type {string} */ text) =>
    depth < DEEPEST_MARK ? inlineParts(text, hooks, depth + 1) : [document.createTextNode(text)];
  if (said.coded !== undefined) {
    // An answer may cite a call by the command that shows it.
    const citation = hooks.citations?.get(said.coded.replace(/^outrider show /, ""));
    return [citation === undefined ? codeElement(said.coded, hooks) : citationButton(citation, hooks)];
  }
  if (said.to !== undefined) return linkParts(inner(said.name ?? ""), said.name ?? "", said.to);
  if (said.address !== undefined) {
    const address = said.address.replace(/[.,;:!?]+$/, "");
    return [addressLink(address), document.createTextNode(said.address.slice(address.length))];
  }
  const strong = said.strong ?? said.strong2;
  if (strong !== undefined) return [element("strong", {}, ...inner(strong))];
  const soft = said.soft ?? said.soft2;
  if (soft !== undefined) return [element("em", {}, ...inner(soft))];
  if (said.gone !== undefined) return [element("s", {}, ...inner(said.gone))];
  if (said.escaped !== undefined) return [document.createTextNode(said.escaped)];
  const citation = hooks.citations?.get(said.call ?? "") ?? hooks.citations?.get(found[0]);
  return [citation === undefined ? document.createTextNode(found[0]) : citationButton(citation, hooks)];
}

/**
 * Code stays as it is written; what it cites opens.
 * @param {string} code
 * @param {InlineHooks} hooks
 */
function codeElement(code, hooks) {
  const written = (/** @type {Citation} */ citation) => citationButton(citation, hooks, citation.cited);
  return element("code", {}, ...citedParts(code, hooks, written));
}

/**
 * A link with its address in sight: what it says about itself may be a lie.
 * @param {Node[]} words
 * @param {string} name
 * @param {string} address
 * @returns {Node[]}
 */
function linkParts(words, name, address) {
  const safe = /^https?:\/\/[^\s]+$/i.test(address);
  if (name === address) return [safe ? addressLink(address) : document.createTextNode(address)];
  const shown = safe ? addressLink(address) : document.createTextNode(address);
  return [...words, document.createTextNode(" ("), shown, document.createTextNode(")")];
}

/** @param {string} address http or https */
function addressLink(address) {
  return element("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, address);
}

/**
 * Plain text, with what the answer is known to cite as buttons.
 * @param {string} text
 * @param {InlineHooks} hooks
 * @param {(citation: Citation) => HTMLElement} [make]
 * @returns {Node[]}
 */
function citedParts(text, hooks, make = (citation) => citationButton(citation, hooks)) {
  /** @type {Node[]} */
  const parts = [];
  let rest = text;
  while (rest !== "") {
    const next = firstCitation(rest, hooks.citations);
    if (next === null) break;
    if (next.at > 0) parts.push(document.createTextNode(rest.slice(0, next.at)));
    parts.push(make(next.citation));
    rest = rest.slice(next.at + next.citation.cited.length);
  }
  if (rest !== "") parts.push(document.createTextNode(rest));
  return parts;
}

/**
 * @param {string} text
 * @param {Map<string, Citation> | undefined} citations
 */
function firstCitation(text, citations) {
  let first = /** @type {{at: number, citation: Citation} | null} */ (null);
  for (const citation of citations?.values() ?? []) {
    const at = citation.cited === "" ? -1 : text.indexOf(citation.cited);
    if (at >= 0 && (first === null || at < first.at)) first = { at, citation };
  }
  return first;
}

/**
 * @param {Citation} citation
 * @param {InlineHooks} hooks
 * @param {string} [label]
 */
export function citationButton(citation, hooks, label = citation.tool || citation.cited) {
  if (citation.call_id === null) {
    return element(
      "span",
      { class: "x-cite", "data-missing": true, title: "no such call was made" },
      `${citation.cited} ?`,
    );
  }
  const open = () => hooks.cite?.(citation);
  const attributes = {
    type: "button",
    class: "x-cite",
    "data-cite": citation.call_id,
    title: citation.cited,
    onclick: open,
  };
  return element("button", attributes, label);
}
