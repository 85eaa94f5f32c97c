import assert from "node:assert/strict";
import { test } from "node:test";
import { Feed, FIRST } from "../../../server/web/static/js/core/feed.js";
import { TreeStore } from "../../../server/web/static/js/core/store.js";
import { bigTree } from "./big_tree.js";

/** @import {Source, Tree} from "../../../server/web/static/js/types.js" */

const EXECUTIONS = 3000;

/**
 * A source whose whole tree comes when the test says so, and what a feed tells of it.
 * @param {Tree} whole
 */
function held(whole) {
  /** @type {{give: (tree: Tree) => void, fail: (failure: Error) => void}[]} */
  const asked = [];
  /** @type {number[]} */
  const changes = [];
  const source = /** @type {Source} */ (
    /** @type {unknown} */ ({
      tree: async (/** @type {string} */ _, /** @type {number | undefined} */ first) => {
        if (first !== undefined) return { ...whole, nodes: whole.nodes.slice(0, first) };
        return new Promise((give, fail) => asked.push({ give, fail }));
      },
      changes: async (/** @type {string} */ _, /** @type {number} */ after) => {
        changes.push(after);
        return { ...whole, cursor: whole.cursor + 1, nodes: [] };
      },
      follow: null,
    })
  );
  const store = new TreeStore();
  const feed = new Feed(source, whole.id, store, { changed: () => {}, heard: () => {}, state: () => {} });
  return { asked, changes, store, feed };
}

const settled = () => new Promise((done) => setImmediate(done));

test("a small tree is one question", async () => {
  const { asked, store, feed } = held(bigTree(FIRST));
  await feed.start();
  assert.equal(store.entries.size, FIRST);
  assert.equal(store.truncated, false);
  assert.equal(asked.length, 0);
});

test("of a large tree the executions nearest to its top are there before the others", async () => {
  const tree = bigTree(EXECUTIONS);
  const { asked, store, feed } = held(tree);
  await feed.start();
  assert.equal(store.entries.size, FIRST);
  assert.equal(store.executions, EXECUTIONS);
  assert.equal(store.truncated, true, "the page says that it does not show all of them");

  asked[0]?.give(tree);
  await feed.rest;
  assert.equal(store.entries.size, EXECUTIONS);
  assert.equal(store.root?.sums.executions, EXECUTIONS);
  assert.equal(store.truncated, false);
});

test("changes are asked about after the whole tree is here", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const tree = bigTree(EXECUTIONS);
  const { asked, changes, store, feed } = held(tree);
  await feed.start();
  feed.ask();
  context.mock.timers.tick(10_000);
  await settled();
  assert.deepEqual(changes, []);

  asked[0]?.give(tree);
  await feed.rest;
  await settled();
  assert.deepEqual(changes, [tree.cursor]);
  assert.equal(store.entries.size, EXECUTIONS);
  feed.destroy();
});

test("the rest of a tree is asked for again after a failure", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const tree = bigTree(EXECUTIONS);
  const { asked, store, feed } = held(tree);
  await feed.start();
  asked[0]?.fail(new Error("no network"));
  await settled();
  context.mock.timers.tick(10_000);
  await settled();
  asked[1]?.give(tree);
  await feed.rest;
  assert.equal(store.entries.size, EXECUTIONS);
});
