import assert from "node:assert/strict";
import { test } from "node:test";
import { AppBridge, parentPort } from "../../../server/web/static/js/sources/app_bridge.js";

const ABOUT = { name: "outrider", version: "1" };

/** A host that keeps what the view says, and says what a test wants. */
function host() {
  const said = [];
  let take = () => {};
  return {
    said,
    say: (message) => take({ jsonrpc: "2.0", ...message }),
    port: {
      post: (message) => said.push(message),
      listen: (taker) => {
        take = taker;
        return () => {
          take = () => {};
        };
      },
    },
  };
}

async function connected(result = {}) {
  const there = host();
  const bridge = new AppBridge(there.port, ABOUT, ["inline", "fullscreen"]);
  const done = bridge.connect();
  there.say({ id: 1, result });
  await done;
  return { there, bridge };
}

const settled = () => new Promise((done) => setImmediate(done));

test("the handshake comes first, and nothing before it", async () => {
  const there = host();
  const bridge = new AppBridge(there.port, ABOUT, ["inline", "fullscreen"]);
  const done = bridge.connect();
  assert.deepEqual(there.said, [
    {
      jsonrpc: "2.0",
      id: 1,
      method: "ui/initialize",
      params: {
        protocolVersion: "2026-01-26",
        appInfo: ABOUT,
        appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
      },
    },
  ]);
  there.say({ id: 1, result: { hostCapabilities: { serverTools: {} }, hostContext: { theme: "dark" } } });
  await done;
  assert.deepEqual(there.said[1], { jsonrpc: "2.0", method: "ui/notifications/initialized", params: {} });
  assert.equal(bridge.context.theme, "dark");
  assert.ok(bridge.capabilities.serverTools);
});

test("a changed context is merged with what the host said before", async () => {
  const { there, bridge } = await connected({ hostContext: { theme: "dark", displayMode: "inline" } });
  const seen = [];
  bridge.on("ui/notifications/host-context-changed", () => seen.push(bridge.context.theme));
  there.say({ method: "ui/notifications/host-context-changed", params: { theme: "light" } });
  assert.deepEqual(bridge.context, { theme: "light", displayMode: "inline" });
  assert.deepEqual(seen, ["light"]);
});

test("a tool is called through the host, and its refusal is an error", async () => {
  const { there, bridge } = await connected();
  const answer = bridge.callTool("follow_tree", { execution_id: "x" });
  assert.deepEqual(there.said[2], {
    jsonrpc: "2.0",
    id: 2,
    method: "tools/call",
    params: { name: "follow_tree", arguments: { execution_id: "x" } },
  });
  there.say({ id: 2, result: { structuredContent: { cursor: 3 } } });
  assert.deepEqual(await answer, { cursor: 3 });

  const refused = bridge.callTool("follow_tree", { execution_id: "y" });
  there.say({ id: 3, result: { isError: true, content: [{ type: "text", text: "error: no such execution" }] } });
  await assert.rejects(refused, /no such execution/);
  const blocked = bridge.callTool("follow_tree", { execution_id: "z" });
  there.say({ id: 4, error: { code: -32000, message: "not allowed" } });
  await assert.rejects(blocked, { message: "not allowed", code: -32000 });
});

test("requests of the host are answered, unknown ones refused", async () => {
  const { there, bridge } = await connected();
  let reason = "";
  bridge.on("ui/resource-teardown", (params) => {
    reason = params.reason;
  });
  there.say({ id: 7, method: "ui/resource-teardown", params: { reason: "closed" } });
  there.say({ id: "p", method: "ping" });
  there.say({ id: 8, method: "ui/unheard-of" });
  await settled();
  assert.equal(reason, "closed");
  const answers = new Map(there.said.slice(2).map((message) => [message.id, message]));
  assert.deepEqual(answers.get(7).result, {});
  assert.deepEqual(answers.get("p").result, {});
  assert.equal(answers.get(8).error.code, -32601);
});

test("a display mode is asked for only where both sides have it", async () => {
  const { there, bridge } = await connected({ hostContext: { availableDisplayModes: ["inline", "fullscreen"] } });
  assert.equal(await bridge.display("pip"), "inline");
  assert.equal(there.said.length, 2);
  const full = bridge.display("fullscreen");
  assert.deepEqual(there.said[2].params, { mode: "fullscreen" });
  there.say({ id: 2, result: { mode: "inline" } });
  assert.equal(await full, "inline");
});

test("a closed bridge hears nothing, and leaves no wait behind", async () => {
  const { there, bridge } = await connected();
  const wait = bridge.callTool("follow_tree", {});
  bridge.close();
  await assert.rejects(wait, /closed/);
  there.say({ id: 9, method: "ping" });
  await settled();
  assert.equal(there.said.length, 3);
});

test("only the window around this one is heard", () => {
  const listeners = [];
  const parent = { postMessage: (...given) => sent.push(given) };
  const sent = [];
  const own = {
    parent,
    addEventListener: (_, listener) => listeners.push(listener),
    removeEventListener: (_, listener) => listeners.splice(listeners.indexOf(listener), 1),
  };
  const heard = [];
  const port = parentPort(own);
  const stop = port.listen((message) => heard.push(message.id));
  port.post({ jsonrpc: "2.0", id: 1 });
  for (const [source, id] of [
    [parent, 1],
    [own, 2],
    [{}, 3],
    [null, 4],
  ])
    listeners[0]({ source, data: { jsonrpc: "2.0", id } });
  listeners[0]({ source: parent, data: "not ours" });
  stop();
  assert.deepEqual(heard, [1]);
  assert.deepEqual(sent, [[{ jsonrpc: "2.0", id: 1 }, "*"]]);
  assert.equal(listeners.length, 0);
});
