/**
 * The whole tree in a strip: where in time and depth something ran, with a brush for the part that the bars show.
 */

import { element } from "./dom.js";
import { isBad, timeOf } from "./format.js";
import { clampedWindow, placeOf, WHOLE } from "./layout.js";
import { cleared } from "./palette.js";

/** @import {TimeAxis, ZoomWindow} from "./layout.js" */
/** @import {Palette} from "./palette.js" */
/** @import {TreeEntry, TreeStore} from "./store.js" */

const HEIGHT = 44;
const MOST = 3000;

export class Minimap {
  /**
   * @param {TreeStore} store
   * @param {(view: ZoomWindow) => void} zoom
   */
  constructor(store, zoom) {
    this.store = store;
    this.zoom = zoom;
    this.width = 0;
    this.view = WHOLE;
    this.map = element("canvas", { "aria-hidden": "true" });
    this.brush = element("div", { class: "x-brush", hidden: true });
    this.element = element(
      "div",
      { class: "x-minimap", title: "Drag to see a part of the time; double-click for all of it" },
      this.map,
      this.brush,
    );
    this.element.addEventListener("pointerdown", (event) => this.drag(event));
    this.element.addEventListener("dblclick", () => zoom(WHOLE));
  }

  /**
   * @param {TimeAxis} axis
   * @param {Palette} palette
   * @param {number} now
   */
  draw(axis, palette, now) {
    const context = this.width < 40 ? null : cleared(this.map, this.width, HEIGHT);
    const { root } = this.store;
    if (context === null || root === null) return;
    for (const piece of axis.pieces.filter((each) => each.gap)) {
      context.fillStyle = palette.line;
      context.fillRect(piece.x * this.width, 0, (piece.end - piece.x) * this.width, HEIGHT);
    }
    const shown = sample(root, MOST);
    const high = Math.max(1, Math.min(5, (HEIGHT - 6) / shown.length - 0.5));
    shown.forEach((entry, place) => {
      const { node } = entry;
      const from = placeOf(axis, timeOf(node.created_at)) * this.width;
      const to = placeOf(axis, node.finished_at === null ? now : timeOf(node.finished_at)) * this.width;
      context.fillStyle = isBad(node.status) ? palette.bad : node.finished_at === null ? palette.accent : palette.model;
      context.globalAlpha = this.store.critical.has(node.id) || isBad(node.status) ? 1 : 0.55;
      context.fillRect(from, 3 + (place / shown.length) * (HEIGHT - 6), Math.max(1, to - from), high);
    });
    context.globalAlpha = 1;
  }

  /** @param {ZoomWindow} view */
  show(view) {
    this.view = view;
    this.brush.hidden = view.to - view.from > 0.999;
    this.brush.style.setProperty("left", `${view.from * 100}%`);
    this.brush.style.setProperty("width", `${(view.to - view.from) * 100}%`);
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (event.button !== 0 || this.width === 0) return;
    const box = this.element.getBoundingClientRect();
    const place = (/** @type {PointerEvent} */ at) => Math.min(1, Math.max(0, (at.clientX - box.left) / box.width));
    const start = place(event);
    const { view } = this;
    const moves = !this.brush.hidden && start > view.from && start < view.to;
    this.element.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ at) => {
      const x = place(at);
      if (moves) this.zoom(clampedWindow(view.from + x - start, view.to - view.from));
      else if (Math.abs(x - start) > 0.01) this.zoom({ from: Math.min(start, x), to: Math.max(start, x) });
    };
    const end = () => this.element.removeEventListener("pointermove", move);
    this.element.addEventListener("pointermove", move);
    this.element.addEventListener("lostpointercapture", end, { once: true });
  }
}

/**
 * At most so many executions, spread over the tree, and never without those that failed.
 * @param {TreeEntry} root
 * @param {number} most
 * @returns {TreeEntry[]}
 */
export function sample(root, most) {
  const every = Math.ceil(root.sums.executions / most);
  /** @type {TreeEntry[]} */
  const taken = [];
  const stack = [root];
  let passed = 0;
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    if (passed % every === 0 || (isBad(entry.node.status) && taken.length < 2 * most)) taken.push(entry);
    passed += 1;
    for (let place = entry.children.length - 1; place >= 0; place -= 1) {
      stack.push(/** @type {TreeEntry} */ (entry.children[place]));
    }
  }
  return taken;
}
