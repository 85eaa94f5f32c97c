/**
 * The list when it has nothing to show: why, and what to do next.
 */

import { element } from "../../core/dom.js";
import { errorWords } from "../../sources/api.js";
import { actionButton, commandLine } from "../parts.js";
import { executionHref } from "../router.js";
import { openStart } from "../start_form.js";

/** @import {Shell} from "../shell.js" */
/** @import {ExecutionFilters} from "./execution_filters.js" */

const FIRST = 'outrider run sre-investigation "why is checkout slow?"';

/**
 * @param {Shell} shell
 * @param {ExecutionFilters} filters
 */
export function emptyList(shell, filters) {
  if (filters.any())
    return element(
      "section",
      { class: "card vacant", "data-empty": "filters" },
      element("h2", {}, "No execution matches"),
      element(
        "p",
        {},
        "The search looks at tasks, agents and ids. Top-level executions are listed; “every level” lists what they dispatched, too.",
      ),
      actionButton("clear-filters", "Clear all filters", () => filters.cleared()),
    );
  return element(
    "section",
    { class: "card vacant", "data-empty": "none" },
    element("h2", {}, "No executions yet"),
    element(
      "p",
      {},
      "An execution is one agent at work on one task. It dispatches others, and the tree that grows is shown here while it does.",
    ),
    shell.session.demo &&
      element(
        "div",
        { class: "vacant-step" },
        actionButton("demo", "Start the offline demo", () => void startDemo(shell), { kind: "primary" }),
        element(
          "p",
          { class: "faint" },
          "An investigation of an incident with rehearsed models: no key, no network, no cost.",
        ),
      ),
    element("div", { class: "vacant-step" }, element("p", {}, "Or from a terminal:"), commandLine(shell, FIRST)),
    actionButton("start-form", "Start an agent of yours…", () => void openStart(shell), { kind: "quiet" }),
  );
}

/** @param {Shell} shell */
export async function startDemo(shell) {
  try {
    /** @type {{execution_id: string}} */
    const started = await shell.api.post("/demo");
    shell.router.go(executionHref(started.execution_id));
  } catch (failure) {
    const { message, hint } = errorWords(failure);
    shell.toast(message, { tone: "bad", hint });
  }
}
