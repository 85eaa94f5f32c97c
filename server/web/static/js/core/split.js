/**
 * A handle between two panes: drag it, or move it by the arrow keys. Where it stands is a number that a shell may remember.
 */

import { element, setAttribute } from "./dom.js";

/**
 * @typedef {object} SplitOptions
 * @property {string} label
 * @property {HTMLElement} around what holds the panes; it gets the custom property
 * @property {string} property
 * @property {number} value per cent
 * @property {number} least
 * @property {number} most
 * @property {boolean} [fromEnd] the value is the size of the second pane
 * @property {(value: number) => void} changed
 */

/**
 * @param {SplitOptions} options
 * @returns {HTMLElement}
 */
export function splitHandle(options) {
  const { label, around, property, least, most, changed } = options;
  let { value } = options;
  const handle = element("div", {
    class: "x-split",
    role: "separator",
    tabindex: 0,
    "aria-orientation": "vertical",
    "aria-label": label,
    "aria-valuemin": least,
    "aria-valuemax": most,
  });
  const put = (/** @type {number} */ next, told = true) => {
    if (!Number.isFinite(next)) return;
    value = Math.min(most, Math.max(least, next));
    around.style.setProperty(property, `${value}%`);
    setAttribute(handle, "aria-valuenow", Math.round(value));
    if (told) changed(value);
  };
  handle.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowLeft" ? -2 : event.key === "ArrowRight" ? 2 : 0;
    if (step === 0) return;
    event.preventDefault();
    event.stopPropagation();
    put(value + (options.fromEnd ? -step : step));
  });
  handle.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    event.stopPropagation();
    handle.setPointerCapture(event.pointerId);
    const box = around.getBoundingClientRect();
    const move = (/** @type {PointerEvent} */ at) => {
      const part = ((at.clientX - box.left) / box.width) * 100;
      put(options.fromEnd ? 100 - part : part);
    };
    handle.addEventListener("pointermove", move);
    handle.addEventListener("lostpointercapture", () => handle.removeEventListener("pointermove", move), {
      once: true,
    });
  });
  put(value, false);
  return handle;
}
