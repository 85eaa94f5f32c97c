/**
 * A question to a person, with the exact arguments, answered in place.
 */

import { element } from "../core/dom.js";
import { durationWords, timeOf } from "../core/format.js";
import { errorWords } from "../sources/api.js";
import { actionButton } from "./parts.js";
import { executionHref } from "./router.js";

/** @import {Approval} from "../types.js" */
/** @import {Shell} from "./shell.js" */

/**
 * @param {Shell} shell
 * @param {Approval} approval
 * @param {() => void} decided
 */
export function approvalCard(shell, approval, decided) {
  const reason = element("input", {
    class: "input",
    name: "reason",
    placeholder: "Reason (optional)",
    "aria-label": "Reason",
    maxlength: "500",
  });
  const expires = timeOf(approval.expires_at);
  const left = element("span", { class: "faint", "data-until": Number.isFinite(expires) ? String(expires) : null });
  /** @param {"approve" | "deny"} decision */
  const decide = async (decision) => {
    card.inert = true;
    try {
      const said = reason.value.trim();
      await shell.source.act?.(approval.id, decision, {
        shown: approval.shown,
        ...(said === "" ? {} : { reason: said }),
      });
      shell.announce(decision === "approve" ? "Approved" : "Denied");
      decided();
    } catch (failure) {
      card.inert = false;
      const { message, hint } = errorWords(failure);
      shell.toast(message, { tone: "bad", hint });
    }
  };
  const card = element(
    "article",
    { class: "approval", "data-approval": approval.id },
    element(
      "p",
      { class: "approval-head" },
      element("a", { href: executionHref(approval.execution_id) }, approval.agent),
      " asks to call ",
      element("code", {}, approval.tool),
      left,
    ),
    element(
      "pre",
      { class: "code approval-arguments", tabindex: "0", "aria-label": "Exact arguments" },
      approval.arguments,
    ),
    element(
      "div",
      { class: "row wrap approval-answers" },
      actionButton("approve", "Approve", () => void decide("approve"), { kind: "primary" }),
      actionButton("deny", "Deny", () => void decide("deny"), { kind: "danger" }),
      reason,
    ),
  );
  tickDeadlines(card, Date.now());
  return card;
}

/**
 * Says below an element how long each question still waits.
 * @param {Element} place
 * @param {number} now
 */
export function tickDeadlines(place, now) {
  for (const each of place.querySelectorAll("[data-until]")) {
    const seconds = (Number(each.getAttribute("data-until")) - now) / 1000;
    each.textContent =
      seconds > 0 ? `expires in ${durationWords(Math.max(1, Math.floor(seconds))).replace(".0s", "s")}` : "expired";
  }
}
