import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Expansion,
  firstLevels,
  hiddenWords,
  nextEntry,
  visibleRows,
} from "../../../server/web/static/js/core/flatten.js";
import {
  durationWords,
  eventWords,
  priceWords,
  statusShape,
  tokenWords,
} from "../../../server/web/static/js/core/format.js";
import { placeOf, ticksOf, timeAt, timeAxis, WHOLE, zoomed } from "../../../server/web/static/js/core/layout.js";
import { plainLine, plainText } from "../../../server/web/static/js/core/plain_text.js";
import { originOfFailure, TreeStore } from "../../../server/web/static/js/core/store.js";
import { bigTree, treeNode } from "./big_tree.js";

/** A root, two children, and one below the first of them. */
function smallTree(more = {}) {
  const root = treeNode("root", null, {
    cost_usd: 1,
    input_tokens: 10,
    output_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
  });
  const first = treeNode("first", root, { agent: "Logs", status: "failed", error: "refused" });
  const second = treeNode("second", root, { agent: "Metrics" });
  const leaf = treeNode("leaf", first, {
    agent: "Shard",
    task: "look at disk seven",
    status: "failed",
    pricing: ["unpriced"],
  });
  const nodes = [root, first, second, leaf];
  const refused = [
    { id: "r", parent_execution_id: "second", agent: "Pager", kind: "depth", message: "too deep", at: "" },
  ];
  return {
    id: "root",
    cursor: 5,
    ended: true,
    truncated: false,
    executions: 4,
    nodes,
    refused,
    approvals: [],
    critical_path: [],
    ...more,
  };
}

function stored(tree = smallTree()) {
  const store = new TreeStore();
  store.apply(tree);
  return store;
}

const ids = (rows) => rows.map((row) => row.id);

test("numbers have the words of the terminal", () => {
  assert.deepEqual([0.44, 12.3, 245, 7800, 273_600].map(durationWords), ["0.4s", "12.3s", "4m 05s", "2h 10m", "3d 4h"]);
  assert.deepEqual([987, 12_300, 4_560_000].map(tokenWords), ["987 tok", "12.3k tok", "4.56M tok"]);
  const prices = [[], ["rehearsed"], ["unpriced", "rehearsed"], ["priced"], ["priced", "unpriced"], ["partly"]];
  assert.deepEqual(
    prices.map((pricing) => priceWords(0.5, pricing)),
    ["-", "rehearsed", "unpriced", "~$0.5000", "≥$0.5000", "≥$0.5000"],
  );
  assert.equal(priceWords(1234.5, ["priced"]), "~$1,234.50");
});

test("a status has its shape, and a partial outcome one of its own", () => {
  assert.equal(statusShape({ status: "cancelled" }), "⊘");
  assert.equal(statusShape({ status: "completed", outcome: "partial" }), "◕");
  assert.equal(
    eventWords({ type: "timeline_event.created", payload: { kind: "tool", tool: "loki__query" } }),
    "calling loki__query",
  );
});

test("sums follow changes, and equal those of a tree taken whole", () => {
  const tree = bigTree(500);
  const grown = stored({ ...tree, nodes: tree.nodes.slice(0, 200), refused: [] });
  grown.apply({ ...tree, cursor: 101, nodes: tree.nodes.slice(200) });
  const changed = tree.nodes.map((node) => ({
    ...node,
    status: "completed",
    finished_at: node.finished_at ?? node.created_at,
    cost_usd: 2,
  }));
  grown.apply({ ...tree, cursor: 102, nodes: changed, refused: [] });
  const whole = stored({ ...tree, nodes: changed });
  assert.ok(Math.abs(grown.root.sums.cost - 1000) < 1e-6);
  assert.deepEqual({ ...grown.root.sums, cost: 0 }, { ...whole.root.sums, cost: 0 });
  assert.equal(grown.root.sums.ended, 500);
});

test("an answer that comes late changes nothing", () => {
  const store = stored();
  store.apply(smallTree({ cursor: 4, nodes: [treeNode("root", null, { status: "running" })] }));
  assert.equal(store.root.node.status, "completed");
});

test("an event is heard at once where it says enough, and asks for the rest", () => {
  const store = stored(
    smallTree({ nodes: [treeNode("root", null, { status: "running", finished_at: null })], refused: [] }),
  );
  const event = {
    execution_id: "root",
    parent_execution_id: null,
    root_execution_id: "root",
    at: "2026-11-19T08:00:00Z",
  };
  assert.equal(store.hear({ seq: null, type: "execution.progress", payload: { action: "thinking" }, ...event }), false);
  assert.equal(store.root.node.activity, "thinking");
  assert.equal(store.hear({ seq: 6, type: "execution.status", payload: { status: "cancelled" }, ...event }), true);
  assert.equal(store.root.sums.ended, 1);
  assert.equal(
    store.hear({ seq: 7, type: "execution.status", payload: { status: "pending" }, ...event, execution_id: "new" }),
    true,
  );
});

test("the rows are what is expanded, with refused dispatches before children", () => {
  const { root } = stored();
  const expansion = new Expansion();
  const rows = visibleRows(root, expansion);
  assert.deepEqual(ids(rows), ["root", "first", "leaf", "second", "r"]);
  assert.deepEqual(
    rows.map((row) => [row.level, row.index, row.siblings]),
    [
      [1, 1, 1],
      [2, 1, 2],
      [3, 1, 1],
      [2, 2, 2],
      [3, 1, 1],
    ],
  );
  expansion.set("first", false);
  assert.deepEqual(ids(visibleRows(root, expansion)), ["root", "first", "second", "r"]);
  expansion.toLevel(0);
  assert.deepEqual(ids(visibleRows(root, expansion)), ["root"]);
  assert.equal(hiddenWords(root), "3 executions, 2 errors, 1 refused");
});

test("a search keeps the ancestors of what it finds, also where they are collapsed", () => {
  const { root } = stored();
  const rows = visibleRows(root, new Expansion(0), "DISK seven");
  assert.deepEqual(ids(rows), ["root", "first", "leaf"]);
  assert.deepEqual(
    rows.filter((row) => row.found).map((row) => row.id),
    ["leaf"],
  );
  assert.deepEqual(ids(visibleRows(root, new Expansion(), "pager")), ["root", "second", "r"]);
  assert.deepEqual(visibleRows(root, new Expansion(), "nowhere"), []);
});

test("a failure is traced to where it began", () => {
  const { root } = stored();
  assert.equal(originOfFailure(root).node.id, "leaf");
  assert.equal(nextEntry(root, "first", ({ node }) => node.status === "failed").node.id, "leaf");
  assert.equal(nextEntry(root, "leaf", ({ node }) => node.status === "failed").node.id, "first");
});

test("a big tree opens as far as it can be read", () => {
  assert.equal(firstLevels(stored(bigTree(150)).root), Number.POSITIVE_INFINITY);
  const { root } = stored(bigTree(10_000));
  assert.ok(visibleRows(root, new Expansion(firstLevels(root))).length <= 210);
});

test("a tree of a thousand levels has its rows", () => {
  const nodes = [treeNode("n0", null)];
  for (let level = 1; level < 1400; level += 1) nodes.push(treeNode(`n${level}`, nodes.at(-1)));
  const { root } = stored({ ...smallTree(), id: "n0", nodes, refused: [] });
  assert.equal(visibleRows(root, new Expansion()).at(-1).level, 1400);
  assert.equal(root.sums.executions, 1400);
});

test("long idle gaps shrink, while labels keep real time", () => {
  const hour = 3_600_000;
  const axis = timeAxis(0, 10 * hour, [
    { from: 0, to: hour },
    { from: 9 * hour, to: 10 * hour },
  ]);
  assert.deepEqual(
    axis.pieces.map((piece) => piece.gap),
    [false, true, false],
  );
  assert.ok(placeOf(axis, 9 * hour) - placeOf(axis, hour) < 0.04);
  assert.ok(placeOf(axis, hour) > 0.45);
  const labels = ticksOf(axis, WHOLE, 0.2).map((tick) => tick.label);
  assert.ok(labels.includes("8h 00m"), labels.join());
});

test("the axis is total: each time has a place, each place a time", () => {
  for (const [from, to] of [
    [0, 10],
    [5, 5],
    [9, 1],
    [Number.NaN, Number.NaN],
    [0, Number.POSITIVE_INFINITY],
  ]) {
    const axis = timeAxis(from, to, [
      { from: 3, to: 4 },
      { from: Number.NaN, to: 2 },
    ]);
    for (const time of [-1, 0, 4.5, 99, Number.NaN]) {
      const place = placeOf(axis, time);
      assert.ok(place >= 0 && place <= 1 + 1e-9, `${from} ${to} ${time}: ${place}`);
    }
    assert.ok(Number.isFinite(timeAt(axis, 0.5)));
    assert.ok(ticksOf(axis, WHOLE, 0.1).length <= 70);
  }
});

test("places grow with time, and lead back to it", () => {
  const axis = timeAxis(0, 1000, [
    { from: 0, to: 100 },
    { from: 400, to: 500 },
    { from: 505, to: 1000 },
  ]);
  let last = -1;
  for (let time = 0; time <= 1000; time += 10) {
    const place = placeOf(axis, time);
    assert.ok(place > last);
    assert.ok(Math.abs(timeAt(axis, place) - time) < 0.01);
    last = place;
  }
});

test("a zoom stays on the axis, and keeps what it is around", () => {
  assert.deepEqual(zoomed(WHOLE, 2), WHOLE);
  const near = zoomed(WHOLE, 0.5, 0.8);
  assert.ok(Math.abs((0.8 - near.from) / (near.to - near.from) - 0.8) < 1e-9);
  assert.ok(zoomed(near, 100).from >= 0);
});

test("markdown becomes a line of plain words, a heading only where there is nothing else", () => {
  const lines = {
    "## Summary\n**Root cause:** the rollout of `inventory`": "Root cause: the rollout of inventory",
    "# Only": "Only",
    "": "",
    "-": "-",
    "---\n- item **b** of [the list](https://a.example)": "item b of the list",
    "```\ncode_of_it 3 * 4\n```": "code_of_it 3 * 4",
    "cut in the middle of `inventory-6b…": "cut in the middle of inventory-6b…",
    "[rehearsed] 2 * 3 * 4 and snake_case_name": "[rehearsed] 2 * 3 * 4 and snake_case_name",
  };
  for (const [text, line] of Object.entries(lines)) assert.equal(plainLine(text), line);
  assert.equal(plainLine("x".repeat(300), 80).length, 80);
});

test("markdown keeps its lines as plain text", () => {
  assert.equal(
    plainText("# Why\n\n- **one**\n  - `two`\n\n|a|b|\n|---|---|\n|1|2|"),
    "Why\n\n• one\n  • two\n\n|a|b|\n|1|2|",
  );
});
