/**
 * A question to a person: exactly what will be sent, and the decision.
 */

import { element } from "./dom.js";
import { clockWords } from "./format.js";

/** @import {Approval} from "../types.js" */

/**
 * @param {Approval} approval
 * @param {((decision: "approve" | "deny", reason: string) => Promise<void>) | null} decide null: it is decided elsewhere
 * @returns {HTMLElement}
 */
export function approvalElement(approval, decide) {
  const reason = element("input", {
    type: "text",
    class: "x-reason",
    placeholder: "reason (optional)",
    "aria-label": "Reason",
  });
  const failure = element("p", { class: "x-error", hidden: true, role: "alert" });
  /** @type {HTMLButtonElement[]} */
  const buttons = [];
  const decides = (/** @type {"approve" | "deny"} */ decision) => async () => {
    for (const each of buttons) each.disabled = true;
    failure.hidden = true;
    try {
      await decide?.(decision, reason.value);
    } catch (refused) {
      failure.hidden = false;
      failure.textContent = refused instanceof Error ? refused.message : "the decision was not taken";
      for (const each of buttons) each.disabled = false;
    }
  };
  for (const decision of /** @type {const} */ (["approve", "deny"])) {
    const attributes = { type: "button", "data-action": decision, onclick: decides(decision) };
    buttons.push(element("button", attributes, decision === "approve" ? "Approve" : "Deny"));
  }
  const where = approval.server ? ` of ${approval.server}` : "";
  return element(
    "section",
    { class: "x-approval", "data-approval": approval.id, "aria-label": `Approval of ${approval.tool}` },
    element("h3", {}, `${approval.agent} asks to call `, element("code", {}, approval.tool), where),
    element("pre", { class: "x-code", tabindex: 0 }, element("code", {}, approval.arguments)),
    element(
      "p",
      { class: "x-muted" },
      `asked ${clockWords(approval.requested_at, Date.now())}, expires ${clockWords(approval.expires_at, Date.now())}`,
    ),
    decide === null
      ? element("p", { class: "x-muted" }, "It can be decided on the dashboard or in the terminal.")
      : element("div", { class: "x-decision" }, reason, ...buttons),
    failure,
  );
}
