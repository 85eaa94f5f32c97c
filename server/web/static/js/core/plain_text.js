/**
 * Markdown as plain words, for a line of a list and for a comparison. Pure: it makes no elements.
 */

import { plainInline } from "./markdown_inline.js";

/** Characters that a line is looked for in. */
const LOOKED_AT = 2000;
const HEADING = /^\s{0,3}#{1,6}\s+/;

/**
 * Whether a line only draws: a fence, a rule, the line below the head of a table.
 * @param {string} line
 */
function draws(line) {
  return /^\s{0,3}(?:`{3}|~{3})/.test(line) || (/^[\s|:*_-]+$/.test(line) && /-{2}|\*{3}|_{3}|- -/.test(line));
}

/**
 * The text with its lines and without its marks.
 * @param {string} text
 */
export function plainText(text) {
  return text
    .split(/\r?\n/)
    .filter((line) => !draws(line))
    .map((line) => plainInline(line.replace(HEADING, "").replace(/^(\s*)[-*+]\s+/, "$1• ")))
    .join("\n");
}

/**
 * The first line that says something, in plain words: a heading only where there is nothing else.
 * @param {string} text
 * @param {number} [most]
 */
export function plainLine(text, most = 200) {
  const lines = text
    .slice(0, LOOKED_AT)
    .split("\n")
    .filter((line) => line.trim() !== "" && !draws(line));
  const found = lines.find((line) => !HEADING.test(line)) ?? lines[0] ?? "";
  const bare = found.replace(/^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+|\|\s*)/, "").replace(/\s*\|\s*$/, "");
  // Where the text is cut, a mark has lost its end.
  const line = plainInline(bare.trim()).replace(/(?:`|\*\*)([^`*]*…)$/, "$1");
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}
