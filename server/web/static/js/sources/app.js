/**
 * Answers through the host of an MCP App: each is a call of a tool of the server. The view has no network of its own.
 */

import { retryPause } from "./event_stream.js";

/** @import {Consequences, Execution, Source, StreamListener, Tree, TreeNode} from "../types.js" */

/**
 * What this source needs of its surroundings.
 * @typedef {object} AppMeans
 * @property {(name: string, given: Record<string, unknown>) => Promise<any>} callTool
 * @property {(signal: AbortSignal) => Promise<void>} shown returns once the view can be seen
 * @property {(milliseconds: number, signal: AbortSignal) => Promise<void>} pause
 * @property {(tree: Tree & {dashboard?: string}) => void} heard gets every answer about the tree
 */

/** Seconds that one call may wait for a change; the server allows no more. */
const LONGEST_POLL = 20;
/** What can be done from here. Decisions about approvals are not: a model must never reach them. */
const ACTIONS = new Set(["cancel", "wrap-up", "message"]);

/**
 * @param {AppMeans} means
 * @returns {Source}
 */
export function appSource(means) {
  /** @type {Map<string, TreeNode>} */
  const known = new Map();
  /** @type {Map<string, Tree>} the answer of the last long poll, until it is asked for */
  const news = new Map();

  /**
   * @param {string} id
   * @param {Record<string, unknown>} [more]
   * @returns {Promise<Tree>}
   */
  const followed = async (id, more = {}) => {
    const tree = await means.callTool("follow_tree", { execution_id: id, ...more });
    for (const node of tree.nodes) known.set(node.id, node);
    means.heard(tree);
    return undecided(tree);
  };
  /**
   * @param {string} id
   * @param {string} part
   * @param {Record<string, unknown>} [more]
   */
  const read = async (id, part, more = {}) =>
    (await means.callTool("read_execution", { id, part, ...more })).part ?? null;

  return {
    tree: (id) => followed(id),
    changes: async (id, after) => {
      const brought = news.get(`${id} ${after}`);
      news.clear();
      return brought ?? followed(id, { after, wait_seconds: 0 });
    },
    execution: async (id) => {
      /** @type {Execution} */
      const found = await read(id, "execution");
      return { ...found, actions: found.actions.filter((action) => ACTIONS.has(action)) };
    },
    transcript: (id, from) => read(id, "transcript", { position: from }),
    timeline: (id) => read(id, "timeline"),
    call: (id) => read(id, "call"),
    plan: (id) => read(id, "plan"),
    consequences: async (id) => consequencesOf(known, id),
    act: async (id, action, body) => means.callTool(...toolOf(id, action, body)),
    follow: (id, after, listener) => {
      const poll = new TreePoll(id, after, listener, means, async (cursor) => {
        const tree = await followed(id, { after: cursor, wait_seconds: LONGEST_POLL });
        news.clear();
        news.set(`${id} ${cursor}`, tree);
        return tree;
      });
      void poll.run();
      return () => poll.stop();
    },
  };
}

/**
 * The call that an action means.
 * @param {string} id
 * @param {string} action
 * @param {Record<string, unknown>} body
 * @returns {[string, Record<string, unknown>]}
 */
export function toolOf(id, action, body) {
  const reason = typeof body.reason === "string" && body.reason !== "" ? { reason: body.reason } : {};
  if (action === "cancel") return ["cancel_agent", { execution_id: id, ...reason }];
  if (action === "wrap-up") return ["cancel_agent", { execution_id: id, mode: "wrap_up", ...reason }];
  if (action === "message") return ["send_message", { execution_id: id, text: String(body.text ?? "") }];
  throw new Error(`\`${action}\` is possible only in the dashboard`);
}

/**
 * What a stop will do at and below an execution, as far as its tree is known here.
 * @param {Map<string, TreeNode>} known
 * @param {string} top
 * @returns {Consequences}
 */
export function consequencesOf(known, top) {
  /** @type {Map<string, boolean>} */
  const below = new Map([[top, true]]);
  /** @type {(id: string | null) => boolean} */
  const isBelow = (id) => {
    if (id === null) return false;
    const found = below.get(id) ?? isBelow(known.get(id)?.parent_execution_id ?? null);
    below.set(id, found);
    return found;
  };
  const stopped = [...known.values()].filter((node) => isBelow(node.id));
  const running = stopped.filter((node) => node.status === "running").length;
  const pending = stopped.filter((node) => node.status === "pending").length;
  const words = stopped.length > 1 ? [`${running} running and ${pending} pending executions, itself included`] : [];
  return { words, executions: stopped.length, running, pending };
}

/**
 * A tree without its open questions: the shell shows them, and nothing here decides them.
 * @param {Tree} tree
 * @returns {Tree}
 */
function undecided(tree) {
  return { ...tree, approvals: [] };
}

/** Asks again and again for changes, while the view is seen and the tree is open. */
class TreePoll {
  /**
   * @param {string} id
   * @param {number} after
   * @param {StreamListener} listener
   * @param {AppMeans} means
   * @param {(cursor: number) => Promise<Tree>} ask
   */
  constructor(id, after, listener, means, ask) {
    this.id = id;
    this.cursor = after;
    this.listener = listener;
    this.means = means;
    this.ask = ask;
    this.stopping = new AbortController();
    this.tries = 0;
  }

  stop() {
    this.stopping.abort();
  }

  async run() {
    const { signal } = this.stopping;
    this.listener.state("live", 0);
    while (!signal.aborted) {
      await this.means.shown(signal);
      if (signal.aborted) return;
      try {
        this.take(await this.ask(this.cursor));
      } catch {
        // The host or the server refused: the next call goes on behind the last event.
        if (signal.aborted) return;
        this.tries += 1;
        this.listener.state("reconnecting", this.tries);
        await this.means.pause(retryPause(this.tries, Math.random()), signal);
      }
    }
  }

  /** @param {Tree} tree */
  take(tree) {
    if (this.stopping.signal.aborted) return;
    if (this.tries > 0) this.listener.state("live", 0);
    this.tries = 0;
    if (tree.nodes.length > 0 || tree.refused.length > 0 || tree.ended) this.listener.event(this.news(tree));
    this.cursor = tree.cursor;
    if (!tree.ended) return;
    this.listener.state("ended", 0);
    this.stop();
  }

  /**
   * An event that says only that the tree has changed.
   * @param {Tree} tree
   * @returns {import("../types.js").StreamEvent}
   */
  news(tree) {
    return {
      seq: tree.cursor,
      type: "tree.changed",
      execution_id: this.id,
      parent_execution_id: null,
      root_execution_id: this.id,
      at: new Date().toISOString(),
      payload: {},
    };
  }
}
