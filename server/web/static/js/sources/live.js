/**
 * The running server as a source of trees: requests for what is, an event stream for what changes.
 */

import { withQuery } from "./api.js";
import { followEvents } from "./event_stream.js";

/** @import {ApiClient} from "./api.js" */
/** @import {Source, StreamListener} from "../types.js" */

/** The server sends a heartbeat each 15 seconds. */
const SILENCE = 40_000;

/**
 * @param {ApiClient} api
 * @param {<T>(path: string) => Promise<T>} [get] asks what it reads
 * @returns {Source}
 */
export function liveSource(api, get = api.get.bind(api)) {
  /** @param {string} id */
  const at = (id) => `/executions/${encodeURIComponent(id)}`;
  return {
    tree: (id, first) => get(withQuery(`${at(id)}/tree`, { first })),
    changes: (id, after) => get(withQuery(`${at(id)}/tree`, { after })),
    execution: (id) => get(at(id)),
    transcript: (id, from) => get(withQuery(`${at(id)}/transcript`, { from })),
    timeline: (id) => get(`${at(id)}/timeline`),
    call: (id) => get(`/tool_calls/${encodeURIComponent(id)}`),
    plan: (id) => get(`${at(id)}/plan`),
    consequences: (id, action) => get(withQuery(`${at(id)}/consequences`, { action })),
    act: (id, action, body) => api.post(actionPath(id, action), body),
    follow: (id, after, listener) => follow(api, `${at(id)}/events`, after, listener),
  };
}

/**
 * Follows the events of every tree that the caller may see.
 * @param {ApiClient} api
 * @param {StreamListener} listener
 */
export function followAll(api, listener) {
  return follow(api, "/events", null, listener);
}

/**
 * Decisions are about an approval, every other action about an execution.
 * @param {string} id
 * @param {string} action
 */
export function actionPath(id, action) {
  const kind = action === "approve" || action === "deny" ? "approvals" : "executions";
  return `/${kind}/${encodeURIComponent(id)}/${action}`;
}

/**
 * @param {ApiClient} api
 * @param {string} path
 * @param {number | null} after
 * @param {StreamListener} listener
 */
function follow(api, path, after, listener) {
  return followEvents(after, listener, {
    open: (headers, signal) => {
      // The header wins over the query, so a later connection goes on where the last one ended.
      const asked = "Last-Event-ID" in headers ? path : withQuery(path, { after });
      const cut = new AbortController();
      // A connection that lost its network stays silent for long: its end is noticed here.
      window.addEventListener("offline", () => cut.abort(), { signal });
      return api.send(asked, { headers, signal: AbortSignal.any([signal, cut.signal]) });
    },
    pause: untilRetry,
    silence: SILENCE,
  });
}

/**
 * Waits; less long when the network, the server or the reader comes back.
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function untilRetry(milliseconds, signal) {
  return new Promise((done) => {
    const finish = () => {
      clearTimeout(timer);
      window.removeEventListener("online", finish);
      window.removeEventListener("reached", finish);
      document.removeEventListener("visibilitychange", seen);
      signal?.removeEventListener("abort", finish);
      done();
    };
    const seen = () => document.visibilityState === "visible" && finish();
    const timer = setTimeout(finish, milliseconds);
    window.addEventListener("online", finish);
    window.addEventListener("reached", finish);
    document.addEventListener("visibilitychange", seen);
    signal?.addEventListener("abort", finish);
  });
}
