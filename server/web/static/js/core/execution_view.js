/**
 * One execution on a page: the tree, its time and the detail, kept together while the source tells what changes.
 */

import { bannersOf } from "./banners.js";
import { Detail } from "./detail.js";
import { replaceChildren } from "./dom.js";
import { Feed } from "./feed.js";
import { Expansion, firstLevels, visibleRows } from "./flatten.js";
import { isEnded, statusWords } from "./format.js";
import { LiveRegion } from "./live_region.js";
import { PageHead } from "./page_head.js";
import { Panes } from "./panes.js";
import { Reader } from "./reader.js";
import { TreeStore } from "./store.js";
import { TimelineView } from "./timeline_view.js";
import { Toolbar } from "./toolbar.js";
import { TreeGrid } from "./tree.js";

/** @import {Execution} from "../types.js" */
/** @import {ExecutionOptions} from "./execution.js" */

/** The figures above the tree change at most so often, in milliseconds. */
const HEAD_EVERY = 500;
const AFTER_ACTION = 2000;

export class ExecutionView {
  /**
   * @param {HTMLElement} parent
   * @param {ExecutionOptions} options
   */
  constructor(parent, options) {
    const { source, id, hooks = {} } = options;
    this.options = options;
    this.hooks = hooks;
    this.source = source;
    this.store = new TreeStore(source.writtenAt);
    this.expansion = new Expansion();
    this.query = options.q ?? "";
    this.shape = -1;
    this.asked = "";
    this.loads = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.again = undefined;
    this.frame = 0;
    /** @type {Execution | null} */
    this.execution = null;
    this.stream = { state: "loading", tries: 0, upstreams: /** @type {Map<string, string>} */ (new Map()) };
    const done = (/** @type {string} */ words, /** @type {Record<string, unknown>} */ answer) =>
      this.done(words, answer);
    const select = (/** @type {string} */ node, /** @type {string} */ call = "") => this.select(node, { call });
    const go = (/** @type {string} */ node, call = "") => this.select(node, { call, open: true });
    this.head = new PageHead(source, hooks, { done, go, copy: () => this.reader.command("copy") });
    this.time = new TimelineView(source, this.store, {
      select,
      redraw: () => this.schedule(),
      zoomed: () => this.tell(),
    });
    this.grid = new TreeGrid(this.store, {
      select: (row) => this.select(row.id, { open: true, scroll: false }),
      open: (row) => this.select(row.id, { open: true }),
      toggle: (row, open) => this.toggle(row.id, open),
      drawn: (window) => this.time.draw(window),
      scrolled: () => this.schedule(),
      touched: () => this.reader.follow(false),
    });
    this.grid.axis.append(this.time.waterfall.ticks);
    this.grid.body.append(this.time.waterfall.bars);
    this.detail = new Detail(source, this.store, {
      go: select,
      done,
      depth: () => this.tell(),
      close: () => this.panes.openDetail(false),
      loaded: (execution) => this.loaded(execution),
    });
    this.detail.depth = options.tab ?? "messages";
    this.detail.markTabs();
    this.toolbar = new Toolbar({
      search: (query) => this.search(query),
      command: (name) => this.reader.command(name),
    });
    this.toolbar.search.value = this.query;
    this.region = new LiveRegion();
    this.reader = new Reader(this);
    this.panes = new Panes(this, () => this.schedule());
    this.feed = new Feed(source, id, this.store, {
      changed: (ids) => this.changed(ids),
      heard: (event) => {
        const { type, payload } = event;
        if (!type.startsWith("upstream.")) return;
        const what = type.slice("upstream.".length);
        if (/unavail|lost|down|fail/.test(what)) this.stream.upstreams.set(String(payload.server ?? ""), what);
        else this.stream.upstreams.delete(String(payload.server ?? ""));
      },
      state: (state, tries) => this.standing(state, tries),
    });
    parent.append(this.panes.element);
    // A shell with keys of its own hands on what it does not take.
    if (hooks.help === undefined) this.panes.element.addEventListener("keydown", (event) => this.reader.pressed(event));
    this.ticking = setInterval(() => this.tick(), 1000);
  }

  async start() {
    const { element: root } = this.panes;
    root.dataset.state = "loading";
    try {
      await this.feed.start();
    } catch (failure) {
      if (!this.feed.gone) this.panes.fail(failure, () => this.start(), this.hooks.home);
      return;
    }
    const { root: top } = this.store;
    if (top === null || this.feed.gone) return;
    replaceChildren(this.panes.trouble);
    this.expansion.levels = firstLevels(top);
    const named = await this.reader.named(this.options.selected);
    if (this.feed.gone) return;
    this.panes.measure();
    this.select(named?.node.id ?? top.node.id, { quiet: true });
    this.reader.readZoom(this.options.zoom ?? "");
    this.redraw();
    root.dataset.state = "ready";
    if (this.execution === null && this.detail.entry !== top) this.loaded(await this.source.execution(top.node.id));
  }

  /** @param {string} id whole or short */
  find(id) {
    return this.store.get(id) ?? [...this.store.entries.values()].find(({ node }) => node.short_id === id);
  }

  /** @param {Set<string>} ids */
  changed(ids) {
    const shown = this.detail.entry?.node.id;
    const { root, approvals } = this.store;
    // A question to a person stops the clocks of all above it.
    const asked = approvals.map(({ id }) => id).join();
    const clocks = asked !== this.asked || !!this.execution?.clock_stopped_at;
    this.asked = asked;
    if (shown !== undefined && (clocks || ids.has(shown))) this.panes.soon("detail", () => this.detail.load());
    if (clocks || ids.has(root?.node.id ?? "")) this.panes.soon("head", () => this.reload());
    if (root !== null && ids.has(root.node.id)) {
      const { node, sums } = root;
      const status = statusWords(node);
      this.hooks.standing?.({ agent: node.agent, status, ended: isEnded(node.status) });
      this.region.say(`${node.agent} ${status}, ${sums.ended} of ${sums.executions} ended`);
    }
    this.reader.happened(ids);
    this.schedule();
  }

  async reload() {
    const { root } = this.store;
    if (root === null || this.detail.entry === root) return;
    try {
      this.loaded(await this.source.execution(root.node.id));
    } catch {
      // What is known stays; the stream tells whether the server is there.
    }
  }

  /** @param {Execution} execution */
  loaded(execution) {
    if (execution.node.id !== this.store.root?.node.id) return;
    this.execution = execution;
    this.loads += 1;
    this.schedule();
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => this.redraw());
  }

  redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { root } = this.store;
    if (root === null) return;
    if (this.shape !== this.store.shape) {
      this.shape = this.store.shape;
      const rows = visibleRows(root, this.expansion, this.query);
      this.toolbar.showFound(this.query === "" ? null : rows.filter((row) => row.found).length);
      this.panes.nothing.hidden = rows.length > 0;
      this.grid.setRows(rows);
    } else this.grid.draw();
    this.detail.drawVoice();
    const drawn = `${this.stream.state} ${this.loads} ${Math.floor(Date.now() / HEAD_EVERY)}`;
    if (this.panes.differs("head", drawn)) {
      const banners = bannersOf(this.store, root, this.execution, this.stream);
      this.head.draw(root, this.execution, banners, this.store.now());
      if (this.detail.entry !== null) this.detail.drawHead();
    } else this.panes.soon("figures", () => this.schedule()); // what changed since, also when nothing happens any more
  }

  reshape() {
    this.shape = -1;
    this.schedule();
  }

  tick() {
    const { root } = this.store;
    if (root === null || document.hidden) return;
    if (this.stream.state !== "ended") this.standing(this.stream.state, this.stream.tries);
    if (root.sums.ended < root.sums.executions) this.schedule();
    if (!root.node.owner_gone) this.feed.look();
  }

  /**
   * @param {string} id
   * @param {{call?: string, open?: boolean, quiet?: boolean, scroll?: boolean}} [how]
   */
  select(id, { call = "", open = call !== "", quiet = false, scroll = true } = {}) {
    const place = this.grid.places.get(id);
    const refusal = place === undefined ? null : (this.grid.rows[place]?.refusal ?? null);
    const entry = this.store.get(refusal === null ? id : refusal.parent_execution_id);
    if (entry === undefined) {
      if (this.hooks.open !== undefined) this.hooks.open(id);
      else this.reader.say("that execution is not in this tree");
      return;
    }
    if (place === undefined) {
      this.expansion.reveal(entry);
      if (this.query !== "" && !quiet) this.search("");
      this.shape = -1;
      this.redraw();
    }
    this.grid.mark(id, { scroll });
    this.detail.show(entry, call === "" ? null : call);
    if (!quiet) this.tell();
    if (open) this.panes.openDetail(true);
  }

  /**
   * @param {string} id
   * @param {boolean} open
   */
  toggle(id, open) {
    this.expansion.set(id, open);
    this.reshape();
  }

  /** @param {string} query */
  search(query) {
    this.query = query;
    this.toolbar.search.value = query;
    this.reshape();
    this.tell();
  }

  /** Tells the reader's place to the shell, for the address. */
  tell() {
    this.reader.tell();
  }

  /**
   * An action was done.
   * @param {string} words
   * @param {Record<string, unknown>} answer
   */
  done(words, answer) {
    this.reader.say(words);
    const made = answer.execution_id;
    if (typeof made === "string" && made !== this.detail.entry?.node.id && this.store.get(made) === undefined) {
      this.hooks.open?.(made);
    }
    this.feed.ask();
    // An execution that had ended is followed again as soon as it runs, which may take a moment.
    if (this.store.ended) this.again = setTimeout(() => this.feed.ask(), AFTER_ACTION);
    this.detail.load();
  }

  /**
   * @param {string} state
   * @param {number} tries
   */
  standing(state, tries) {
    Object.assign(this.stream, { state, tries });
    const rate = this.feed?.rate() ?? 0;
    const words = {
      live: rate >= 0.5 ? `live · ${Math.round(rate)} events/s` : "live",
      reconnecting: `reconnecting${tries > 1 ? ` (${tries})` : ""}`,
      caught_up: "caught up",
      ended: "",
    }[state];
    this.head.showLive(state, words ?? "");
    this.schedule();
  }

  destroy() {
    clearInterval(this.ticking);
    clearTimeout(this.again);
    cancelAnimationFrame(this.frame);
    this.feed.destroy();
    this.time.destroy();
    this.region.destroy();
    this.reader.destroy();
    this.panes.destroy();
  }
}
