/**
 * The spans of the executions in sight: asked for when the list rests, kept while they are true.
 */

import { isEnded } from "./format.js";

/** @import {Source, Span, Timeline} from "../types.js" */
/** @import {TreeEntry} from "./store.js" */

const AT_ONCE = 3;
const REST = 150;
/** A running execution is asked again after so many milliseconds, if it has changed. */
const STALE = 2000;

export class Timelines {
  /**
   * @param {Source} source
   * @param {() => void} arrived
   */
  constructor(source, arrived) {
    this.source = source;
    this.arrived = arrived;
    /** @type {Map<string, {version: string, at: number, spans: Span[]}>} */
    this.known = new Map();
    /** @type {Set<string>} */
    this.asked = new Set();
    /** @type {TreeEntry[]} */
    this.wanted = [];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /** @param {string} id */
  spans(id) {
    return this.known.get(id)?.spans ?? null;
  }

  /** Those that are known, by execution. */
  all() {
    return new Map([...this.known].map(([id, { spans }]) => [id, spans]));
  }

  /** @param {TreeEntry[]} entries in sight */
  want(entries) {
    this.wanted = entries;
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.ask();
    }, REST);
  }

  ask() {
    for (const { node } of this.wanted) {
      if (this.asked.size >= AT_ONCE) return;
      const version = `${node.status} ${node.turns} ${node.tool_call_count} ${node.waiting_for}`;
      const known = this.known.get(node.id);
      const fresh = known?.version === version || (known && !isEnded(node.status) && Date.now() - known.at < STALE);
      if (fresh || this.asked.has(node.id) || node.started_at === null) continue;
      this.asked.add(node.id);
      this.source.timeline(node.id).then(
        (timeline) => this.take(node.id, version, timeline),
        () => this.take(node.id, version, null),
      );
    }
  }

  /**
   * @param {string} id
   * @param {string} version
   * @param {Timeline | null} timeline null: it could not be had
   */
  take(id, version, timeline) {
    this.asked.delete(id);
    this.known.set(id, { version, at: Date.now(), spans: timeline?.spans ?? this.known.get(id)?.spans ?? [] });
    if (timeline !== null) this.arrived();
    this.ask();
  }

  destroy() {
    this.wanted = [];
    clearTimeout(this.timer);
  }
}
