/**
 * What the reader does on the page: keys and buttons, following what happens until they look elsewhere, and their place as
 * an address can say it.
 */

import { ACTIONS, askFirst } from "./actions.js";
import { element } from "./dom.js";
import { isEnded } from "./format.js";
import { commandOf } from "./keys.js";
import { WHOLE } from "./layout.js";
import { showKeys } from "./toolbar.js";
import { walk } from "./walk.js";

/** @import {ExecutionView} from "./execution_view.js" */

const TOAST = 4000;
/** What is followed changes at most so often, in milliseconds: a reader must be able to read it. */
const STEADY = 1200;

export class Reader {
  /** @param {ExecutionView} view */
  constructor(view) {
    this.view = view;
    this.follows = false;
    this.movedAt = 0;
    this.toast = element("p", { class: "x-toast", hidden: true, "data-toast": "" });
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const command = commandOf(event);
    if (command !== null && this.command(command, event.key)) event.preventDefault();
  }

  /**
   * @param {string} command
   * @param {string} [key]
   * @returns {boolean} whether it did something
   */
  command(command, key = "") {
    const { store, grid, expansion, time } = this.view;
    // A key acts on what the key before it made, also within one frame.
    if (this.view.shape === -1) this.view.redraw();
    const does = {
      store,
      grid,
      expansion,
      select: (/** @type {string} */ id) => this.view.select(id),
      reshape: () => this.view.reshape(),
      tell: (/** @type {string} */ words) => this.say(words),
    };
    if (walk(command, key, does)) {
      this.follow(false);
      return true;
    }
    return time.command(command) || this.onPage(command);
  }

  /** @param {string} command */
  onPage(command) {
    const { detail, panes, toolbar, grid, hooks } = this.view;
    /** @type {Record<string, () => void>} */
    const does = {
      messages: () => detail.setDepth("messages"),
      turns: () => detail.setDepth("turns"),
      raw: () => detail.setDepth("raw"),
      search: () => toolbar.search.focus(),
      focus: () => grid.element.focus(),
      follow: () => this.follow(!this.follows),
      help: () => (hooks.help ?? showKeys)(),
      open: () => panes.openDetail(true, true),
      peek: () => panes.openDetail(null),
      back: () => this.back(),
      copy: () => this.copy(),
      cancel: () => this.cancel(),
    };
    const act = does[command];
    act?.();
    return act !== undefined;
  }

  cancel() {
    const { detail, source } = this.view;
    const line = ACTIONS.find((each) => each.name === "cancel");
    const { entry, execution } = detail;
    // What is not here yet does not forbid it: the server knows.
    const can = execution === null ? !isEnded(entry?.node.status ?? "") : execution.actions.includes("cancel");
    if (entry === null || line === undefined || !can) {
      this.say("it cannot be cancelled now");
      return;
    }
    askFirst(line, entry.node.id, entry.node.agent, { source, done: (words, answer) => this.view.done(words, answer) });
  }

  /** From a search to all rows, from the detail to the tree, from the page to where the reader came from. */
  back() {
    const { panes, query, hooks, detail, grid } = this.view;
    if (query !== "") this.view.search("");
    else if (panes.isOpen()) panes.openDetail(false);
    else if (detail.element.contains(document.activeElement)) grid.element.focus();
    else hooks.back?.();
  }

  async copy() {
    const { hooks, store, grid } = this.view;
    const top = store.root?.node.id ?? "";
    const address = hooks.copyLink?.(top, grid.selected ?? top);
    if (address === undefined) return;
    try {
      await navigator.clipboard.writeText(address);
      this.say("link copied");
    } catch {
      this.say(address);
    }
  }

  /** @param {boolean} on */
  follow(on) {
    if (this.follows === on) return;
    this.follows = on;
    this.view.toolbar.showFollow(on);
    if (on) this.say("following what happens, until you move");
  }

  /**
   * Moves to what happened last, while the reader follows.
   * @param {Set<string>} ids
   */
  happened(ids) {
    if (!this.follows || Date.now() - this.movedAt < STEADY) return;
    const found = [...ids]
      .map((id) => this.view.store.get(id))
      .findLast((entry) => entry && !isEnded(entry.node.status));
    if (found === undefined || found.node.id === this.view.grid.selected) return;
    this.movedAt = Date.now();
    this.view.select(found.node.id);
  }

  tell() {
    const { grid, detail, query, time, hooks } = this.view;
    const { from, to } = time.view;
    const zoom = to - from > 0.999 ? "" : `${from.toFixed(4)}-${to.toFixed(4)}`;
    hooks.changed?.({ node: grid.selected ?? "", tab: detail.depth, q: query, zoom });
  }

  /** @param {string} zoom as `tell` told it */
  readZoom(zoom) {
    const [from = Number.NaN, to = Number.NaN] = zoom.split("-").map(Number);
    if (from >= 0 && to > from && to <= 1) this.view.time.zoom({ from, to });
    else this.view.time.view = WHOLE;
  }

  /**
   * The execution that an address names, which may be far down in a large tree.
   * @param {string} [id] whole or short
   */
  async named(id = "") {
    if (id === "") return undefined;
    if (this.view.find(id) === undefined) await this.view.feed.rest;
    const found = this.view.find(id);
    if (found === undefined) this.say("that execution is not in this tree");
    return found;
  }

  /** @param {string} words */
  say(words) {
    this.view.region.say(words);
    if (this.view.hooks.toast !== undefined) {
      this.view.hooks.toast(words);
      return;
    }
    this.toast.textContent = words;
    this.toast.hidden = false;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.toast.hidden = true;
    }, TOAST);
  }

  destroy() {
    clearTimeout(this.timer);
  }
}
