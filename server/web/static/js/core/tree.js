/**
 * The tree as a grid of rows. Only the rows in sight have elements; they are used again as the list scrolls, so a tree of
 * any size costs the same.
 */

import { closest, element, setAttribute } from "./dom.js";
import { RowParts } from "./tree_row.js";

/** @import {TreeRow} from "./flatten.js" */
/** @import {TreeStore} from "./store.js" */

const OVERSCAN = 4;
let grids = 0;

/**
 * What the grid tells.
 * @typedef {object} GridHooks
 * @property {(row: TreeRow) => void} select
 * @property {(row: TreeRow) => void} open the reader wants its detail
 * @property {(row: TreeRow, open: boolean) => void} toggle
 * @property {(view: RowWindow) => void} drawn
 * @property {() => void} touched the reader scrolls
 * @property {() => void} scrolled it must be drawn again
 */

/** @typedef {{first: number, rows: TreeRow[], rowHeight: number, selected: string | null}} RowWindow */

export class TreeGrid {
  /**
   * @param {TreeStore} store
   * @param {GridHooks} hooks
   */
  constructor(store, hooks) {
    this.store = store;
    this.hooks = hooks;
    this.prefix = `x${++grids}-row-`;
    /** @type {TreeRow[]} */
    this.rows = [];
    /** @type {Map<string, number>} */
    this.places = new Map();
    /** @type {string | null} */
    this.selected = null;
    /** @type {RowParts[]} */
    this.pool = [];
    this.rowHeight = 28;
    this.height = 0;
    /** Where it is scrolled to, as it was told: to ask would make the browser lay out what has just been written. */
    this.top = 0;
    this.body = element("div", { class: "x-rows", role: "rowgroup" });
    this.axis = element(
      "span",
      { class: "x-time", role: "columnheader" },
      element("span", { class: "x-unseen" }, "Time"),
    );
    this.head = element(
      "div",
      { class: "x-headrow", role: "row" },
      element("span", { class: "x-name", role: "columnheader" }, "Agent"),
      element("span", { class: "x-text", role: "columnheader" }, "Doing"),
      element("span", { class: "x-figure", role: "columnheader" }, "Time"),
      element("span", { class: "x-figure", role: "columnheader" }, "Tokens"),
      element("span", { class: "x-figure", role: "columnheader" }, "Cost"),
      this.axis,
    );
    this.element = element(
      "div",
      { class: "x-grid", role: "treegrid", tabindex: 0, "aria-label": "Tree of executions", "data-grid": "" },
      element("div", { class: "x-headgroup", role: "rowgroup" }, this.head),
      this.body,
    );
    const scrolled = () => {
      this.top = this.element.scrollTop;
      hooks.scrolled();
    };
    this.element.addEventListener("scroll", scrolled, { passive: true });
    for (const kind of ["wheel", "touchmove", "pointerdown"]) {
      this.element.addEventListener(kind, () => hooks.touched(), { passive: true });
    }
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.body.addEventListener("dblclick", (event) => {
      const row = this.rowAt(event);
      if (row !== null) hooks.open(row);
    });
  }

  /** @param {number} rowHeight */
  resize(rowHeight) {
    this.rowHeight = rowHeight;
    this.element.style.setProperty("--x-row", `${rowHeight}px`);
    this.height = this.element.clientHeight;
    this.fit();
    this.draw();
  }

  /** @param {TreeRow[]} rows */
  setRows(rows) {
    this.rows = rows;
    this.places = new Map(rows.map((row, place) => [row.id, place]));
    setAttribute(this.element, "aria-rowcount", rows.length + 1);
    this.fit();
    this.draw();
  }

  fit() {
    this.body.style.setProperty("height", `${this.rows.length * this.rowHeight}px`);
    const wanted = Math.min(this.rows.length, Math.ceil(this.height / this.rowHeight) + 2 * OVERSCAN);
    while (this.pool.length < wanted) {
      const parts = new RowParts();
      this.pool.push(parts);
      this.body.append(parts.row);
    }
    while (this.pool.length > wanted) this.pool.pop()?.row.remove();
  }

  /** Fills the rows in sight; what has not changed is not written. */
  draw() {
    const { root } = this.store;
    if (root === null) return;
    const count = this.pool.length;
    const top = Math.floor(this.top / this.rowHeight) - OVERSCAN;
    const first = Math.max(0, Math.min(top, this.rows.length - count));
    const now = this.store.now();
    const asking = new Map(this.store.approvals.map((each) => [each.execution_id, each.tool]));
    for (let place = first; place < first + count; place += 1) {
      const parts = this.pool[place % count];
      const row = this.rows[place];
      if (parts === undefined || row === undefined) continue;
      parts.fill(row, { root, now, approval: asking.get(row.refusal === null ? row.id : "") ?? null });
      parts.row.style.setProperty("transform", `translateY(${place * this.rowHeight}px)`);
      setAttribute(parts.row, "id", this.prefix + place);
      setAttribute(parts.row, "aria-rowindex", place + 2);
      setAttribute(parts.row, "aria-selected", String(row.id === this.selected));
    }
    const active = this.selected === null ? undefined : this.places.get(this.selected);
    const shown = active !== undefined && active >= first && active < first + count;
    setAttribute(this.element, "aria-activedescendant", shown ? this.prefix + active : null);
    this.hooks.drawn({
      first,
      rows: this.rows.slice(first, first + count),
      rowHeight: this.rowHeight,
      selected: this.selected,
    });
  }

  /**
   * Marks a row, and scrolls as little as it takes to see it.
   * @param {string | null} id
   * @param {{scroll?: boolean}} [how]
   */
  mark(id, { scroll = true } = {}) {
    this.selected = id;
    if (scroll && id !== null) this.show(id);
    this.draw();
  }

  /** @param {string} id */
  show(id) {
    const place = this.places.get(id);
    if (place === undefined) return;
    const top = place * this.rowHeight;
    const head = this.head.offsetHeight;
    const { scrollTop } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + this.height - head) {
      this.element.scrollTop = top + this.rowHeight - this.height + head;
    }
    this.top = this.element.scrollTop;
  }

  /** The place of the marked row, or -1. */
  place() {
    return (this.selected === null ? undefined : this.places.get(this.selected)) ?? -1;
  }

  /** How many rows fit. */
  page() {
    return Math.max(1, Math.floor(this.height / this.rowHeight) - 2);
  }

  /** @param {Event} event */
  rowAt(event) {
    const target = closest(event, "role=row");
    return this.pool.find((parts) => parts.row === target)?.shown ?? null;
  }

  /** @param {Event} event */
  clicked(event) {
    const row = this.rowAt(event);
    if (row === null) return;
    if (closest(event, "class~=x-twisty") !== null && row.expanded !== null) {
      this.hooks.toggle(row, !row.expanded);
      return;
    }
    this.hooks.select(row);
  }
}
