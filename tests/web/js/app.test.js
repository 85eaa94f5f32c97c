import assert from "node:assert/strict";
import { test } from "node:test";
import { settledSize, spaceOf, variablesOf } from "../../../server/web/static/js/shells/app_host.js";
import { appSource, consequencesOf, toolOf } from "../../../server/web/static/js/sources/app.js";

const tree = (cursor, more = {}) => ({
  id: "root",
  cursor,
  ended: false,
  nodes: [],
  refused: [],
  approvals: [{ id: "a" }],
  ...more,
});

/** A server whose answers are written down beforehand. */
function scripted(answers) {
  const asked = [];
  const heard = [];
  const pauses = [];
  const means = {
    callTool: async (name, given) => {
      asked.push([name, given]);
      const next = answers.shift();
      if (next === undefined) return new Promise(() => {});
      if (next instanceof Error) throw next;
      return next;
    },
    shown: async () => {},
    pause: async (milliseconds) => void pauses.push(milliseconds),
    heard: (answer) => heard.push(answer.approvals.length),
  };
  return { asked, heard, pauses, means };
}

function followed(answers, after = 5) {
  const server = scripted(answers);
  const source = appSource(server.means);
  const states = [];
  const seen = [];
  return new Promise((done) => {
    const stop = source.follow("root", after, {
      event: (event) => seen.push([event.type, event.seq]),
      state: (state, tries) => {
        states.push(`${state} ${tries}`);
        if (state === "ended") done({ ...server, source, states, seen, stop });
      },
    });
  });
}

test("a tree is followed by long polls until it has ended", async () => {
  const { asked, states, seen } = await followed([
    tree(7, { nodes: [{}] }),
    tree(7),
    tree(9, { nodes: [{}], ended: true }),
  ]);
  assert.deepEqual(
    asked.map(([name, given]) => [name, given.after, given.wait_seconds]),
    [
      ["follow_tree", 5, 20],
      ["follow_tree", 7, 20],
      ["follow_tree", 7, 20],
    ],
  );
  assert.deepEqual(seen, [
    ["tree.changed", 7],
    ["tree.changed", 9],
  ]);
  assert.deepEqual(states, ["live 0", "ended 0"]);
});

test("what a poll brought is not asked for twice", async () => {
  const { asked, source } = await followed([tree(9, { nodes: [{ id: "x" }], ended: true })]);
  const changes = await source.changes("root", 5);
  assert.deepEqual(changes.nodes, [{ id: "x" }]);
  assert.equal(asked.length, 1);
});

test("a refused poll is repeated behind the last event", async () => {
  const { asked, states, pauses } = await followed([
    tree(6, { nodes: [{}] }),
    new Error("gone"),
    new Error("gone"),
    tree(8, { ended: true }),
  ]);
  assert.deepEqual(
    asked.map(([, given]) => given.after),
    [5, 6, 6, 6],
  );
  assert.deepEqual(states, ["live 0", "reconnecting 1", "reconnecting 2", "live 0", "ended 0"]);
  assert.equal(pauses.length, 2);
});

test("questions reach the shell, and never the tree that can be acted on", async () => {
  const { means, heard } = scripted([tree(1)]);
  const found = await appSource(means).tree("root");
  assert.deepEqual(found.approvals, []);
  assert.deepEqual(heard, [1]);
});

test("actions are calls of tools, and none decides an approval", async () => {
  assert.deepEqual(toolOf("x", "cancel", {}), ["cancel_agent", { execution_id: "x" }]);
  assert.deepEqual(toolOf("x", "wrap-up", { reason: "late" }), [
    "cancel_agent",
    { execution_id: "x", mode: "wrap_up", reason: "late" },
  ]);
  assert.deepEqual(toolOf("x", "message", { text: "hello" }), ["send_message", { execution_id: "x", text: "hello" }]);
  for (const action of ["approve", "deny", "resume", "rerun"])
    assert.throws(() => toolOf("x", action, {}), /only in the dashboard/);
  const all = ["cancel", "wrap-up", "message", "resume", "rerun"];
  const { means } = scripted([{ part: { actions: all } }]);
  assert.deepEqual((await appSource(means).execution("x")).actions, ["cancel", "wrap-up", "message"]);
});

test("a size is told once it rests, and only when it has changed", () => {
  const told = [];
  let waiting = () => {};
  const take = settledSize(
    (width, height) => told.push([width, height]),
    (work) => {
      waiting = work;
      return () => {
        waiting = () => {};
      };
    },
  );
  take(100, 50.2);
  take(100, 60.5);
  waiting();
  take(100, 60.7);
  waiting();
  take(100, 80);
  waiting();
  assert.deepEqual(told, [
    [100, 61],
    [100, 80],
  ]);
});

test("the space of the host becomes lengths, and what it leaves open stays empty", () => {
  const space = spaceOf({ containerDimensions: { width: 400, maxHeight: 600 } });
  assert.equal(space["--app-max-height"], "600px");
  assert.equal(space["--app-height"], "");
  assert.equal(spaceOf({})["--app-inset-top"], "");
});

test("a host without both ground and text keeps our colours, and its fonts count", () => {
  const fonts = { "--font-sans": "Host Sans" };
  assert.deepEqual(
    variablesOf({ styles: { variables: { ...fonts, "--color-text-primary": "red", x: undefined } } }),
    fonts,
  );
  const colours = { "--color-text-primary": "black", "--color-background-primary": "white" };
  assert.deepEqual(variablesOf({ styles: { variables: { ...fonts, ...colours } } }), { ...fonts, ...colours });
  assert.deepEqual(variablesOf({}), {});
});

test("what a stop reaches is counted in the tree that is known", () => {
  const node = (id, parent_execution_id, status) => [id, { id, parent_execution_id, status }];
  const known = new Map([
    node("root", null, "running"),
    node("a", "root", "running"),
    node("b", "a", "pending"),
    node("c", "root", "completed"),
  ]);
  const counts = ({ executions, running, pending }) => [executions, running, pending];
  assert.deepEqual(counts(consequencesOf(known, "root")), [4, 2, 1]);
  assert.deepEqual(counts(consequencesOf(known, "a")), [2, 1, 1]);
  assert.deepEqual(consequencesOf(known, "c").words, []);
});
