/**
 * The list when it has nothing to show: why, and what to do next.
 */

import { element } from "../../core/dom.js";
import { errorWords } from "../../sources/api.js";
import { actionButton, commandLine } from "../parts.js";
import { executionHref } from "../router.js";
import { openStart } from "../start_form.js";

/** @import {Agents} from "../../types_pages.js" */
/** @import {Shell} from "../shell.js" */
/** @import {ExecutionFilters} from "./execution_filters.js" */

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
    commands(shell),
    actionButton("start-form", "Start an agent of yours…", () => void openStart(shell), { kind: "quiet" }),
  );
}

/**
 * The commands that start something: names are those of this configuration.
 * @param {Shell} shell
 */
function commands(shell) {
  const demo = !shell.session.demo && commandLine(shell, "outrider demo");
  const place = element("div", { class: "vacant-step" }, element("p", {}, "Or from a terminal:"), demo);
  void shell.ask("/agents").then(
    (/** @type {Agents} */ { chains, agents }) => {
      const [first] = [...chains, ...agents];
      if (first !== undefined) place.append(commandLine(shell, `outrider run ${first.name} "what it is to find out"`));
    },
    () => {},
  );
  return place;
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
