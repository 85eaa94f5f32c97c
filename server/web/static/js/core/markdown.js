/**
 * Markdown as elements. What it says is made by hand, element by element: nothing in a text can become markup. Addresses
 * are shown and not hidden, and lead to pages only; what an answer cites becomes a button to the call.
 */

import { element } from "./dom.js";
import { inlineParts } from "./markdown_inline.js";

/** @import {InlineHooks} from "./markdown_inline.js" */

const LONGEST = 200_000;
const DEEPEST_LIST = 8;

/**
 * @param {string} text
 * @param {InlineHooks} [hooks]
 * @returns {HTMLElement}
 */
export function markdownElement(text, hooks = {}) {
  const shown = text.length > LONGEST ? text.slice(0, LONGEST) : text;
  const levels = [...shown.matchAll(/^\s{0,3}(#{1,6})\s/gm)].map(([, marks = ""]) => marks.length);
  const about = { ...hooks, top: Math.min(6, ...levels) };
  const made = element("div", { class: "x-markdown" }, ...blocks(shown.split(/\r?\n/), about, 0));
  if (shown.length < text.length)
    made.append(element("p", { class: "x-cut" }, "… the rest is too long to be shown here"));
  return made;
}

/**
 * @param {string[]} lines
 * @param {InlineHooks} hooks
 * @param {number} depth
 * @returns {HTMLElement[]}
 */
function blocks(lines, hooks, depth) {
  /** @type {HTMLElement[]} */
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    const taken =
      fence(lines, at) ??
      heading(line, hooks) ??
      rule(line) ??
      quote(lines, at, hooks, depth) ??
      table(lines, at, hooks) ??
      list(lines, at, hooks, depth) ??
      paragraph(lines, at, hooks);
    made.push(taken.made);
    at += Math.max(1, taken.lines);
  }
  return made;
}

/** @typedef {{made: HTMLElement, lines: number}} Taken */

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {Taken | null}
 */
function fence(lines, at) {
  const opened = /^\s{0,3}(`{3,}|~{3,})\s*([\w+-]*)/.exec(lines[at] ?? "");
  if (opened?.[1] === undefined) return null;
  const mark = opened[1];
  let end = at + 1;
  while (end < lines.length && !(lines[end] ?? "").trim().startsWith(mark)) end += 1;
  const code = lines.slice(at + 1, end).join("\n");
  const made = element("pre", { class: "x-code", tabindex: 0 }, element("code", {}, code));
  return { made, lines: end - at + 1 };
}

/**
 * @param {string} line
 * @param {InlineHooks} hooks
 * @returns {Taken | null}
 */
function heading(line, hooks) {
  const found = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
  if (found?.[1] === undefined) return null;
  // The page has two levels above these: an answer's highest becomes the third.
  const level = Math.min(6, Math.max(3, found[1].length - (hooks.top ?? 1) + 3));
  const name = /** @type {"h3" | "h4" | "h5" | "h6"} */ (`h${level}`);
  return { made: element(name, {}, ...inlineParts(found[2] ?? "", hooks)), lines: 1 };
}

/**
 * @param {string} line
 * @returns {Taken | null}
 */
function rule(line) {
  return /^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line) ? { made: element("hr"), lines: 1 } : null;
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {InlineHooks} hooks
 * @param {number} depth
 * @returns {Taken | null}
 */
function quote(lines, at, hooks, depth) {
  if (depth >= DEEPEST_LIST) return null;
  let end = at;
  while (end < lines.length && /^\s{0,3}>/.test(lines[end] ?? "")) end += 1;
  if (end === at) return null;
  const inner = lines.slice(at, end).map((line) => line.replace(/^\s{0,3}> ?/, ""));
  return { made: element("blockquote", {}, ...blocks(inner, hooks, depth + 1)), lines: end - at };
}

/** @param {string} line */
function cells(line) {
  const parts = line
    .trim()
    .replace(/^\||\|$/g, "")
    .split(/(?<!\\)\|/);
  return parts.map((part) => part.replaceAll("\\|", "|").trim());
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {InlineHooks} hooks
 * @returns {Taken | null}
 */
function table(lines, at, hooks) {
  const [head = "", marks = ""] = [lines[at], lines[at + 1]];
  if (!head.includes("|") || !marks.includes("-") || !cells(marks).every((mark) => /^:?-+:?$/.test(mark))) return null;
  const ends = cells(marks).map((mark) => mark.endsWith(":"));
  let end = at + 2;
  while (end < lines.length && (lines[end] ?? "").includes("|")) end += 1;
  const row = (/** @type {string} */ line, /** @type {"th" | "td"} */ name) => {
    const made = cells(line).map((cell, place) =>
      element(name, ends[place] ? { class: "x-right" } : {}, ...inlineParts(cell, hooks)),
    );
    return element("tr", {}, ...made);
  };
  const body = lines.slice(at + 2, end).map((line) => row(line, "td"));
  const made = element("table", {}, element("thead", {}, row(head, "th")), element("tbody", {}, ...body));
  return { made: element("div", { class: "x-wide", tabindex: 0 }, made), lines: end - at };
}

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+(.*)|)$/;

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {InlineHooks} hooks
 * @param {number} depth
 * @returns {Taken | null}
 */
function list(lines, at, hooks, depth) {
  const first = ITEM.exec(lines[at] ?? "");
  if (first === null || depth >= DEEPEST_LIST) return null;
  const indent = (first[1] ?? "").length;
  const ordered = /\d/.test(first[2] ?? "");
  /** @type {string[][]} */
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end] ?? "";
    const item = ITEM.exec(line);
    if (item !== null && (item[1] ?? "").length <= indent + 1) {
      if ((item[1] ?? "").length < indent || /\d/.test(item[2] ?? "") !== ordered) break;
      items.push([item[3] ?? ""]);
    } else if (/^\s/.test(line) || (line.trim() !== "" && (lines[end - 1] ?? "").trim() !== "")) {
      items.at(-1)?.push(line.replace(new RegExp(`^\\s{0,${indent + 4}}`), ""));
    } else if (line.trim() === "" && /^\s+\S|^\s*([-*+]|\d+[.)])\s/.test(lines[end + 1] ?? "")) items.at(-1)?.push("");
    else break;
  }
  const made = items.map((item) => listItem(item, hooks, depth));
  const start = ordered && first[2] !== "1." ? { start: Number.parseInt(first[2] ?? "1", 10) } : {};
  return { made: ordered ? element("ol", start, ...made) : element("ul", {}, ...made), lines: end - at };
}

/**
 * @param {string[]} lines
 * @param {InlineHooks} hooks
 * @param {number} depth
 */
function listItem(lines, hooks, depth) {
  const task = /^\[([ xX])\]\s+/.exec(lines[0] ?? "");
  if (task !== null) lines[0] = `${task[1] === " " ? "☐" : "☑"} ${(lines[0] ?? "").slice(task[0].length)}`;
  const made = blocks(lines, hooks, depth + 1);
  const [only] = made;
  if (only?.tagName === "P") only.replaceWith(...only.childNodes);
  const children = only?.tagName === "P" ? [...only.childNodes, ...made.slice(1)] : made;
  return element("li", {}, ...children);
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {InlineHooks} hooks
 * @returns {Taken}
 */
function paragraph(lines, at, hooks) {
  let end = at + 1;
  while (end < lines.length && !/^\s*$|^\s{0,3}(#{1,6}\s|`{3,}|~{3,}|>|[-*+]\s|\d{1,9}[.)]\s)/.test(lines[end] ?? "")) {
    end += 1;
  }
  /** @type {Node[]} */
  const parts = [];
  lines.slice(at, end).forEach((line, place) => {
    if (place > 0) parts.push(element("br"));
    parts.push(...inlineParts(line.trim(), hooks));
  });
  return { made: element("p", {}, ...parts), lines: end - at };
}
