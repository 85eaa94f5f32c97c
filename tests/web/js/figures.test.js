import assert from "node:assert/strict";
import { test } from "node:test";
import { labelEvery, shortNames, ticksUpTo } from "../../../server/web/static/js/core/chart.js";
import { budgetsOf, timesUntil } from "../../../server/web/static/js/core/facts.js";
import {
  columnsToDraw,
  csvText,
  executionOf,
  numberColumns,
  numberText,
} from "../../../server/web/static/js/core/table_text.js";
import { diffWords } from "../../../server/web/static/js/core/word_diff.js";
import { bigTree } from "./big_tree.js";

/** @import {Times} from "../../../server/web/static/js/types.js" */

test("ticks are round and reach the greatest value", () => {
  assert.deepEqual(ticksUpTo(97), [0, 25, 50, 75, 100]);
  assert.deepEqual(ticksUpTo(100), [0, 25, 50, 75, 100]);
  assert.deepEqual(ticksUpTo(0.0031), [0, 0.001, 0.002, 0.003, 0.004]);
  assert.deepEqual(ticksUpTo(0), [0, 1]);
  assert.deepEqual(ticksUpTo(3, -5), [-6, -4, -2, 0, 2, 4]);
  assert.deepEqual(ticksUpTo(0, -0.3), [-0.3, -0.2, -0.1, 0]);
  for (const greatest of [1, 3, 7, 12_345, 9.99e8]) assert.ok((ticksUpTo(greatest).at(-1) ?? 0) >= greatest);
});

test("only as many names are written as there is room for", () => {
  assert.equal(labelEvery(30, 10), 3);
  assert.equal(labelEvery(5, 10), 1);
});

test("times below a chart are written by what they differ in", () => {
  assert.deepEqual(shortNames(["2026-11-19T08:15:02.1Z", "2026-11-19T09:00:00Z"]), ["08:15:02", "09:00:00"]);
  assert.deepEqual(shortNames(["2026-11-19 08:15", "2026-11-20 09:00"]), ["11-19 08:15", "11-20 09:00"]);
  assert.deepEqual(shortNames(["2026-11-19", "LongNameOfAnAgent"]), ["2026-11-19", "LongNameOfA…"]);
});

test("the part of the time that lasts grows until now", () => {
  const parts = { queue: 1, model: 2, tool: 0, approval: 0, children: 3, idle: 0.5 };
  const node = bigTree(1).nodes[0];
  const now = Date.parse(node.created_at) + 20_000;
  const until = (/** @type {Times["lasting"]} */ lasting) => timesUntil({ ...node, times: { ...parts, lasting } }, now);
  assert.deepEqual(until("children"), { ...parts, children: 16.5 });
  assert.deepEqual(until(null), parts);
});

test("the time that is left stands still while a person is asked, and without its process", () => {
  const [made] = bigTree(1).nodes;
  const begun = Date.parse(made.created_at);
  const at = (/** @type {number} */ seconds) => new Date(begun + seconds * 1000).toISOString();
  const node = { ...made, status: "running", finished_at: null, deadline_at: at(15), budget_usd: null };
  const left = (/** @type {string | null} */ stopped, more = {}) =>
    budgetsOf(
      /** @type {any} */ ({ node: { ...node, ...more }, sums: { cost: 0, tokens: 0 } }),
      /** @type {any} */ ({ node, timeout_seconds: 20, clock_stopped_at: stopped }),
      begun + 20_000,
    ).map(({ part, words }) => [part, words]);
  assert.deepEqual(left(at(10)), [[0.75, "5.0s left of 20.0s, its clock stands"]]);
  assert.deepEqual(left(null), [[1, "0.0s left of 20.0s"]]);
  assert.deepEqual(left(null, { owner_gone: true }), []);
});

test("CSV quotes what it must and lets no cell become a formula", () => {
  const rows = [
    { a: 'say "hi", you', b: null },
    { a: "=1+1", b: -3 },
    { a: { x: 1 }, b: "two\nlines" },
  ];
  assert.equal(csvText(["n"], [{ n: "-9007199254740993" }]), "n\r\n-9007199254740993");
  assert.equal(csvText(["a", "b"], rows), 'a,b\r\n"say ""hi"", you",\r\n\'=1+1,-3\r\n"{""x"":1}","two\nlines"');
});

test("a whole number is written to its last digit, a fraction without its noise", () => {
  const written = [1234567890123, 1763589396123456, -7, 0.1 + 0.2, 1763589396.123456, 1.5e-9].map(numberText);
  assert.deepEqual(written, ["1234567890123", "1763589396123456", "-7", "0.3", "1763589396.123456", "1.5e-9"]);
});

test("a cell leads to an execution by its column and its form", () => {
  const id = "00000000001abcdefghjkmnpqrstvwxyz0123";
  assert.equal(id.length, 37);
  assert.equal(executionOf("id", id), id);
  assert.equal(executionOf("parent_execution_id", id), id);
  assert.equal(executionOf("task", id), null);
  assert.equal(executionOf("id", "17"), null);
  assert.equal(executionOf("id", null), null);
});

test("a chart takes a name across and the first number upwards", () => {
  const rows = [
    { agent: "Log", n: 3, cost: null },
    { agent: "Web", n: 4, cost: 0.5 },
  ];
  assert.deepEqual(numberColumns(["agent", "n", "cost"], rows), ["n", "cost"]);
  assert.deepEqual(columnsToDraw(["agent", "n", "cost"], rows), { x: "agent", y: "n" });
  assert.deepEqual(columnsToDraw(["n", "cost"], rows), { x: "n", y: "cost" });
  assert.equal(columnsToDraw(["agent"], rows), null);
});

/** @param {string} a @param {string} b */
function sides(a, b) {
  const parts = diffWords(a, b);
  const read = (/** @type {string} */ without) =>
    parts
      .filter(({ kind }) => kind !== without)
      .map(({ text }) => text)
      .join("");
  assert.equal(read("added"), a);
  assert.equal(read("removed"), b);
  return parts.filter(({ kind }) => kind !== "same").map(({ kind, text }) => `${kind} ${text}`);
}

test("a difference names the words that changed, and each side reads whole", () => {
  assert.deepEqual(sides("50 of 50 in use", "48 of 50 in use"), ["removed 50", "added 48"]);
  assert.deepEqual(sides("same", "same"), []);
  assert.deepEqual(sides("", "all of it"), ["added all of it"]);
  assert.deepEqual(sides("a b c", "a c"), ["removed b "]);
  sides("x y z\n\n- one\n- two", "y z\n- two\n- three é");
});

test("a difference of two long texts ends soon", () => {
  const long = (/** @type {string} */ word) => Array(30_000).fill(word).join(" ");
  assert.deepEqual(
    diffWords(long("a"), long("b")).map(({ kind }) => kind),
    ["removed", "added"],
  );
});
