/**
 * The tree as it is known now: nodes by id, their children, and the sums of each subtree. Pure: it knows neither a page nor
 * a source. Sums follow a change along its ancestors only, so a change costs the depth of its node and not the tree.
 */

import { isBad, isEnded, timeOf } from "./format.js";

/** @import {Approval, RefusedDispatch, Status, StreamEvent, Tree, TreeNode} from "../types.js" */

const PRICINGS = ["priced", "partly", "unpriced", "rehearsed"];
const ADDED = /** @type {const} */ (["executions", "ended", "running", "pending", "bad", "refused", "tokens", "cost"]);

/**
 * Figures of an execution with everything below it.
 * @typedef {object} Sums
 * @property {number} executions
 * @property {number} ended
 * @property {number} running
 * @property {number} pending
 * @property {number} bad failed, timed out or blocked
 * @property {number} refused dispatches
 * @property {number} tokens
 * @property {number} cost
 * @property {number[]} pricing how many executions have calls of each kind of price
 * @property {number} lastEnd milliseconds; 0 until one has ended
 */

/**
 * A node in its place.
 * @typedef {object} TreeEntry
 * @property {TreeNode} node
 * @property {TreeEntry | null} parent
 * @property {TreeEntry[]} children
 * @property {RefusedDispatch[]} refused
 * @property {Sums} sums
 * @property {string} haystack what a search looks at; empty until it is asked for
 */

/** @returns {Sums} */
function noSums() {
  return {
    executions: 0,
    ended: 0,
    running: 0,
    pending: 0,
    bad: 0,
    refused: 0,
    tokens: 0,
    cost: 0,
    pricing: [0, 0, 0, 0],
    lastEnd: 0,
  };
}

/**
 * @param {TreeNode} node
 * @returns {Sums}
 */
function ownSums(node) {
  const ended = isEnded(node.status);
  return {
    executions: 1,
    ended: ended ? 1 : 0,
    running: node.status === "running" ? 1 : 0,
    pending: node.status === "pending" ? 1 : 0,
    bad: isBad(node.status) ? 1 : 0,
    refused: 0,
    tokens: tokensOf(node),
    cost: node.cost_usd || 0,
    pricing: PRICINGS.map((kind) => (node.pricing.includes(kind) ? 1 : 0)),
    lastEnd: timeOf(node.finished_at) || 0,
  };
}

/** @param {Pick<TreeNode, "input_tokens" | "output_tokens" | "cache_read_tokens" | "cache_write_tokens">} node */
export function tokensOf(node) {
  return (
    (node.input_tokens || 0) +
    (node.output_tokens || 0) +
    (node.cache_read_tokens || 0) +
    (node.cache_write_tokens || 0)
  );
}

/**
 * @param {Sums} to
 * @param {Sums} more
 * @param {1 | -1} sign
 */
function addSums(to, more, sign) {
  for (const key of ADDED) to[key] += sign * more[key];
  more.pricing.forEach((number, index) => {
    to.pricing[index] = (to.pricing[index] ?? 0) + sign * number;
  });
  if (sign > 0) to.lastEnd = Math.max(to.lastEnd, more.lastEnd);
}

/**
 * The kinds of price below an execution.
 * @param {Sums} sums
 */
export function pricingOf(sums) {
  return PRICINGS.filter((_, index) => (sums.pricing[index] ?? 0) > 0);
}

export class TreeStore {
  /** @param {number | null} [writtenAt] milliseconds; durations of a file that was written before the end stand still */
  constructor(writtenAt = null) {
    this.writtenAt = writtenAt;
    /** @type {Map<string, TreeEntry>} */
    this.entries = new Map();
    /** @type {TreeEntry | null} */
    this.root = null;
    this.cursor = 0;
    this.ended = false;
    this.truncated = false;
    this.executions = 0;
    /** @type {Set<string>} */
    this.critical = new Set();
    /** @type {Approval[]} */
    this.approvals = [];
    /** @type {Set<string>} */
    this.refusals = new Set();
    /** Grows when rows come or go. */
    this.shape = 0;
    /** Grows with every change. */
    this.version = 0;
    /** What a model is saying now, by execution. @type {Map<string, string>} */
    this.voices = new Map();
  }

  /** The time until which what has not ended lasts, in milliseconds. */
  now() {
    return this.writtenAt ?? Date.now();
  }

  /**
   * Takes a whole tree, or what of it has changed.
   * @param {Tree} tree
   * @returns {Set<string>} ids of the nodes that differ
   */
  apply(tree) {
    /** @type {Set<string>} */
    const changed = new Set();
    if (tree.cursor < this.cursor) return changed; // an older answer that arrived late
    for (const node of tree.nodes) {
      this.put(node, tree.id);
      changed.add(node.id);
    }
    for (const refusal of tree.refused) {
      if (this.refuse(refusal)) changed.add(refusal.parent_execution_id);
    }
    this.cursor = tree.cursor;
    this.ended = tree.ended;
    this.truncated = tree.truncated;
    this.executions = Math.max(tree.executions, this.entries.size);
    this.critical = new Set(tree.critical_path);
    this.approvals = tree.approvals;
    this.version += 1;
    return changed;
  }

  /**
   * @param {TreeNode} node
   * @param {string} top
   */
  put(node, top) {
    const known = this.entries.get(node.id);
    if (known !== undefined) {
      this.replace(known, node);
      return;
    }
    const parent = node.id === top ? null : (this.entries.get(node.parent_execution_id ?? "") ?? null);
    if (parent === null && this.root !== null) return; // its parent is not among the nodes: a truncated tree
    /** @type {TreeEntry} */
    const entry = { node, parent, children: [], refused: [], sums: noSums(), haystack: "" };
    this.entries.set(node.id, entry);
    if (parent === null) this.root = entry;
    else parent.children.push(entry);
    this.climb(entry, ownSums(node), 1);
    this.shape += 1;
  }

  /**
   * @param {TreeEntry} entry
   * @param {TreeNode} node
   */
  replace(entry, node) {
    this.climb(entry, ownSums(entry.node), -1);
    entry.node = node;
    entry.haystack = "";
    this.climb(entry, ownSums(node), 1);
    if (isEnded(node.status)) this.voices.delete(node.id);
  }

  /**
   * @param {TreeEntry} entry
   * @param {Sums} sums
   * @param {1 | -1} sign
   */
  climb(entry, sums, sign) {
    for (let each = /** @type {TreeEntry | null} */ (entry); each !== null; each = each.parent) {
      addSums(each.sums, sums, sign);
    }
  }

  /** @param {RefusedDispatch} refusal */
  refuse(refusal) {
    const parent = this.entries.get(refusal.parent_execution_id);
    if (parent === undefined || this.refusals.has(refusal.id)) return false;
    this.refusals.add(refusal.id);
    parent.refused.push(refusal);
    this.climb(parent, { ...noSums(), refused: 1 }, 1);
    this.shape += 1;
    return true;
  }

  /**
   * Applies what an event says by itself.
   * @param {StreamEvent} event
   * @returns {boolean} whether the source must be asked what else has changed
   */
  hear({ type, execution_id: id, payload, seq, at }) {
    const entry = this.entries.get(id);
    if (type === "stream.chunk") {
      if (entry !== undefined && typeof payload.text === "string") {
        this.voices.set(id, ((this.voices.get(id) ?? "") + payload.text).slice(-20_000));
        this.version += 1;
      }
      return false;
    }
    if (entry === undefined) return true;
    const { node } = entry;
    if (type === "execution.progress" && typeof payload.action === "string") {
      this.replace(entry, { ...node, activity: payload.action });
    } else if (type === "execution.status" && !isEnded(node.status) && typeof payload.status === "string") {
      const status = /** @type {Status} */ (payload.status);
      const started_at = status === "running" ? (node.started_at ?? at) : node.started_at;
      const finished_at = isEnded(status) ? at : node.finished_at;
      this.replace(entry, { ...node, status, started_at, finished_at });
    } else if (type === "timeline_event.completed" && payload.kind === "model") {
      this.voices.delete(id);
    }
    this.version += 1;
    return seq !== null;
  }

  /** @param {string | null | undefined} id */
  get(id) {
    return id === null || id === undefined ? undefined : this.entries.get(id);
  }

  /** @param {string} id */
  approvalsOf(id) {
    return this.approvals.filter((approval) => approval.execution_id === id);
  }
}

/**
 * The first failing execution at or below one, the deepest of a chain of failures: where the failure began.
 * @param {TreeEntry} entry
 * @returns {TreeEntry | null}
 */
export function originOfFailure(entry) {
  let found = isBad(entry.node.status) ? entry : null;
  let here = /** @type {TreeEntry | undefined} */ (entry);
  while (here !== undefined) {
    here = here.children.find((child) => child.sums.bad > 0);
    if (here !== undefined && isBad(here.node.status)) found = here;
  }
  return found;
}
