/**
 * What the keys do: one table, for the code and for the help.
 */

import { element } from "./dom.js";

/**
 * @typedef {object} KeyLine
 * @property {string[]} keys as `KeyboardEvent.key` names them; two keys in a row are divided by a space
 * @property {string} shown
 * @property {string} does
 * @property {string} command
 */

/** @type {KeyLine[]} */
export const KEYS = [
  { keys: ["j", "ArrowDown"], shown: "j ↓", does: "next row", command: "down" },
  { keys: ["k", "ArrowUp"], shown: "k ↑", does: "row before", command: "up" },
  { keys: ["ArrowRight", "l"], shown: "→", does: "expand, or go to the first child", command: "in" },
  { keys: ["ArrowLeft", "h"], shown: "←", does: "collapse, or go to the parent", command: "out" },
  { keys: ["PageDown"], shown: "Page ↓", does: "a page down", command: "page-down" },
  { keys: ["PageUp"], shown: "Page ↑", does: "a page up", command: "page-up" },
  { keys: ["Home"], shown: "Home", does: "first row", command: "first" },
  { keys: ["End"], shown: "End", does: "last row", command: "last" },
  { keys: ["Enter"], shown: "Enter", does: "open the detail", command: "open" },
  { keys: [" "], shown: "Space", does: "peek: show or hide the detail", command: "peek" },
  { keys: ["Escape"], shown: "Esc", does: "back", command: "back" },
  { keys: ["["], shown: "[", does: "collapse all", command: "collapse-all" },
  { keys: ["]"], shown: "]", does: "expand all", command: "expand-all" },
  {
    keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
    shown: "1 … 9",
    does: "expand to that level",
    command: "level",
  },
  { keys: ["e"], shown: "e", does: "next error", command: "error" },
  { keys: ["r"], shown: "r", does: "next running", command: "running" },
  { keys: ["/"], shown: "/", does: "search", command: "search" },
  { keys: ["n"], shown: "n", does: "next match", command: "match" },
  { keys: ["N"], shown: "N", does: "match before", command: "match-before" },
  { keys: ["m"], shown: "m", does: "detail as messages", command: "messages" },
  { keys: ["t"], shown: "t", does: "detail as turns", command: "turns" },
  { keys: ["d"], shown: "d", does: "raw detail", command: "raw" },
  { keys: ["f"], shown: "f", does: "follow what happens", command: "follow" },
  { keys: ["z"], shown: "z", does: "the whole time", command: "fit" },
  { keys: ["+", "="], shown: "+", does: "closer in time", command: "closer" },
  { keys: ["-"], shown: "-", does: "further away in time", command: "further" },
  { keys: ["x"], shown: "x", does: "cancel (asks first)", command: "cancel" },
  { keys: ["y"], shown: "y", does: "copy a link", command: "copy" },
  { keys: ["?"], shown: "?", does: "these keys", command: "help" },
];

/**
 * The command of a key; null where the reader types text, or holds a key for the browser.
 * @param {KeyboardEvent} event
 */
export function commandOf(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return null;
  const { target } = event;
  if (target instanceof HTMLElement) {
    if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return null;
    const pressed = event.key === "Enter" || event.key === " ";
    if (pressed && /^(BUTTON|A|SUMMARY)$/.test(target.tagName)) return null;
    if (target.closest("dialog") !== null) return null;
  }
  return KEYS.find((line) => line.keys.includes(event.key))?.command ?? null;
}

/** The table of keys, to be shown. */
export function keyHelp() {
  const lines = KEYS.map((line) =>
    element(
      "div",
      { class: "x-keyline" },
      element("dt", {}, ...line.shown.split(" ").map((key) => element("kbd", {}, key))),
      element("dd", {}, line.does),
    ),
  );
  return element("dl", { class: "x-keys" }, ...lines);
}
