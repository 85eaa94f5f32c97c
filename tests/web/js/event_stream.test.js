import assert from "node:assert/strict";
import { test } from "node:test";
import { followEvents, retryPause } from "../../../server/web/static/js/sources/event_stream.js";
import { messageReader } from "../../../server/web/static/js/sources/sse.js";

const event = (seq, root = "t") => ({
  seq,
  type: "execution.status",
  execution_id: root,
  root_execution_id: root,
  payload: {},
});
const line = (seq, root) => `id: ${seq}\ndata: ${JSON.stringify(event(seq, root))}\n\n`;

/** A server whose connections are written down beforehand; the last one stays open. */
function scripted(connections) {
  const asked = [];
  const open = async (headers, signal) => {
    asked.push(headers["Last-Event-ID"] ?? null);
    const next = connections.shift();
    if (next === undefined)
      return new Promise((_, refuse) => signal.addEventListener("abort", () => refuse(new Error("closed"))));
    if (typeof next === "number") return new Response(null, { status: next });
    return new Response(next, { status: 200 });
  };
  return { asked, open };
}

function followed(connections, { after = 0, until }) {
  const server = scripted(connections);
  const seen = [];
  const states = [];
  return new Promise((done) => {
    const check = () =>
      until({ seen, states, asked: server.asked }) &&
      queueMicrotask(() => {
        stop();
        done({ seen, states, asked: server.asked });
      });
    const listener = {
      event: (each) => {
        seen.push(each.seq);
        check();
      },
      state: (state, tries) => {
        states.push(`${state} ${tries}`);
        check();
      },
    };
    const stop = followEvents(after, listener, { open: server.open, pause: async () => {}, silence: 60_000 });
  });
}

test("messages leave whole from pieces cut anywhere", () => {
  const text = "id: 7\r\nevent: caught_up\r\ndata: {}\r\n\r\n: heartbeat\n\ndata: a\ndata: b\n\n";
  for (let cut = 0; cut <= text.length; cut += 1) {
    const told = [];
    const read = messageReader((message) => told.push(message));
    read(text.slice(0, cut));
    read(text.slice(cut));
    assert.deepEqual(told, [
      { id: "7", event: "caught_up", data: "{}" },
      { id: "7", event: "message", data: "a\nb" },
    ]);
  }
});

test("a lost connection goes on after the last number, and nothing comes twice", async () => {
  const { seen, asked } = await followed([line(1) + line(2), line(2) + line(3), line(3) + line(4)], {
    until: ({ seen }) => seen.length === 4,
  });
  assert.deepEqual(seen, [1, 2, 3, 4]);
  assert.deepEqual(asked.slice(0, 3), ["0", "2", "3"]);
});

test("events without a number always pass", async () => {
  const activity = `data: ${JSON.stringify(event(null))}\n\n`;
  const { seen } = await followed([line(5) + activity + activity], { until: ({ seen }) => seen.length === 3 });
  assert.deepEqual(seen, [5, null, null]);
});

test("the numbers of two trees do not hide each other", async () => {
  const { seen } = await followed([line(9, "a") + line(3, "b") + line(9, "a")], {
    after: null,
    until: ({ states }) => states.includes("reconnecting 1"),
  });
  assert.deepEqual(seen, [9, 3]);
});

test("the states tell of tries, of catching up and of the end", async () => {
  const caughtUp = "event: caught_up\ndata: {}\n\n";
  const ended = "event: ended\ndata: {}\n\n";
  const { states } = await followed([line(1), 503, line(2) + caughtUp + line(3) + ended], {
    until: ({ states }) => states.includes("ended 0"),
  });
  assert.deepEqual(states, ["live 0", "reconnecting 1", "reconnecting 2", "caught_up 0", "live 0", "ended 0"]);
});

test("a tree that is gone ends the stream", async () => {
  const { states } = await followed([404], { until: ({ states }) => states.length > 0 });
  assert.deepEqual(states, ["ended 0"]);
});

test("pauses grow, and stay bounded", () => {
  const pauses = [1, 2, 3, 4, 5, 6, 20].map((tries) => retryPause(tries, 0.5));
  assert.deepEqual(pauses, [400, 800, 1600, 3200, 6400, 10_000, 10_000]);
});
