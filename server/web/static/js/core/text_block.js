/**
 * A text of any length: its beginning at once, the rest when it is asked for, and always how much there is.
 */

import { element } from "./dom.js";
import { sizeWords } from "./format.js";

const SHOWN = 2400;
const MOST_SHOWN = 400_000;

/**
 * @param {string} text
 * @param {{truncated?: boolean, whole?: (() => Promise<string>) | null, make?: (text: string) => HTMLElement}} [options]
 *   truncated: the text is cut already; whole: brings all of it; make: how a text is drawn
 * @returns {HTMLElement}
 */
export function textBlock(text, { truncated = false, whole = null, make = codeElement } = {}) {
  const holder = element("div", { class: "x-block" });
  const show = (/** @type {string} */ now, /** @type {boolean} */ all) => {
    const most = all ? MOST_SHOWN : SHOWN;
    const cut = now.length > most;
    holder.replaceChildren(make(cut ? `${now.slice(0, most)}…` : now));
    if (!cut && !(truncated && !all)) return;
    const note = truncated && !all ? "cut here" : `${sizeWords(now.length)} in all`;
    const more = truncated && !all ? "Load whole" : "Show whole";
    const button = element("button", { type: "button", class: "x-link", "data-action": "whole" }, more);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        show(truncated && whole !== null ? await whole() : now, true);
      } catch (failure) {
        button.disabled = false;
        button.textContent = `${failure instanceof Error ? failure.message : "it cannot be loaded"}; try again`;
      }
    });
    const offered = !(all || (truncated && whole === null && now.length <= SHOWN));
    holder.append(element("p", { class: "x-cut" }, `… ${note} `, offered && button));
  };
  show(text, false);
  return holder;
}

/** @param {string} text */
function codeElement(text) {
  return element("pre", { class: "x-code", tabindex: 0 }, element("code", {}, text));
}
