/**
 * Parts that several pages are made of: a head, the states of a page, text that can be copied.
 */

import { element, replaceChildren } from "../core/dom.js";
import { priceNote, priceWords, statusShape, statusWords } from "../core/format.js";
import { errorWords } from "../sources/api.js";

/** @import {Child} from "../core/dom.js" */
/** @import {Standing} from "../core/format.js" */
/** @import {Shell} from "./shell.js" */

/**
 * @param {string} title
 * @param {Child[]} beside
 */
export function pageHead(title, ...beside) {
  return element("header", { class: "page-head" }, element("h1", { tabindex: "-1" }, title), ...beside);
}

/**
 * The shape and colour of a status, with its words for readers who see neither.
 * @param {Standing} standing
 */
export function statusMark(standing) {
  return element(
    "span",
    { class: "status", "data-status": standing.status, "data-outcome": standing.outcome, title: statusWords(standing) },
    element("span", { "aria-hidden": "true" }, statusShape(standing)),
    element("span", { class: "hidden-visually" }, statusWords(standing)),
  );
}

/** @param {Standing} standing */
export function statusBadge(standing) {
  return element(
    "span",
    { class: "badge", "data-status": standing.status, "data-outcome": standing.outcome },
    element("span", { "aria-hidden": "true" }, statusShape(standing)),
    statusWords(standing),
  );
}

/**
 * @param {number} usd
 * @param {Iterable<string>} pricing
 */
export function price(usd, pricing) {
  return element("span", { title: priceNote(pricing) }, priceWords(usd, pricing));
}

/**
 * Rows that stand for what is still on its way.
 * @param {number} rows
 * @param {number} [height]
 */
export function skeleton(rows, height = 44) {
  const holder = element("div", { class: "skeleton-rows", "aria-hidden": "true" });
  for (let row = 0; row < rows; row += 1) {
    const bar = element("span", { class: "skeleton" });
    bar.style.setProperty("inline-size", `${88 - ((row * 37) % 46)}%`);
    const line = element("div", { class: "skeleton-row" }, bar);
    line.style.setProperty("block-size", `${height}px`);
    holder.append(line);
  }
  return holder;
}

/**
 * @param {unknown} failure
 * @param {() => void} [retry]
 */
export function failureCard(failure, retry) {
  const { message, hint } = errorWords(failure);
  return element(
    "div",
    { class: "banner failure", "data-tone": "bad", role: "alert" },
    element("strong", {}, message),
    hint !== "" && element("span", { class: "hint" }, hint),
    retry !== undefined &&
      element("button", { class: "button push", "data-size": "small", type: "button", onclick: retry }, "Try again"),
  );
}

/**
 * Shows what an answer brings, a skeleton until then, or why there is none.
 * @template T
 * @param {HTMLElement} place
 * @param {() => Promise<T>} ask
 * @param {(answer: T) => Child[] | "empty"} show what to put there; "empty" if `show` has filled the place itself
 */
export async function load(place, ask, show) {
  if (place.dataset.state === undefined || place.dataset.state === "error") {
    place.dataset.state = "loading";
    replaceChildren(place, skeleton(6));
  }
  place.setAttribute("aria-busy", "true");
  try {
    const shown = show(await ask());
    if (shown === "empty") place.dataset.state = "empty";
    else {
      replaceChildren(place, ...shown);
      place.dataset.state = "ready";
    }
  } catch (failure) {
    if (failure instanceof DOMException && failure.name === "AbortError") return;
    place.dataset.state = "error";
    replaceChildren(
      place,
      failureCard(failure, () => void load(place, ask, show)),
    );
  } finally {
    place.removeAttribute("aria-busy");
  }
}

/**
 * @param {Shell} shell
 * @param {string} text
 * @param {string} what
 */
export async function copyText(shell, text, what) {
  try {
    await navigator.clipboard.writeText(text);
    shell.toast(`${what} copied`, { tone: "ok" });
  } catch {
    shell.toast(`${what} not copied: the browser does not allow it here`, { hint: text });
  }
}

/**
 * A command line with a button that copies it.
 * @param {Shell} shell
 * @param {string} command
 */
export function commandLine(shell, command) {
  return element(
    "div",
    { class: "command" },
    element("code", {}, command),
    actionButton("copy", "Copy", () => void copyText(shell, command, "command"), { size: "small" }),
  );
}

/**
 * A button that starts an action of the page; `name` is what test drivers find it by.
 * @param {string} name
 * @param {string} words
 * @param {() => void} act
 * @param {{kind?: string, size?: string, title?: string, label?: string}} [more]
 */
export function actionButton(name, words, act, { kind, size, title, label } = {}) {
  const look = { class: "button", "data-kind": kind, "data-size": size, title, "aria-label": label };
  return element("button", { ...look, type: "button", "data-action": name, onclick: act }, words);
}

/**
 * A table that scrolls within its frame.
 * @param {string} label
 * @param {Child[]} heads
 * @param {HTMLElement} body
 * @param {string} [frame] its classes
 */
export function dataTable(label, heads, body, frame = "scroll") {
  const head = element("thead", {}, element("tr", {}, ...heads));
  const region = { class: frame, tabindex: "0", role: "region", "aria-label": label };
  return element("div", region, element("table", { class: "table" }, head, body));
}
