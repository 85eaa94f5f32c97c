import assert from "node:assert/strict";
import { test } from "node:test";

import { TreeStore } from "../../../server/web/static/js/core/store.js";
import { fileSource } from "../../../server/web/static/js/sources/file.js";

/** A tree of three: a root, its child, and the child of that one. */
function bundle() {
  const node = (id, parent, level) => ({ id, parent_execution_id: parent, level });
  return {
    id: "root",
    tree: {
      id: "root",
      cursor: 7,
      ended: true,
      truncated: false,
      executions: 3,
      nodes: [node("root", null, 0), node("child", "root", 1), node("leaf", "child", 2)],
      refused: [{ id: "r", parent_execution_id: "child" }],
      approvals: [],
      critical_path: ["root", "child", "leaf"],
    },
    executions: { root: { task: "look" } },
    transcripts: { root: { id: "root", messages: [{ position: 0 }, { position: 1 }], total: 2, next_position: null } },
    timelines: { root: { id: "root", spans: [], events: [], next_seq: null } },
  };
}

test("a file answers with what was written down, and nothing can be done to it", async () => {
  const source = fileSource(bundle());

  assert.equal((await source.tree("root")).nodes.length, 3);
  assert.equal((await source.execution("root")).task, "look");
  assert.deepEqual((await source.changes("root", 7)).nodes, []);
  assert.equal(source.writtenAt, null);
  assert.equal(source.act, null);
  assert.equal(source.follow, null);
});

test("the time of a tree that had not ended stands still where its file was written", () => {
  const source = fileSource({ ...bundle(), written_at: "2026-11-19T10:00:00.000000Z" });
  const store = new TreeStore(source.writtenAt);

  assert.equal(store.now(), Date.UTC(2026, 10, 19, 10));
  assert.ok(new TreeStore().now() > store.now());
});

test("a tree may begin at any of its executions", async () => {
  const part = await fileSource(bundle()).tree("child");

  assert.deepEqual(
    part.nodes.map(({ id, level }) => [id, level]),
    [
      ["child", 0],
      ["leaf", 1],
    ],
  );
  assert.equal(part.executions, 2);
  assert.equal(part.refused.length, 1);
  assert.deepEqual(part.critical_path, ["child", "leaf"]);
});

test("a transcript is read on from a position", async () => {
  const rest = await fileSource(bundle()).transcript("root", 1);

  assert.deepEqual(
    rest.messages.map((message) => message.position),
    [1],
  );
});

test("an execution that is not in the file is named", async () => {
  await assert.rejects(fileSource(bundle()).execution("other"), /no execution `other` in this file/);
  await assert.rejects(fileSource(bundle()).tree("__proto__"), /no execution `__proto__`/);
});
