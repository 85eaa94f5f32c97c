import assert from "node:assert/strict";
import { test } from "node:test";
import { givenSource, treeOf } from "../../../server/web/static/js/sources/given.js";

const told = (execution_id, status, children = []) => ({
  execution_id,
  agent: "Lead",
  status,
  created_at: "2026-11-19T10:00:00Z",
  own_seconds: 2.5,
  own_tokens: 30,
  turns: 2,
  cost_usd: 0.01,
  children,
});

test("the answer of a tool becomes a tree, parents before children", () => {
  const tree = treeOf({
    tree: told("root", "running", [told("a", "completed", [told("b", "failed")]), told("c", "pending")]),
    executions: 4,
  });
  assert.deepEqual(
    tree.nodes.map((node) => [node.id, node.parent_execution_id, node.level, node.position, node.status]),
    [
      ["root", null, 0, 0, "running"],
      ["a", "root", 1, 0, "completed"],
      ["b", "a", 2, 0, "failed"],
      ["c", "root", 1, 1, "pending"],
    ],
  );
  assert.equal(tree.ended, false);
  assert.equal(tree.nodes[0].finished_at, null);
  assert.equal(tree.nodes[1].finished_at, "2026-11-19T10:00:02.500Z");
  assert.equal(tree.nodes[3].started_at, null);
});

test("such a tree can be read, and nothing can be done to it", async () => {
  const tree = treeOf({ tree: told("root", "completed"), executions: 1 });
  const source = givenSource(tree);
  assert.equal(tree.ended, true);
  assert.equal((await source.execution("root")).node.agent, "Lead");
  assert.deepEqual((await source.execution("root")).actions, []);
  assert.deepEqual((await source.changes("root", 0)).nodes, []);
  assert.equal(source.act, null);
  assert.equal(source.follow, null);
  await assert.rejects(source.execution("other"), /no execution `other`/);
});
