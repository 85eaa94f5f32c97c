/**
 * A tree as a tool's answer gives it to a model: all that is known where a host calls no tools for a view.
 */

/** @import {Execution, Source, Tree, TreeNode} from "../types.js" */

/**
 * One execution of the answer of `get_execution_tree`; fields without a value are absent.
 * @typedef {object} Told
 * @property {string} execution_id
 * @property {string} agent
 * @property {import("../types.js").Status} status
 * @property {string} created_at
 * @property {number} own_seconds
 * @property {number} own_tokens
 * @property {number} turns
 * @property {number} cost_usd
 * @property {string} [task]
 * @property {string} [outcome]
 * @property {string} [error]
 * @property {string} [parent_execution_id]
 * @property {number} [budget_usd]
 * @property {number} [budget_tokens]
 * @property {Told[]} [children]
 */

const OPEN = new Set(["pending", "running"]);
/** What such an answer does not tell of an execution. */
const UNTOLD = {
  role: "",
  strategy: "",
  stage: null,
  step_id: null,
  tool_call_id: null,
  reason: null,
  waiting_for: null,
  activity: "",
  error_type: null,
  summary: "",
  owner_gone: false,
  cancel_requested: false,
  attempt: 1,
  continues_execution_id: null,
  model: null,
  pricing: [],
  deadline_at: null,
  tool_call_count: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  times: { queue: 0, model: 0, tool: 0, approval: 0, children: 0, idle: 0, lasting: null },
};

/**
 * @param {{tree: Told, executions: number, truncated?: boolean}} told
 * @returns {Tree}
 */
export function treeOf(told) {
  const root = told.tree.execution_id;
  const nodes = nodesOf(told.tree, told.tree.parent_execution_id ?? null, root, 0, 0);
  const ended = nodes.every((node) => !OPEN.has(node.status));
  const rest = { refused: [], approvals: [], critical_path: [] };
  return {
    id: root,
    cursor: 0,
    ended,
    truncated: told.truncated ?? false,
    executions: told.executions,
    nodes,
    ...rest,
  };
}

/**
 * @param {Told} told
 * @param {string | null} parent
 * @param {string} root
 * @param {number} level
 * @param {number} position
 * @returns {TreeNode[]}
 */
function nodesOf(told, parent, root, level, position) {
  const ended = !OPEN.has(told.status);
  const finished = new Date(Date.parse(told.created_at) + told.own_seconds * 1000).toISOString();
  /** @type {TreeNode} */
  const node = {
    ...UNTOLD,
    id: told.execution_id,
    short_id: told.execution_id.slice(-6),
    parent_execution_id: parent,
    root_execution_id: root,
    level,
    position,
    agent: told.agent,
    task: told.task ?? "",
    status: told.status,
    outcome: told.outcome ?? told.status,
    error: told.error ?? null,
    created_at: told.created_at,
    started_at: told.status === "pending" ? null : told.created_at,
    finished_at: ended ? finished : null,
    turns: told.turns,
    input_tokens: told.own_tokens,
    cost_usd: told.cost_usd,
    budget_usd: told.budget_usd ?? null,
    budget_tokens: told.budget_tokens ?? null,
  };
  const below = (told.children ?? []).map((child, index) => nodesOf(child, told.execution_id, root, level + 1, index));
  return [node, ...below.flat()];
}

/**
 * @param {Tree} tree
 * @returns {Source}
 */
export function givenSource(tree) {
  return {
    tree: async () => tree,
    changes: async () => ({ ...tree, nodes: [] }),
    execution: async (id) => executionOf(tree, id),
    transcript: async (id) => ({ id, messages: [], model_calls: [], total: 0, next_position: null }),
    timeline: async (id) => ({ id, spans: [], events: [], next_seq: null }),
    call: null,
    plan: null,
    consequences: null,
    act: null,
    follow: null,
  };
}

/**
 * @param {Tree} tree
 * @param {string} id
 * @returns {Execution}
 */
function executionOf(tree, id) {
  const node = tree.nodes.find((each) => each.id === id);
  if (node === undefined) throw new Error(`no execution \`${id}\` in this answer`);
  return {
    node,
    task: node.task,
    input: null,
    result: null,
    ancestors: [],
    clock_stopped_at: null,
    origin: null,
    continued_by: [],
    principal: null,
    cancelled_by: null,
    cancel_reason: null,
    timeout_seconds: null,
    subtree: { executions: 1, tokens: node.input_tokens, cost_usd: node.cost_usd, seconds: 0, by_status: {} },
    warnings: ["this host calls no tools for a view: only what the model was told can be shown"],
    needs: [],
    citations: [],
    actions: [],
  };
}
