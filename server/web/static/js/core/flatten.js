/**
 * The rows of the tree that can be seen: from what is expanded, and from a search that keeps the ancestors of what it
 * finds. Pure.
 */

import { countWords, isBad, numberWords, statusWords } from "./format.js";

/** @import {RefusedDispatch} from "../types.js" */
/** @import {TreeEntry} from "./store.js" */

/** Deeper levels are drawn at this one's indentation; their level is told in words. */
export const DEEPEST = 10;
const MANY = 200;

/**
 * @typedef {object} TreeRow
 * @property {string} id of the execution, or of the refusal
 * @property {TreeEntry} entry the execution, or the one whose dispatch was refused
 * @property {RefusedDispatch | null} refusal
 * @property {number} level from 1
 * @property {number} index its place among its siblings, from 1
 * @property {number} siblings how many they are
 * @property {boolean | null} expanded null: nothing is below
 * @property {boolean} found a search found it
 */

/** What is expanded: levels above one, except where the reader decided otherwise. */
export class Expansion {
  /** @param {number} [levels] */
  constructor(levels = Number.POSITIVE_INFINITY) {
    this.levels = levels;
    /** @type {Map<string, boolean>} */
    this.decided = new Map();
  }

  /**
   * @param {TreeEntry} entry
   * @param {number} level
   */
  has(entry, level) {
    return this.decided.get(entry.node.id) ?? level <= this.levels;
  }

  /**
   * @param {string} id
   * @param {boolean} open
   */
  set(id, open) {
    this.decided.set(id, open);
  }

  /** @param {number} levels */
  toLevel(levels) {
    this.levels = levels;
    this.decided.clear();
  }

  /**
   * Opens what hides an execution.
   * @param {TreeEntry} entry
   */
  reveal(entry) {
    for (let each = entry.parent; each !== null; each = each.parent) this.decided.set(each.node.id, true);
  }
}

/**
 * How many levels to open at first: all of a small tree; of a big one as many as give a list that can be read.
 * @param {TreeEntry} root
 */
export function firstLevels(root) {
  if (root.sums.executions <= MANY) return Number.POSITIVE_INFINITY;
  let level = [root];
  let rows = 1;
  let levels = 0;
  while (level.length > 0) {
    level = level.flatMap((entry) => entry.children);
    rows += level.length;
    if (rows > MANY && levels > 0) break;
    levels += 1;
  }
  return levels;
}

/**
 * @param {TreeEntry} root
 * @param {Expansion} expansion
 * @param {string} [query]
 * @returns {TreeRow[]}
 */
export function visibleRows(root, expansion, query = "") {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length > 0 ? searched(root, words) : null;
  /** @type {TreeRow[]} */
  const rows = [];
  /** @type {{entry: TreeEntry, level: number, index: number, siblings: number}[]} */
  const stack = [{ entry: root, level: 1, index: 1, siblings: 1 }];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { entry, level, index, siblings } = next;
    const { id } = entry.node;
    const open = found === null ? expansion.has(entry, level) : true;
    const children = found === null ? entry.children : entry.children.filter((child) => found.kept.has(child.node.id));
    const refused = found === null ? entry.refused : entry.refused.filter((each) => found.hits.has(each.id));
    const below = children.length + refused.length;
    const expanded = below === 0 ? null : open;
    rows.push({ id, entry, refusal: null, level, index, siblings, expanded, found: found?.hits.has(id) ?? false });
    if (expanded !== true) continue;
    refused.forEach((refusal, place) => {
      const row = { id: refusal.id, entry, refusal, level: level + 1, index: place + 1, siblings: below };
      rows.push({ ...row, expanded: null, found: found?.hits.has(refusal.id) ?? false });
    });
    for (let place = children.length - 1; place >= 0; place -= 1) {
      const child = /** @type {TreeEntry} */ (children[place]);
      stack.push({ entry: child, level: level + 1, index: refused.length + place + 1, siblings: below });
    }
  }
  return found !== null && found.hits.size === 0 ? [] : rows;
}

/**
 * What a search finds, and what must stay so that it has its place.
 * @param {TreeEntry} root
 * @param {string[]} words
 */
function searched(root, words) {
  /** @type {Set<string>} */
  const hits = new Set();
  /** @type {Set<string>} */
  const kept = new Set();
  const stack = [root];
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const here = haystackOf(entry);
    let hit = words.every((word) => here.includes(word));
    if (hit) hits.add(entry.node.id);
    for (const refusal of entry.refused) {
      const said = `refused ${refusal.agent} ${refusal.kind} ${refusal.message}`.toLowerCase();
      if (!words.every((word) => said.includes(word))) continue;
      hits.add(refusal.id);
      hit = true;
    }
    for (let each = /** @type {TreeEntry | null} */ (entry); hit && each !== null; each = each.parent) {
      if (kept.has(each.node.id)) break;
      kept.add(each.node.id);
    }
    for (const child of entry.children) stack.push(child);
  }
  return { hits, kept };
}

/** @param {TreeEntry} entry */
function haystackOf(entry) {
  if (entry.haystack === "") {
    const { node } = entry;
    const parts = [node.agent, node.task, statusWords(node), node.activity, node.error, node.summary, node.id];
    entry.haystack = [...parts, node.stage, node.model].filter(Boolean).join("\n").toLowerCase();
  }
  return entry.haystack;
}

/**
 * What a collapsed row hides.
 * @param {TreeEntry} entry
 * @param {boolean} [short] for a narrow row: `+12` is said with its noun elsewhere
 */
export function hiddenWords(entry, short = false) {
  const { sums, node } = entry;
  const below = sums.executions - 1;
  const bad = sums.bad - (isBad(node.status) ? 1 : 0);
  const running = sums.running - (node.status === "running" ? 1 : 0);
  const parts = [short ? `+${numberWords(below)}` : countWords(below, "execution")];
  if (running > 0) parts.push(`${running} running`);
  if (bad > 0) parts.push(countWords(bad, "error"));
  if (sums.refused > 0) parts.push(`${sums.refused} refused`);
  return parts.join(", ");
}

/**
 * The place of the next row that matches, going round; -1 if none does.
 * @param {TreeRow[]} rows
 * @param {number} from
 * @param {1 | -1} step
 * @param {(row: TreeRow) => boolean} matches
 */
export function nextRow(rows, from, step, matches) {
  for (let tried = 1; tried <= rows.length; tried += 1) {
    const place = (((from + step * tried) % rows.length) + rows.length) % rows.length;
    const row = rows[place];
    if (row !== undefined && matches(row)) return place;
  }
  return -1;
}

/**
 * The next execution of the whole tree, hidden or not, in the order of the rows.
 * @param {TreeEntry} root
 * @param {string | null} from
 * @param {(entry: TreeEntry) => boolean} matches
 * @returns {TreeEntry | null}
 */
export function nextEntry(root, from, matches) {
  let first = /** @type {TreeEntry | null} */ (null);
  let passed = from === null;
  const stack = [root];
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    if (matches(entry)) {
      if (passed && entry.node.id !== from) return entry;
      first ??= entry;
    }
    if (entry.node.id === from) passed = true;
    for (let place = entry.children.length - 1; place >= 0; place -= 1) {
      stack.push(/** @type {TreeEntry} */ (entry.children[place]));
    }
  }
  return first;
}
