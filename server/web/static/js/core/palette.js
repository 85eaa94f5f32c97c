/**
 * The colours of the page for canvases: a canvas knows no custom properties, so an element is asked what they come to.
 */

import { element } from "./dom.js";

/** @typedef {Record<(typeof TOKENS)[number] | "font", string>} Palette */

const TOKENS = /** @type {const} */ ([
  "fg",
  "fg-muted",
  "line",
  "accent",
  "ok",
  "bad",
  "warn",
  "idle",
  "model",
  "tool",
  "approval",
  "queue",
  "children",
  "bg",
  "bg-raised",
  "bg-sunken",
]);

/**
 * @param {HTMLElement} within
 * @returns {Palette}
 */
export function readPalette(within) {
  const probe = element("span", { class: "x-probe" });
  within.append(probe);
  /** @type {Record<string, string>} */
  const found = {};
  for (const token of TOKENS) {
    probe.style.setProperty("color", `var(--x-${token})`);
    found[token] = getComputedStyle(probe).color;
  }
  found.font = getComputedStyle(within).fontFamily;
  probe.remove();
  return /** @type {Palette} */ (found);
}

/**
 * A canvas made as sharp as the screen, and cleared.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {CanvasRenderingContext2D | null}
 */
export function cleared(canvas, width, height) {
  const sharp = globalThis.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * sharp), Math.round(height * sharp)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.setProperty("width", `${width}px`);
    canvas.style.setProperty("height", `${height}px`);
  }
  const context = canvas.getContext("2d");
  context?.setTransform(sharp, 0, 0, sharp, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}
