/**
 * A tool call: what was asked, what came back, and the execution it started.
 */

import { folded } from "./answer.js";
import { element } from "./dom.js";
import { durationWords, jsonText, secondsBetween } from "./format.js";
import { textBlock } from "./text_block.js";

/** @import {Source, TranscriptCall} from "../types.js" */

/** @typedef {{source: Source, go: (id: string) => void}} CallHooks */

/**
 * What a call came to: a mark, and the status that colours it.
 * @param {TranscriptCall} call
 */
function markOf({ finished_at, status, is_error, error_type }) {
  if (finished_at === null && status !== "completed") return ["◐", "running"];
  if (is_error) return error_type === "cancelled" ? ["⊘", "cancelled"] : ["✕", "failed"];
  return status === "unknown" ? ["?", "partial"] : ["✓", "completed"];
}

/**
 * @param {TranscriptCall} call
 * @param {string} open while it has no result
 */
function lineOf(call, open) {
  const [mark, status] = markOf(call);
  const took = call.finished_at === null ? open : durationWords(secondsBetween(call.started_at, call.finished_at, 0));
  return [
    element("span", { class: "x-mark", "aria-hidden": "true", "data-status": status }, mark),
    element("code", {}, call.tool),
    element("span", { class: "x-muted" }, ` ${briefly(call.arguments)}`),
    element("span", { class: "x-took" }, took),
  ];
}

/**
 * In one line: for reading along.
 * @param {TranscriptCall} call
 * @param {CallHooks} hooks
 * @returns {HTMLElement}
 */
export function callLine(call, hooks) {
  const about = { class: "x-call-line", "data-call": call.call_id, "data-row": call.id };
  return element("p", about, ...lineOf(call, ""), childLink(call, hooks));
}

/**
 * With arguments and result.
 * @param {TranscriptCall} call
 * @param {CallHooks} hooks
 * @returns {HTMLElement}
 */
export function callCard(call, hooks) {
  const about = { class: "x-call", "data-call": call.call_id, "data-row": call.id };
  const card = element("details", about, element("summary", {}, ...lineOf(call, "running")));
  card.addEventListener("toggle", () => {
    if (card.open && card.childElementCount === 1) card.append(callBody(call, hooks));
  });
  const link = childLink(call, hooks);
  return link === null ? card : element("div", { class: "x-call-with-child" }, card, link);
}

/**
 * @param {TranscriptCall} call
 * @param {CallHooks} hooks
 */
function callBody(call, hooks) {
  const { source } = hooks;
  const loads = source.call;
  const whole = loads === null ? null : async () => pretty((await loads(call.id)).result ?? "");
  const about = [call.status, call.effect, call.error_type].filter(Boolean).join(" · ");
  return element(
    "div",
    { class: "x-call-body" },
    element("p", { class: "x-muted" }, `${about} · ${call.call_id}`),
    element("p", { class: "x-label" }, "Arguments"),
    textBlock(jsonText(call.arguments)),
    element("p", { class: "x-label" }, call.is_error ? "Error" : "Result"),
    call.result === null
      ? element("p", { class: "x-muted" }, "none yet")
      : textBlock(call.truncated ? call.result : pretty(call.result), { truncated: call.truncated, whole }),
    folded("Raw", textBlock(jsonText({ ...call, result: undefined }))),
  );
}

/**
 * @param {TranscriptCall} call
 * @param {CallHooks} hooks
 */
function childLink(call, hooks) {
  const child = call.child_execution_id;
  if (child === null) return null;
  const open = () => hooks.go(child);
  return element("button", { type: "button", class: "x-link", "data-child": child, onclick: open }, "→ execution");
}

/**
 * JSON with its lines broken; anything else as it is.
 * @param {string} text
 */
function pretty(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 300_000) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** @param {unknown} value */
function briefly(value) {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}
