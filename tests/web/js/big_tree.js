/**
 * Trees of any size as a source, made in the page or in node: with every kind of status, failures, refusals and questions,
 * and changing as long as it is followed.
 */

const AGENTS = ["Investigator", "LogAnalyzer", "MetricChecker", "K8sInspector", "Synthesizer"];
export const START = Date.now() - 900_000;

export const iso = (seconds) => new Date(START + seconds * 1000).toISOString();

/** Numbers that look random and are the same each time. */
function numbers(seed) {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}

export function treeNode(id, parent, more = {}) {
  return {
    id,
    short_id: id.slice(0, 8),
    parent_execution_id: parent?.id ?? null,
    root_execution_id: "root",
    level: parent === null ? 0 : parent.level + 1,
    position: 0,
    agent: "LogAnalyzer",
    role: "agent",
    strategy: "loop",
    stage: null,
    step_id: null,
    tool_call_id: parent === null ? null : "toolu_dispatch1",
    task: "Look into the checkout latency of the last hour",
    status: "completed",
    outcome: "success",
    reason: null,
    waiting_for: null,
    activity: "",
    error: null,
    error_type: null,
    summary: "p99 rose from 180 ms to 2.4 s at 07:41, with the deploy of checkout 4.12",
    owner_gone: false,
    cancel_requested: false,
    attempt: 1,
    continues_execution_id: null,
    model: "claude-sonnet-5-5",
    pricing: ["priced"],
    created_at: iso(0),
    started_at: iso(0),
    finished_at: iso(10),
    deadline_at: null,
    turns: 3,
    tool_call_count: 4,
    input_tokens: 8200,
    output_tokens: 640,
    cache_read_tokens: 5100,
    cache_write_tokens: 900,
    cost_usd: 0.0213,
    budget_usd: null,
    budget_tokens: null,
    times: { queue: 1, model: 6, tool: 2, approval: 0, children: 1, idle: 0, lasting: null },
    ...more,
  };
}

/** A tree of so many executions; the last ones run. */
export function bigTree(count, { fan = 12, ended = false } = {}) {
  const random = numbers(7);
  const nodes = [
    treeNode("root", null, {
      agent: "sre-investigation",
      role: "chain",
      strategy: "chain",
      task: "Why is the checkout slow?",
      status: ended ? "completed" : "running",
      activity: ended ? "" : "investigating",
      finished_at: ended ? iso(900) : null,
      budget_usd: 3000,
    }),
  ];
  for (let place = 1; place < count; place += 1) {
    const parent = nodes[Math.floor((place - 1) / fan)];
    const from = place < 40 ? place * 4 + random() * 3 : 160 + (place / count) * 300 + random() * 40;
    const chance = random();
    const running = !ended && place > count * 0.97;
    const bad = chance < 0.02;
    const status = running
      ? "running"
      : bad
        ? "failed"
        : chance < 0.03
          ? "timed_out"
          : chance < 0.04
            ? "cancelled"
            : "completed";
    nodes.push(
      treeNode(`n${place}`, parent, {
        agent: AGENTS[place % AGENTS.length],
        status,
        outcome: status === "completed" ? (chance < 0.1 ? "partial" : "success") : null,
        activity: running ? "calling loki__query" : "",
        error: bad ? "loki__query: connection refused by 10.0.3.7:3100" : null,
        error_type: bad ? "upstream" : null,
        summary: status === "completed" ? `Finding ${place}: errors began with the deploy` : "",
        created_at: iso(from),
        started_at: iso(from + random() * 2),
        finished_at: running ? null : iso(from + 3 + random() * 60),
        cost_usd: random() * 0.05,
        input_tokens: Math.floor(random() * 20_000),
      }),
    );
  }
  const refused = [
    {
      id: "refused1",
      parent_execution_id: "root",
      agent: "Pager",
      kind: "depth",
      message: "the tree is 3 deep",
      at: iso(30),
    },
  ];
  const approvals = ended ? [] : [approvalOf(nodes.at(-1)?.id ?? "root")];
  return {
    id: "root",
    cursor: 100,
    ended,
    truncated: false,
    executions: nodes.length,
    nodes,
    refused,
    approvals,
    critical_path: ["root", "n1", "n13"].filter((id) => nodes.some((node) => node.id === id)),
  };
}

function approvalOf(id) {
  return {
    id: "approval1",
    execution_id: id,
    root_execution_id: "root",
    agent: "K8sInspector",
    kind: "tool",
    server: "kubernetes",
    tool: "kubernetes__rollout_restart",
    arguments: '{\n  "deployment": "checkout",\n  "namespace": "shop"\n}',
    shown: "d1gest",
    requested_at: iso(400),
    expires_at: iso(4000),
  };
}
