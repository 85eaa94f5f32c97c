import assert from "node:assert/strict";
import { test } from "node:test";
import { changedQuery, dataHref, executionHref, routeOf } from "../../../server/web/static/js/shells/router.js";
import { withQuery } from "../../../server/web/static/js/sources/api.js";
import { actionPath } from "../../../server/web/static/js/sources/live.js";

test("each address has its page", () => {
  const pages = {
    "/": "executions",
    "/executions": "executions",
    "/agents": "agents",
    "/usage/": "usage",
    "/sql": "sql",
    "/compare": "compare",
  };
  for (const [path, page] of Object.entries(pages)) assert.equal(routeOf(path)?.page, page);
  assert.equal(routeOf("/executions/exec_1")?.id, "exec_1");
  assert.equal(routeOf("/nowhere"), null);
  assert.equal(routeOf("/executions/%E0%A4%A"), null);
  assert.equal(routeOf("/executions/exec_1.json"), null);
});

test("an id survives its address", () => {
  assert.equal(routeOf(executionHref("a b&c?"))?.id, "a b&c?");
});

test("a query changes in part, and empty values leave it", () => {
  const query = new URLSearchParams("status=failed&q=disk");
  assert.equal(changedQuery(query, { q: "", agent: "Log" }).toString(), "status=failed&agent=Log");
  assert.equal(query.toString(), "status=failed&q=disk");
});

test("a request leaves out what is not asked", () => {
  assert.equal(
    withQuery("/executions", { group: "running", q: "", all_levels: false, limit: 5 }),
    "/executions?group=running&limit=5",
  );
});

test("decisions go to approvals, everything else to executions", () => {
  assert.equal(actionPath("a1", "approve"), "/approvals/a1/approve");
  assert.equal(actionPath("e1", "cancel"), "/executions/e1/cancel");
});

test("each page has its data beside it", () => {
  assert.equal(dataHref("/", "?q=disk"), "/executions.json?q=disk");
  assert.equal(dataHref("/executions/1k0", ""), "/executions/1k0.json");
  assert.equal(dataHref("/usage/", "?days=7"), "/usage.json?days=7");
});
