/**
 * Where the parts of the view stand: side by side where there is room, one over the other on a phone.
 */

import { element, replaceChildren, setAttribute } from "./dom.js";
import { splitHandle } from "./split.js";

/** @import {ExecutionView} from "./execution_view.js" */

const NARROW_BELOW = 760;
/** Narrower, and the bars could not be read. */
const LEAST_TIME = 120;
/** Narrower, and the names and what they do need a line each. */
const ONE_LINE = 700;
const PAUSE_OF_PARTS = 300;

export class Panes {
  /**
   * @param {ExecutionView} view
   * @param {() => void} redraw
   */
  constructor(view, redraw) {
    const { head, toolbar, grid, time, detail, region, reader, hooks } = view;
    this.grid = grid;
    this.time = time;
    this.detail = detail;
    this.redraw = redraw;
    this.over = hooks.over;
    this.narrow = false;
    /** @type {Map<string, ReturnType<typeof setTimeout>>} */
    this.timers = new Map();
    /** @type {Map<string, string>} */
    this.drawn = new Map();
    this.trouble = element("div", { class: "x-trouble" });
    this.nothing = element(
      "p",
      { class: "x-nothing", hidden: true },
      "Nothing in this tree matches. Esc shows all of it.",
    );
    const skeleton = element("div", { class: "x-skeleton", "aria-hidden": "true" });
    for (let row = 0; row < 8; row += 1) skeleton.append(element("span"));
    this.main = element("div", { class: "x-main" });
    this.body = element("div", { class: "x-panes" });
    const remembered = (/** @type {string} */ key, /** @type {number} */ otherwise) =>
      Number(hooks.recall?.(key)) || otherwise;
    const handle = (/** @type {string} */ key, /** @type {string} */ label, /** @type {number} */ value) =>
      splitHandle({
        label,
        around: key === "split" ? this.body : this.main,
        property: `--x-${key}`,
        value: remembered(key, value),
        least: key === "split" ? 30 : 15,
        most: key === "split" ? 85 : 70,
        fromEnd: key === "time-part",
        changed: (now) => {
          hooks.remember?.(key, now.toFixed(1));
          this.measure();
        },
      });
    this.inner = handle("time-part", "Width of the time", 38);
    this.inner.classList.add("x-split-time");
    this.main.append(
      element("div", { class: "x-top" }, toolbar.element, time.minimap.element),
      element("div", { class: "x-tree" }, grid.element, this.inner, this.nothing, skeleton),
      time.waterfall.legend,
    );
    this.body.append(this.main, handle("split", "Width of the tree", 63), detail.element);
    this.element = element("div", { class: "x-execution", "data-page-part": "execution" });
    this.element.append(head.element, this.trouble, this.body, region.element, reader.toast);
    this.watch = new ResizeObserver(() => this.measure());
    this.watch.observe(this.element);
    this.watch.observe(this.main);
    this.theme = matchMedia("(prefers-color-scheme: dark)");
    this.themed = () => this.measure();
    this.theme.addEventListener("change", this.themed);
  }

  /** Takes the sizes and colours as they are now. */
  measure() {
    if (!this.element.isConnected) return;
    this.narrow = this.element.clientWidth < NARROW_BELOW;
    setAttribute(this.element, "data-narrow", this.narrow);
    const width = this.narrow ? 0 : this.grid.axis.clientWidth;
    this.time.resize(width < LEAST_TIME ? 0 : width, this.element);
    const tall = !this.narrow && this.main.clientWidth - width < ONE_LINE;
    setAttribute(this.element, "data-tall", tall);
    this.grid.resize(this.narrow ? 54 : tall ? 46 : 28);
    this.redraw();
  }

  /**
   * @param {boolean | null} open null: the other way
   * @param {boolean} [focus]
   */
  openDetail(open, focus = false) {
    const next = open ?? this.element.dataset.detail !== "open";
    if (this.narrow && next !== this.isOpen()) this.over?.(next);
    this.element.dataset.detail = next ? "open" : "closed";
    if (focus) this.detail.content.focus();
    else if (!next) this.grid.element.focus();
    this.measure();
  }

  /**
   * Says why there is no tree.
   * @param {unknown} failure
   * @param {() => void} retry
   * @param {string} [home] where to go instead
   */
  fail(failure, retry, home) {
    this.element.dataset.state = "error";
    const said = /** @type {{message?: string, hint?: string, status?: number}} */ (failure);
    const unknown = said.status === 404;
    const hint = unknown ? "Check the id in the address. What was deleted cannot be shown." : said.hint;
    replaceChildren(
      this.trouble,
      element("h1", { tabindex: -1 }, "This execution cannot be shown"),
      element("p", { role: "alert" }, said.message ?? "it cannot be loaded"),
      element("p", {}, hint),
      !unknown && element("button", { type: "button", onclick: retry }, "Try again"),
      home && element("a", { class: "x-button", href: home }, "All executions"),
    );
  }

  /** Whether the detail hides the tree. */
  isOpen() {
    return this.narrow && this.element.dataset.detail === "open";
  }

  /**
   * Does something a little later, once, however often it is asked for.
   * @param {string} what
   * @param {() => void} does
   */
  soon(what, does) {
    if (this.timers.has(what)) return;
    const timer = setTimeout(() => {
      this.timers.delete(what);
      does();
    }, PAUSE_OF_PARTS);
    this.timers.set(what, timer);
  }

  /**
   * Whether a part was drawn from something else before.
   * @param {string} part
   * @param {string} from
   */
  differs(part, from) {
    const before = this.drawn.get(part);
    this.drawn.set(part, from);
    return before !== from;
  }

  destroy() {
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.watch.disconnect();
    this.theme.removeEventListener("change", this.themed);
    this.element.remove();
  }
}
