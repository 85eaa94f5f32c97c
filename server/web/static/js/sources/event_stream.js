/**
 * Follows an event stream of the API over any number of connections: each stored event reaches the listener once and in
 * order, and a lost connection goes on after the last number.
 */

import { messageReader } from "./sse.js";

/** @import {StreamEvent, StreamListener} from "../types.js" */

/**
 * What the stream needs of its surroundings; tests replace it.
 * @typedef {object} StreamMeans
 * @property {(headers: Record<string, string>, signal: AbortSignal) => Promise<Response>} open
 * @property {(milliseconds: number, signal: AbortSignal) => Promise<void>} pause returns early when a retry makes sense
 * @property {number} silence milliseconds without a byte after which a connection counts as lost
 */

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 10_000;
/** How long "caught up" is shown after a reconnect, unless an event comes before. */
const CAUGHT_UP_SHOWN = 4_000;

/**
 * Milliseconds before try number `tries`: doubled each time, with jitter, so that many pages do not return at once.
 * @param {number} tries
 * @param {number} chance from 0 to 1
 */
export function retryPause(tries, chance) {
  return Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(tries - 1, 10)) * (0.75 + chance / 2);
}

/**
 * Starts to follow, and returns the function that stops. Once it was called the listener hears nothing more.
 * @param {number | null} after
 * @param {StreamListener} listener
 * @param {StreamMeans} means
 * @returns {() => void}
 */
export function followEvents(after, listener, means) {
  const stream = new EventFollower(after, listener, means);
  void stream.run();
  return () => stream.stop();
}

class EventFollower {
  /**
   * @param {number | null} after
   * @param {StreamListener} listener
   * @param {StreamMeans} means
   */
  constructor(after, listener, means) {
    this.listener = listener;
    this.means = means;
    this.stopping = new AbortController();
    /** The `id` of the last message, as the server wrote it. */
    this.last = after === null ? "" : String(after);
    /** @type {Map<string, number>} the newest number of each tree, since numbers are ordered within a tree */
    this.newest = new Map();
    this.floor = after ?? -1;
    this.tries = 0;
    this.ended = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.settling = undefined;
  }

  stop() {
    this.ended = true;
    clearTimeout(this.settling);
    this.stopping.abort();
  }

  async run() {
    while (!this.ended) {
      try {
        await this.connect();
      } catch {
        // Why a connection broke makes no difference: the next one goes on after the last number.
      }
      if (this.ended) return;
      this.tries += 1;
      this.tell("reconnecting");
      await this.means.pause(retryPause(this.tries, Math.random()), this.stopping.signal);
    }
  }

  async connect() {
    const connection = new AbortController();
    const giveUp = () => connection.abort();
    this.stopping.signal.addEventListener("abort", giveUp);
    let silence = setTimeout(giveUp, this.means.silence);
    try {
      /** @type {Record<string, string>} */
      const headers = { Accept: "text/event-stream" };
      if (this.last !== "") headers["Last-Event-ID"] = this.last;
      const response = await this.means.open(headers, connection.signal);
      if (response.status === 404 || response.status === 204) return this.end();
      if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
      if (this.tries === 0) this.tell("live");
      const read = messageReader((message) => this.take(message));
      const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece = await pieces.read(); !piece.done && !this.ended; piece = await pieces.read()) {
        clearTimeout(silence);
        silence = setTimeout(giveUp, this.means.silence);
        read(piece.value);
      }
    } finally {
      clearTimeout(silence);
      this.stopping.signal.removeEventListener("abort", giveUp);
      connection.abort();
    }
  }

  /** @param {import("./sse.js").StreamMessage} message */
  take(message) {
    if (this.ended) return;
    if (message.id !== "") this.last = message.id;
    if (message.event === "caught_up") return this.caughtUp();
    if (message.event === "ended") return this.end();
    if (message.data === "") return;
    const event = /** @type {StreamEvent} */ (JSON.parse(message.data));
    if (event.seq !== null) {
      const known = this.newest.get(event.root_execution_id) ?? this.floor;
      if (event.seq <= known) return;
      this.newest.set(event.root_execution_id, event.seq);
    }
    if (this.settling !== undefined) this.settle();
    this.listener.event(event);
  }

  caughtUp() {
    if (this.tries === 0) return;
    this.tries = 0;
    this.tell("caught_up");
    this.settling = setTimeout(() => this.settle(), CAUGHT_UP_SHOWN);
  }

  settle() {
    clearTimeout(this.settling);
    this.settling = undefined;
    this.tell("live");
  }

  end() {
    this.tell("ended");
    this.stop();
  }

  /** @param {"live" | "reconnecting" | "caught_up" | "ended"} state */
  tell(state) {
    if (this.ended) return;
    if (state === "reconnecting") clearTimeout(this.settling);
    this.listener.state(state, this.tries);
  }
}
