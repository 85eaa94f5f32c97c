/**
 * The time beside the tree: one axis for the bars and the minimap, what part of it is shown, and when it is made again.
 */

import { setAttribute } from "./dom.js";
import { timeOf } from "./format.js";
import { busyStretches, clampedWindow, timeAxis, WHOLE, zoomed } from "./layout.js";
import { Minimap } from "./minimap.js";
import { readPalette } from "./palette.js";
import { Timelines } from "./timelines.js";
import { Waterfall } from "./waterfall.js";

/** @import {Source} from "../types.js" */
/** @import {ZoomWindow} from "./layout.js" */
/** @import {TreeStore} from "./store.js" */
/** @import {RowWindow} from "./tree.js" */

const LEAST_PAUSE = 900;

export class TimelineView {
  /**
   * @param {Source} source
   * @param {TreeStore} store
   * @param {{select: (id: string) => void, redraw: () => void, zoomed: (view: ZoomWindow) => void}} hooks
   */
  constructor(source, store, hooks) {
    this.store = store;
    this.hooks = hooks;
    const zoom = (/** @type {ZoomWindow} */ view) => this.zoom(view);
    this.waterfall = new Waterfall(store, { select: hooks.select, zoom });
    this.minimap = new Minimap(store, zoom);
    this.timelines = new Timelines(source, () => {
      this.stale = true;
      hooks.redraw();
    });
    this.view = WHOLE;
    this.axis = timeAxis(0, 1, []);
    this.due = 0;
    /** What the axis was made from has changed. */
    this.stale = true;
    this.version = -1;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.now = store.now();
    /** @type {import("./palette.js").Palette | null} */
    this.palette = null;
  }

  /**
   * @param {number} width
   * @param {HTMLElement} within
   */
  resize(width, within) {
    this.waterfall.width = width;
    this.minimap.width = width;
    this.palette = readPalette(within);
    this.due = 0;
    this.stale = true;
  }

  /** @param {RowWindow} window */
  draw(window) {
    const { root } = this.store;
    if (root === null || this.palette === null || this.waterfall.width < 40) return;
    this.timelines.want(window.rows.filter((row) => row.refusal === null).map((row) => row.entry));
    this.stale ||= this.version !== this.store.version || root.sums.ended < root.sums.executions;
    const before = performance.now();
    if (this.stale && before >= this.due) this.measure(before);
    else if (this.stale) this.soon(this.due - before);
    const spans = (/** @type {string} */ id) => this.timelines.spans(id);
    this.waterfall.draw(window, { axis: this.axis, view: this.view, palette: this.palette, spans, now: this.now });
    const missing = window.rows.some(
      ({ id, refusal, entry }) => !refusal && entry.node.started_at && spans(id) === null,
    );
    setAttribute(this.waterfall.bars, "data-spans", missing ? "loading" : "ready");
  }

  /** @param {number} wait milliseconds */
  soon(wait) {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.hooks.redraw();
    }, wait);
  }

  /** @param {number} before */
  measure(before) {
    const { root } = this.store;
    if (root === null || this.palette === null) return;
    this.stale = false;
    this.version = this.store.version;
    this.now = this.store.now();
    const active = root.sums.ended < root.sums.executions;
    const to = active ? this.now : root.sums.lastEnd;
    this.axis = timeAxis(timeOf(root.node.created_at), to, busyStretches(root, this.timelines.all(), this.now));
    this.minimap.draw(this.axis, this.palette, this.now);
    // A big tree is measured less often: never more than a part of the time.
    this.due = before + Math.max(LEAST_PAUSE, 20 * (performance.now() - before));
  }

  /** @param {ZoomWindow} view */
  zoom(view) {
    this.view = clampedWindow(view.from, Math.min(1, Math.max(0.0005, view.to - view.from)));
    this.minimap.show(this.view);
    this.hooks.zoomed(this.view);
    this.hooks.redraw();
  }

  /** @param {string} command */
  command(command) {
    if (command === "fit") this.zoom(WHOLE);
    else if (command === "closer") this.zoom(zoomed(this.view, 0.7));
    else if (command === "further") this.zoom(zoomed(this.view, 1 / 0.7));
    else return false;
    return true;
  }

  destroy() {
    clearTimeout(this.timer);
    this.timelines.destroy();
  }
}
