/**
 * What is written in the executions of a made tree: answers, conversations and times.
 */

import { iso, START } from "./big_tree.js";

const ANSWER = `## The deploy of checkout 4.12 exhausted the connection pool

The p99 of \`checkout\` rose from **180 ms** to **2.4 s** at 07:41 [toolu_metrics1], one minute after the rollout [toolu_k8s1].

| service | before | after |
|---|---:|---:|
| checkout | 180 ms | 2.4 s |
| cart | 95 ms | 97 ms |

1. Roll back to 4.11.
2. Raise \`pool.max\` from 8 to 32, see https://runbooks.example.com/checkout.
`;

export function executionOf(node, more = {}) {
  return {
    node,
    task: `${node.task}\n\nStart with the metrics, then the logs; say what proves each claim.`,
    input: null,
    result:
      node.finished_at === null || node.status !== "completed"
        ? null
        : {
            outcome: node.outcome ?? "success",
            summary: node.summary,
            output: ANSWER,
            reason: null,
            artifacts: [{ type: "report", name: "timeline.md", content: "07:40 rollout\n07:41 p99 rises" }],
            errors: [],
            next_steps: ["roll back checkout to 4.11"],
            signals: {},
            metadata: {},
          },
    ancestors: [],
    principal: null,
    cancelled_by: null,
    cancel_reason: null,
    timeout_seconds: 600,
    subtree: { executions: 1, tokens: 1, cost_usd: 0.1, seconds: 1, by_status: {} },
    warnings: [],
    needs: [],
    citations: [
      { cited: "toolu_metrics1", call_id: "toolu_metrics1", execution_id: node.id, tool: "prometheus__query" },
      { cited: "toolu_k8s1", call_id: null, execution_id: null, tool: "" },
    ],
    actions: node.finished_at === null ? ["cancel", "wrap-up", "message"] : ["message", "rerun"],
    ...more,
  };
}

export function transcriptOf(id, turns = 6, child = null) {
  const messages = [message(id, 0, "user", "Why is the checkout slow?", [])];
  const model_calls = [];
  for (let turn = 1; turn <= turns; turn += 1) {
    const call = {
      id: `${id}-row${turn}`,
      call_id: turn === 1 ? "toolu_metrics1" : `toolu_${id}${turn}`,
      tool: turn === 2 ? "dispatch_agent" : "prometheus__query",
      server: "prometheus",
      arguments: { query: "histogram_quantile(0.99, rate(checkout_seconds_bucket[5m]))", turn },
      effect: "read_only",
      status: "completed",
      is_error: turn === 3,
      error_type: turn === 3 ? "upstream" : null,
      result: turn === 3 ? "connection refused" : '{"status": "success", "data": [1, 2, 3]}',
      truncated: turn === 4,
      started_at: iso(turn * 2),
      finished_at: iso(turn * 2 + 1),
      child_execution_id: turn === 2 ? child : null,
    };
    messages.push(message(id, turn * 2 - 1, "assistant", `I look at the **metrics** of turn ${turn}.`, [call]));
    messages.push(message(id, turn * 2, "user", "", []));
    model_calls.push({
      id: `${id}-m${turn}`,
      turn,
      model: "claude-sonnet-5-5",
      stop_reason: "tool_use",
      pricing: "priced",
      input_tokens: 2000,
      output_tokens: 90,
      cache_read_tokens: 1000,
      cache_write_tokens: 0,
      cost_usd: 0.004,
      started_at: iso(turn * 2 - 1),
      finished_at: iso(turn * 2),
    });
  }
  return { id, messages, model_calls, total: messages.length, next_position: null };
}

function message(id, position, role, text, calls) {
  const content = text === "" ? [{ type: "tool_result", content: "…" }] : [{ type: "text", text }];
  return { id: `${id}-${position}`, position, role, kind: role, content, created_at: iso(position), calls };
}

export function timelineOf(node) {
  const from = (Date.parse(node.started_at) - START) / 1000;
  const to = node.finished_at === null ? (Date.now() - START) / 1000 : (Date.parse(node.finished_at) - START) / 1000;
  const at = (part) => iso(from + (to - from) * part);
  const span = (kind, start, end, label, is_error = false) => ({
    kind,
    started_at: start,
    finished_at: end,
    label,
    ref: null,
    is_error,
  });
  const spans = [
    span("queue", node.created_at, at(0), ""),
    span("model", at(0), at(0.35), "claude-sonnet-5-5"),
    span("tool", at(0.35), at(0.5), "prometheus__query", node.status === "failed"),
    span("children", at(0.5), at(0.8), ""),
    span("model", at(0.8), at(1), "claude-sonnet-5-5"),
  ];
  return { id: node.id, spans, events: [], next_seq: null };
}
