/**
 * What the keys mean on the tree: moves, what is expanded, searches.
 */

import { nextEntry, nextRow } from "./flatten.js";
import { isBad } from "./format.js";

/** @import {Expansion} from "./flatten.js" */
/** @import {TreeStore} from "./store.js" */
/** @import {TreeGrid} from "./tree.js" */

/**
 * @typedef {object} Walker
 * @property {TreeStore} store
 * @property {TreeGrid} grid
 * @property {Expansion} expansion
 * @property {(id: string) => void} select
 * @property {() => void} reshape the rows differ
 * @property {(words: string) => void} tell
 */

/** @type {Record<string, (walker: Walker, key: string) => void>} */
const MOVES = {
  down: (walker) => moveTo(walker, walker.grid.place() + 1),
  up: (walker) => moveTo(walker, walker.grid.place() - 1),
  "page-down": (walker) => moveTo(walker, walker.grid.place() + walker.grid.page()),
  "page-up": (walker) => moveTo(walker, walker.grid.place() - walker.grid.page()),
  first: (walker) => moveTo(walker, 0),
  last: (walker) => moveTo(walker, walker.grid.rows.length - 1),
  in: goIn,
  out: goOut,
  "collapse-all": (walker) => toLevel(walker, 1),
  "expand-all": (walker) => toLevel(walker, Number.POSITIVE_INFINITY),
  level: (walker, key) => toLevel(walker, Number(key)),
  error: (walker) => toNext(walker, "no errors", ({ node }) => isBad(node.status)),
  running: (walker) => toNext(walker, "nothing runs", ({ node }) => node.status === "running"),
  match: (walker) => toMatch(walker, 1),
  "match-before": (walker) => toMatch(walker, -1),
};

/**
 * Carries out a command of the tree.
 * @param {string} command
 * @param {string} key
 * @param {Walker} walker
 * @returns {boolean} whether it is one
 */
export function walk(command, key, walker) {
  const move = MOVES[command];
  move?.(walker, key);
  return move !== undefined;
}

/**
 * @param {Walker} walker
 * @param {number} place
 */
function moveTo({ grid, select }, place) {
  const row = grid.rows[Math.min(grid.rows.length - 1, Math.max(0, place))];
  if (row !== undefined) select(row.id);
}

/** @param {Walker} walker */
function goIn(walker) {
  const { grid, expansion, reshape } = walker;
  const row = grid.rows[grid.place()];
  if (row?.expanded === true) moveTo(walker, grid.place() + 1);
  if (row?.expanded !== false) return;
  expansion.set(row.id, true);
  reshape();
}

/** @param {Walker} walker */
function goOut({ grid, expansion, reshape, select }) {
  const row = grid.rows[grid.place()];
  if (row === undefined) return;
  if (row.expanded === true) {
    expansion.set(row.id, false);
    reshape();
    return;
  }
  const parent = row.refusal === null ? row.entry.parent : row.entry;
  if (parent !== null) select(parent.node.id);
}

/**
 * @param {Walker} walker
 * @param {number} level
 */
function toLevel({ expansion, reshape, store, grid, select }, level) {
  expansion.toLevel(level - 1);
  let entry = store.get(grid.selected);
  while (entry?.parent && entry.node.level >= level) entry = entry.parent;
  reshape();
  if (entry !== undefined && entry.node.id !== grid.selected) select(entry.node.id);
}

/**
 * @param {Walker} walker
 * @param {string} none
 * @param {(entry: import("./store.js").TreeEntry) => boolean} matches
 */
function toNext({ store, grid, select, tell }, none, matches) {
  const found = store.root === null ? null : nextEntry(store.root, grid.selected, matches);
  if (found === null) tell(none);
  else select(found.node.id);
}

/**
 * @param {Walker} walker
 * @param {1 | -1} step
 */
function toMatch(walker, step) {
  const { grid, tell } = walker;
  const place = nextRow(grid.rows, grid.place(), step, (row) => row.found);
  if (place < 0) tell("no matches");
  else moveTo(walker, place);
}
