/**
 * Keeps a store true: the tree once, then its events, and what they leave unsaid in changes asked for a few times a second.
 * Of a large tree what is nearest to its top comes first, so that a reader need not wait for the whole.
 */

/** @import {Source, StreamEvent, Tree} from "../types.js" */
/** @import {TreeStore} from "./store.js" */

/** Between two questions for changes, in milliseconds. */
const PAUSE_OF_CHANGES = 250;
const PAUSE_AFTER_FAILURE = 2000;
/** Executions of the first answer: more than are opened at the beginning. */
export const FIRST = 1000;
/** So long after the last answer a quiet tree is asked about again: a process that dies sends no event. */
export const QUIET = 4000;

/**
 * @typedef {object} FeedHooks
 * @property {(ids: Set<string>) => void} changed these nodes differ
 * @property {(event: StreamEvent) => void} heard
 * @property {(state: string, tries: number) => void} state
 */

export class Feed {
  /**
   * @param {Source} source
   * @param {string} id
   * @param {TreeStore} store
   * @param {FeedHooks} hooks
   */
  constructor(source, id, store, hooks) {
    this.source = source;
    this.id = id;
    this.store = store;
    this.hooks = hooks;
    this.stop = () => {};
    this.following = false;
    this.asking = false;
    this.stale = false;
    this.gone = false;
    this.asked = Date.now();
    /** Ends when the whole tree is here. @type {Promise<void>} */
    this.rest = Promise.resolve();
    /** The number of the last event: answers may be older than the stream. */
    this.newest = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** @type {number[]} times of the last events */
    this.times = [];
  }

  /** Brings the tree, or what is nearest to its top, and follows it once all of it is here. */
  async start() {
    const tree = await this.source.tree(this.id, FIRST);
    if (this.gone) return;
    const lacks = tree.nodes.length < tree.executions && !tree.truncated;
    this.take({ ...tree, truncated: tree.truncated || lacks });
    if (lacks) this.rest = this.complete();
    else this.follow();
  }

  /** Brings the whole tree, as often as it fails. */
  async complete() {
    while (!this.gone) {
      try {
        const tree = await this.source.tree(this.id);
        if (this.gone) return;
        this.take(tree);
        this.follow();
        return;
      } catch {
        await new Promise((done) => setTimeout(done, PAUSE_AFTER_FAILURE));
      }
    }
  }

  /** @param {Tree} tree */
  take(tree) {
    const changed = this.store.apply(tree);
    this.hooks.state(tree.ended ? "ended" : "live", 0);
    this.hooks.changed(changed);
  }

  follow() {
    if (this.source.follow === null || this.following || this.store.ended || this.gone) return;
    this.following = true;
    this.stop = this.source.follow(this.id, Math.max(this.store.cursor, this.newest), {
      event: (event) => this.hear(event),
      state: (state, tries) => {
        if (state === "ended") this.following = false;
        this.hooks.state(state, tries);
        if (state !== "reconnecting") this.ask();
      },
    });
  }

  /** @param {StreamEvent} event */
  hear(event) {
    this.newest = Math.max(this.newest, event.seq ?? 0);
    this.times.push(Date.now());
    if (this.times.length > 200) this.times.splice(0, 100);
    const asks = this.store.hear(event);
    this.hooks.heard(event);
    this.hooks.changed(new Set([event.execution_id]));
    if (asks) this.ask();
  }

  /** Asks for changes soon; once, however often it is called. */
  ask() {
    this.stale = true;
    if (this.timer !== undefined || this.asking || this.gone) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.fetch();
    }, PAUSE_OF_CHANGES);
  }

  look() {
    if (this.following && Date.now() - this.asked > QUIET) this.ask();
  }

  async fetch() {
    this.asking = true;
    this.asked = Date.now();
    this.stale = false;
    try {
      await this.rest; // its answer would be older than one about changes
      const tree = await this.source.changes(this.id, this.store.cursor);
      if (this.gone) return;
      const changed = this.store.apply(tree);
      this.hooks.changed(changed);
      this.follow();
    } catch {
      // The stream tells whether the server is there; until it is, what is known stays on the page.
      if (!this.gone) this.timer ??= setTimeout(() => this.again(), PAUSE_AFTER_FAILURE);
    } finally {
      this.asking = false;
    }
    if (this.stale) this.ask();
  }

  again() {
    this.timer = undefined;
    this.ask();
  }

  /** Events per second, of the last three. */
  rate() {
    const since = Date.now() - 3000;
    return this.times.filter((at) => at > since).length / 3;
  }

  destroy() {
    this.gone = true;
    clearTimeout(this.timer);
    this.stop();
  }
}
