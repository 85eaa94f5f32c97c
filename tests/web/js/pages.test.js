import assert from "node:assert/strict";
import { test } from "node:test";
import { childrenWords, lineSeconds, lineWords } from "../../../server/web/static/js/shells/pages/execution_line.js";
import { daysBetween } from "../../../server/web/static/js/shells/pages/usage.js";
import { choicesFor, matchRank } from "../../../server/web/static/js/shells/palette_choices.js";
import { fieldsOf, inputOf } from "../../../server/web/static/js/shells/schema_fields.js";

const LINE = {
  id: "a",
  agent: "Log",
  task: "look",
  status: "running",
  outcome: null,
  reason: null,
  activity: "calling loki__query",
  error: null,
  owner_gone: false,
  cancel_requested: false,
  approvals: 0,
  attention: null,
  seconds: 4,
  subtree_executions: 4,
  subtree_ended: 1,
};

test("a line says what it does, and what needs attention says why", () => {
  assert.deepEqual(lineWords(LINE), { words: "calling loki__query", detail: "" });
  assert.deepEqual(lineWords({ ...LINE, status: "failed", attention: "failed", error: "no such host\nat x" }), {
    words: "failed",
    detail: "no such host",
  });
  assert.equal(lineWords({ ...LINE, attention: "approval" }).words, "waits for your approval");
  assert.equal(lineWords({ ...LINE, status: "completed" }).words, "");
  assert.equal(lineWords({ ...LINE, status: "completed", outcome: "partial" }).words, "completed in part");
});

test("descendants are counted without the execution itself", () => {
  assert.equal(childrenWords(LINE), "1 / 3");
  assert.equal(childrenWords({ ...LINE, status: "completed", subtree_ended: 4 }), "3");
  assert.equal(childrenWords({ ...LINE, subtree_executions: 1, subtree_ended: 0 }), "");
});

test("time goes on only while an execution is at work", () => {
  assert.equal(lineSeconds({ line: LINE, heard: 1000 }, 3500), 6.5);
  assert.equal(lineSeconds({ line: { ...LINE, status: "failed" }, heard: 1000 }, 3500), 4);
  assert.equal(lineSeconds({ line: { ...LINE, owner_gone: true }, heard: 1000 }, 3500), 4);
});

test("the palette puts the best match first and keeps groups together", () => {
  const choice = (group, words, found = false) => ({ group, words, note: "", found, run: () => {} });
  const choices = [
    choice("Pages", "Usage"),
    choice("Executions", "● Reporter", true),
    choice("Start", "LogAnalyzer"),
    choice("Start", "Catalog"),
  ];
  assert.deepEqual(
    choicesFor("log", choices).map(({ words }) => words),
    ["LogAnalyzer", "Catalog", "● Reporter"],
  );
  assert.equal(choicesFor("", choices).length, 4);
  assert.equal(matchRank("lgz", "LogAnalyzer"), 2);
  assert.equal(matchRank("zzz", "LogAnalyzer"), null);
});

test("days without usage are days, too", () => {
  const row = (name) => ({ name, executions: 2, pricing: [] });
  const usage = { since: "2026-02-27", by_day: [row("2026-02-28"), row("2026-03-02")], total: row("") };
  assert.deepEqual(
    daysBetween(usage).map(({ name, executions }) => `${name} ${executions}`),
    ["2026-02-27 0", "2026-02-28 2", "2026-03-01 0", "2026-03-02 2"],
  );
});

const SCHEMA = {
  type: "object",
  required: ["host"],
  properties: {
    host: { type: "string", description: "which one" },
    port: { type: "integer", default: 80 },
    secure: { type: "boolean" },
    keep: { type: "boolean", default: true },
    level: { enum: ["low", "high"] },
    labels: { type: "object" },
  },
};

test("a form has a field for each property of the input", () => {
  const fields = fieldsOf(SCHEMA) ?? [];
  assert.deepEqual(
    fields.map(({ name, kind, required }) => [name, kind, required]),
    [
      ["host", "text", true],
      ["port", "integer", false],
      ["secure", "boolean", false],
      ["keep", "boolean", false],
      ["level", "choice", false],
      ["labels", "json", false],
    ],
  );
  assert.equal(fields[1]?.initial, "80");
  assert.equal(fieldsOf({ type: "array" }), null);
  assert.equal(fieldsOf(null), null);
});

test("a filled form says the input, and what cannot be", () => {
  const fields = fieldsOf(SCHEMA) ?? [];
  const filled = { host: " db-1 ", port: "81", secure: "true", level: "", labels: '{"a": 1}' };
  assert.deepEqual(inputOf(fields, filled).input, {
    host: "db-1",
    port: 81,
    secure: true,
    keep: false,
    labels: { a: 1 },
  });
  const required = (fieldsOf(SCHEMA) ?? []).map((field) => ({ ...field, required: field.kind === "boolean" }));
  assert.deepEqual(inputOf(required, { keep: "true" }).input, { secure: false, keep: true });
  assert.deepEqual(inputOf(fields, { port: "8.5", labels: "{" }).errors, {
    host: "is required",
    port: "is no whole number",
    labels: "is no JSON",
  });
});
