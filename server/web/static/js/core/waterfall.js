/**
 * The time of the executions in sight, as bars on the rows of the tree: what waited, what the model and the tools took, and
 * the path that decided when the whole ended.
 */

import { element, setAttribute } from "./dom.js";
import { kindElement } from "./facts.js";
import { durationWords, isBad } from "./format.js";
import { barsOf, KINDS, placeOf, ticksOf, timeAt, WHOLE, zoomed } from "./layout.js";
import { cleared } from "./palette.js";

/** @import {Span, SpanKind} from "../types.js" */
/** @import {Bar, Tick, TimeAxis, ZoomWindow} from "./layout.js" */
/** @import {Palette} from "./palette.js" */
/** @import {TreeStore} from "./store.js" */
/** @import {RowWindow} from "./tree.js" */

const HEAD = 26;

/**
 * @typedef {object} Scene
 * @property {TimeAxis} axis
 * @property {ZoomWindow} view
 * @property {Palette} palette
 * @property {(id: string) => Span[] | null} spans
 * @property {number} now
 */

export class Waterfall {
  /**
   * @param {TreeStore} store
   * @param {{select: (id: string) => void, zoom: (view: ZoomWindow) => void}} hooks
   */
  constructor(store, hooks) {
    this.store = store;
    this.ticks = element("canvas", { class: "x-ticks", "aria-hidden": "true" });
    this.bars = element("canvas", { class: "x-bars", "aria-hidden": "true" });
    this.legend = element(
      "ul",
      { class: "x-legend x-time-legend", "data-legend": "", "aria-label": "What the bars mean" },
      ...Object.keys(KINDS).map((kind) => kindElement(/** @type {SpanKind} */ (kind))),
      element("li", {}, element("span", { class: "x-swatch", "data-kind": "bad" }), "failed"),
      element(
        "li",
        {
          title: "each execution of it ended last among those its parent waited for: faster, and the whole ends sooner",
        },
        element("span", { class: "x-swatch", "data-kind": "critical" }),
        "critical path: decided the end",
      ),
      element("li", {}, "◆ refused"),
      element("li", {}, "⋯ nothing worked: drawn short"),
    );
    this.width = 0;
    this.hooks = hooks;
    /** @type {{axis?: TimeAxis, view?: ZoomWindow, palette?: Palette, width: number, ticks: Tick[]}} what the marks were drawn from */
    this.ticked = { width: 0, ticks: [] };
    /** @type {RowWindow | null} */
    this.window = null;
    /** @type {Scene | null} */
    this.scene = null;
    this.bars.addEventListener("click", (event) => {
      const row = this.rowAt(event.offsetY);
      if (row !== undefined) hooks.select(row.id);
    });
    this.bars.addEventListener("pointermove", (event) => setAttribute(this.bars, "title", this.wordsAt(event) || null));
    this.bars.addEventListener(
      "wheel",
      (event) => {
        if (this.scene === null || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        const { view } = this.scene;
        const around = view.from + (event.offsetX / this.width) * (view.to - view.from);
        hooks.zoom(zoomed(view, event.deltaY > 0 ? 1.25 : 0.8, around));
      },
      { passive: false },
    );
    this.bars.addEventListener("dblclick", () => hooks.zoom(WHOLE));
  }

  /**
   * @param {RowWindow} window
   * @param {Scene} scene
   */
  draw(window, scene) {
    this.window = window;
    this.scene = scene;
    if (this.width < 40) return;
    const { rowHeight, first, rows } = window;
    const context = cleared(this.bars, this.width, rows.length * rowHeight);
    this.bars.style.setProperty("transform", `translateY(${first * rowHeight}px)`);
    if (context === null) return;
    this.drawTicks(context, rows.length * rowHeight);
    rows.forEach((row, place) => {
      const y = place * rowHeight;
      if (row.id === window.selected) {
        context.fillStyle = scene.palette.accent;
        context.globalAlpha = 0.1;
        context.fillRect(0, y, this.width, rowHeight);
        context.globalAlpha = 1;
      }
      if (row.refusal !== null) this.drawRefusal(context, Date.parse(row.refusal.at), y + rowHeight / 2);
      else this.drawRow(context, row.id, y);
    });
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} height
   */
  drawTicks(context, height) {
    if (this.scene === null) return;
    const { axis, view, palette } = this.scene;
    const drawn = this.ticked;
    if (drawn.axis !== axis || drawn.view !== view || drawn.width !== this.width || drawn.palette !== palette) {
      this.ticked = {
        axis,
        view,
        width: this.width,
        palette,
        ticks: ticksOf(axis, view, Math.min(1, 76 / this.width)),
      };
      this.drawLabels(this.ticked.ticks, palette);
    }
    context.fillStyle = palette.line;
    for (const tick of this.ticked.ticks) {
      const x = Math.round(this.x(tick.x));
      if (!tick.gap) context.fillRect(x, 0, 1, height);
      else for (let y = 0; y < height; y += 8) context.fillRect(x, y, 1, 3);
    }
  }

  /**
   * @param {Tick[]} ticks
   * @param {Palette} palette
   */
  drawLabels(ticks, palette) {
    const head = cleared(this.ticks, this.width, HEAD);
    if (head === null) return;
    head.font = `11px ${palette.font}`;
    head.fillStyle = palette["fg-muted"];
    head.textBaseline = "middle";
    /** @type {{from: number, to: number}[]} */
    const taken = [];
    // The length of a gap can be read nowhere else, so its label comes first.
    for (const tick of [...ticks.filter((each) => each.gap), ...ticks.filter((each) => !each.gap)]) {
      const x = this.x(tick.x);
      const label = tick.gap ? `⋯ ${tick.label}` : tick.label;
      const wide = head.measureText(label).width;
      const at = Math.max(2, Math.min(tick.gap ? x - wide / 2 : x + 3, this.width - wide - 2));
      if (taken.some(({ from, to }) => at < to && at + wide > from)) continue;
      head.fillText(label, at, HEAD / 2);
      taken.push({ from: at - 8, to: at + wide + 8 });
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {string} id
   * @param {number} y
   */
  drawRow(context, id, y) {
    const entry = this.store.get(id);
    if (entry === undefined || this.scene === null || this.window === null) return;
    const { palette, now } = this.scene;
    const high = Math.min(14, this.window.rowHeight - 12);
    const top = y + Math.round((this.window.rowHeight - high) / 2);
    for (const bar of barsOf(entry.node, this.scene.spans(id), now)) {
      const from = this.at(bar.from);
      const wide = Math.max(1.5, this.at(bar.to) - from);
      if (from > this.width || from + wide < 0) continue;
      const thin = bar.kind === "queue" || bar.kind === "children" || bar.kind === "idle";
      context.fillStyle = bar.bad ? palette.bad : colourOf(bar, palette, isBad(entry.node.status));
      if (thin) context.fillRect(from, top + high / 2 - 1.5, wide, 3);
      else {
        context.beginPath();
        context.roundRect(from, top, wide, high, Math.min(3, wide / 2));
        context.fill();
      }
    }
    if (isBad(entry.node.status) && entry.node.finished_at !== null) {
      context.fillStyle = palette.bad;
      const x = Math.min(this.at(Date.parse(entry.node.finished_at)) - 1, this.width - 3);
      context.fillRect(x, top - 2, 3, high + 4);
    }
    if (!this.store.critical.has(id)) return;
    const from = this.at(Date.parse(entry.node.started_at ?? entry.node.created_at));
    const to = entry.node.finished_at === null ? this.at(now) : this.at(Date.parse(entry.node.finished_at));
    context.fillStyle = palette.fg;
    context.fillRect(from, top + high + 2, Math.max(2, to - from), 1.5);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} time
   * @param {number} y
   */
  drawRefusal(context, time, y) {
    if (this.scene === null) return;
    const x = this.at(time);
    context.fillStyle = this.scene.palette.warn;
    context.beginPath();
    context.moveTo(x, y - 5);
    context.lineTo(x + 5, y);
    context.lineTo(x, y + 5);
    context.lineTo(x - 5, y);
    context.fill();
  }

  /** @param {number} place of the axis */
  x(place) {
    const { from, to } = this.scene?.view ?? WHOLE;
    return ((place - from) / (to - from)) * this.width;
  }

  /** @param {number} time */
  at(time) {
    return this.scene === null ? 0 : this.x(placeOf(this.scene.axis, time));
  }

  /** @param {number} y */
  rowAt(y) {
    return this.window?.rows[Math.floor(y / this.window.rowHeight)];
  }

  /**
   * What lies at a place of the canvas.
   * @param {MouseEvent} event
   */
  wordsAt({ offsetX, offsetY }) {
    const row = this.rowAt(offsetY);
    if (row === undefined || row.refusal !== null || this.scene === null) return "";
    const { axis, view, spans, now } = this.scene;
    const time = timeAt(axis, view.from + (offsetX / this.width) * (view.to - view.from));
    const bars = barsOf(row.entry.node, spans(row.id), now);
    const bar = bars.findLast((each) => each.from <= time && time <= each.to);
    const gap = axis.pieces.find((piece) => piece.gap && piece.from < time && time < piece.to);
    const parts = [];
    if (bar !== undefined) {
      const [name, means] = bar.kind === "own" ? ["ran", ""] : KINDS[bar.kind];
      const took = durationWords((bar.to - bar.from) / 1000);
      parts.push(`${row.entry.node.agent}: ${name}${bar.label ? ` ${bar.label}` : ""}, ${took}`);
      parts.push(bar.bad ? "failed" : bar.label ? "" : means);
      parts.push(this.store.critical.has(row.id) ? "on the critical path" : "");
    }
    if (gap !== undefined)
      parts.push(`${durationWords((gap.to - gap.from) / 1000)} in which nothing worked, drawn short`);
    return parts.filter(Boolean).join("; ");
  }
}

/**
 * @param {Bar} bar
 * @param {Palette} palette
 * @param {boolean} bad
 */
function colourOf({ kind }, palette, bad) {
  if (kind === "own") return bad ? palette.bad : palette.children; // what it did is not known yet
  return palette[kind];
}
