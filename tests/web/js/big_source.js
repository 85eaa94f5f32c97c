/**
 * A made tree as a source, in the page: it changes when it is told to, and remembers what was done to it.
 */

import { bigTree, iso } from "./big_tree.js";
import { executionOf, timelineOf, transcriptOf } from "./tree_texts.js";

const KEPT =
  /^(id|.*_id|short_id|status|.*_at|at|pricing|kind|type|critical_path|role|format|outcome|waiting_for|actions|effect|stop_reason)$/;

/** A value with this text in place of every text that an agent, a tool or a person may have written. */
export function hostile(value, text, key = "") {
  if (typeof value === "string") return KEPT.test(key) && key !== "call_id" ? value : text;
  if (Array.isArray(value)) return KEPT.test(key) ? value : value.map((each) => hostile(each, text, key));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, hostile(each, text, name)]));
}

/**
 * A source of one tree. `beat()` changes so many of its running executions, and tells who follows.
 */
export function bigSource(count, options = {}) {
  const told = (value) => (options.hostile === undefined ? value : hostile(value, options.hostile));
  const tree = told(bigTree(count, options));
  const byId = new Map(tree.nodes.map((node) => [node.id, node]));
  const listeners = new Set();
  const acted = [];
  let changed = new Set();
  const found = (id) => {
    const node = byId.get(id);
    if (node === undefined) throw new Error(`no execution ${id}`);
    return node;
  };
  const whole = JSON.stringify(tree);
  const source = {
    tree: async () => JSON.parse(whole),
    changes: async () => {
      const nodes = [...changed].map(found);
      changed = new Set();
      return structuredClone({ ...tree, nodes, refused: [] });
    },
    execution: async (id) => told(executionOf(found(id), options.execution)),
    transcript: async (id) => told(transcriptOf(id, 6, byId.has("n13") ? "n13" : null)),
    timeline: async (id) => told(timelineOf(found(id))),
    call: async (id) => ({ id, result: "the whole result" }),
    plan: null,
    consequences: async () => ({
      words: ["2 running executions below will be cancelled"],
      executions: 3,
      running: 2,
      pending: 0,
    }),
    act: async (id, action, body) => {
      acted.push({ id, action, body });
      return { status: "accepted", execution_id: id };
    },
    follow: (_id, _after, listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const running = tree.nodes.filter((node) => node.status === "running").map((node) => node.id);
  const tell = (event) => {
    for (const listener of listeners) listener.event(event);
  };
  const beat = (many = 50) => {
    for (let each = 0; each < many && running.length > 0; each += 1) {
      const id = running[Math.floor(Math.random() * running.length)];
      const node = byId.get(id);
      byId.set(id, {
        ...node,
        turns: node.turns + 1,
        input_tokens: node.input_tokens + 100,
        activity: `turn ${node.turns}`,
      });
      changed.add(id);
      tree.cursor += 1;
      const payload = { action: `turn ${node.turns}` };
      const about = { execution_id: id, parent_execution_id: null, root_execution_id: "root", at: iso(500) };
      tell({ seq: tree.cursor, type: "execution.progress", payload, ...about });
    }
  };
  return { source, beat, tell, acted, listeners, byId, tree };
}
