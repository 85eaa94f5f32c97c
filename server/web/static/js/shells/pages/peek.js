/**
 * A look into an execution without leaving the list: its task, what it found or why it stopped, the questions it asks.
 */

import { arrangeChildren, element, replaceChildren } from "../../core/dom.js";
import { markdownElement } from "../../core/markdown.js";
import { errorWords } from "../../sources/api.js";
import { approvalCard } from "../approval_card.js";
import { actionButton, failureCard, skeleton } from "../parts.js";
import { executionHref } from "../router.js";

/** @import {Approval, Execution} from "../../types.js" */
/** @import {Shell} from "../shell.js" */
/** @import {LineRow} from "./execution_line.js" */

/** @typedef {{changed: () => void, cancel: () => void}} PeekHooks */

/**
 * @param {Shell} shell
 * @param {LineRow} row
 * @param {PeekHooks} hooks
 */
export async function openPeek(shell, row, hooks) {
  const { line } = row.heard;
  const asked = ++row.asked;
  if (row.peek.childElementCount === 0) replaceChildren(row.peek, skeleton(2, 24));
  try {
    const [execution, questions] = await Promise.all([
      /** @type {Promise<Execution>} */ (shell.ask(executionHref(line.id))),
      line.approvals > 0
        ? /** @type {Promise<{approvals: Approval[]}>} */ (shell.ask("/approvals"))
        : { approvals: [] },
    ]);
    const mine = questions.approvals.filter((each) => each.root_execution_id === execution.node.root_execution_id);
    const again = () => {
      hooks.changed();
      void openPeek(shell, row, hooks);
    };
    if (asked !== row.asked) return;
    const parts = [
      ...mine.map(
        (each) =>
          row.peek.querySelector(`[data-approval="${CSS.escape(each.id)}"]:not([inert])`) ??
          approvalCard(shell, each, again),
      ),
      found(execution),
      mine.length === 0 &&
        element(
          "div",
          { class: "peek-task" },
          element("h3", {}, "Task"),
          element("p", { class: "prose" }, execution.task),
        ),
      answers(shell, execution, hooks),
    ];
    arrangeChildren(
      row.peek,
      parts.filter((part) => part instanceof Element),
    );
  } catch (failure) {
    if (asked === row.asked) replaceChildren(row.peek, failureCard(failure));
  }
}

/** @param {Execution} execution */
function found({ node, result, needs, warnings }) {
  const parts = [];
  if (node.error !== null) parts.push(element("h3", {}, "Error"), element("p", { class: "prose" }, node.error));
  if (result !== null && result.summary !== "")
    parts.push(
      element("h3", {}, "Answer"),
      element("div", { class: "peek-answer", tabindex: "0" }, markdownElement(result.summary)),
    );
  for (const need of needs)
    parts.push(element("p", {}, need.words, " ", element("span", { class: "hint" }, need.hint)));
  for (const warning of warnings) parts.push(element("p", { class: "hint" }, warning));
  return parts.length > 0 && element("div", { class: "peek-found" }, ...parts);
}

/**
 * @param {Shell} shell
 * @param {Execution} execution
 * @param {PeekHooks} hooks
 */
function answers(shell, { node, actions }, hooks) {
  const resume = async () => {
    try {
      await shell.source.act?.(node.id, "resume", {});
      shell.toast(`${node.agent} goes on`, { tone: "ok" });
      hooks.changed();
    } catch (failure) {
      const { message, hint } = errorWords(failure);
      shell.toast(message, { tone: "bad", hint });
    }
  };
  return element(
    "div",
    { class: "row wrap" },
    element("a", { class: "button", "data-size": "small", href: executionHref(node.id) }, "Open"),
    element(
      "a",
      { class: "button", "data-size": "small", href: `/compare?a=${encodeURIComponent(node.id)}` },
      "Compare…",
    ),
    actions.includes("resume") && actionButton("resume", "Resume", () => void resume(), { size: "small" }),
    actions.includes("cancel") &&
      actionButton("cancel", "Cancel…", hooks.cancel, { kind: "danger", size: "small", title: "x" }),
    element("code", { class: "faint push" }, node.id),
  );
}
