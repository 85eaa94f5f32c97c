/**
 * What came out: the answer, with each claim linked to the call that proves it, or the error, with where it began and what
 * to do. Before it ends: what it says now.
 */

import { append, element, setAttribute, setText } from "./dom.js";
import { isBad, isEnded, jsonText, statusWords } from "./format.js";
import { markdownElement } from "./markdown.js";
import { citationButton } from "./markdown_inline.js";
import { plainLine } from "./plain_text.js";
import { originOfFailure } from "./store.js";
import { textBlock } from "./text_block.js";

/** @import {Citation, Execution, Result} from "../types.js" */
/** @import {TreeEntry} from "./store.js" */

/** @typedef {{go: (id: string, call?: string) => void}} AnswerHooks */

/** A paragraph up to this length is seen whole while the answer is folded. */
const SHORT = 420;

/**
 * @param {TreeEntry} entry
 * @param {Execution} execution
 * @param {AnswerHooks} hooks
 * @returns {HTMLElement | null}
 */
export function answerElement(entry, execution, hooks) {
  const { node } = entry;
  const { result } = execution;
  if (!isEnded(node.status) && result === null) return null;
  const failed = isBad(node.status) || node.status === "cancelled" || node.status === "skipped";
  const made = element("section", {
    class: "x-answer",
    "data-answer": node.status,
    "aria-label": failed ? "How it ended" : "Answer",
  });
  const origin = originPart(entry, failed, hooks);
  if (failed) append(made, [...errorParts(entry, execution), origin]);
  if (result !== null) append(made, resultParts(result, execution, hooks));
  if (!failed) append(made, [origin]);
  return made.childElementCount > 0 ? made : null;
}

/**
 * The answer folded to its beginning, with a button that shows all of it in place.
 * @param {HTMLElement} answer
 * @param {boolean} open
 * @param {(open: boolean) => void} changed
 */
export function foldedAnswer(answer, open, changed) {
  const said = answer.querySelector(".x-markdown");
  const parts = [...(said?.children ?? [])];
  const lead = parts.find((part) => !/^H\d$/.test(part.tagName)) ?? parts[0];
  if (lead !== undefined) setAttribute(lead, "data-lead", true);
  const rest = answer.querySelector(".x-rest");
  const made = element("div", { class: "x-outcome" }, answer);
  const more = element("button", { type: "button", class: "x-link", "data-action": "answer" });
  const show = (/** @type {boolean} */ now) => {
    setAttribute(made, "data-open", String(now));
    setAttribute(more, "aria-expanded", String(now));
    setText(more, now ? "Show less" : "Show the whole answer");
    if (now && rest !== null) answer.append(rest);
    else rest?.remove();
  };
  more.addEventListener("click", () => {
    const now = made.dataset.open !== "true";
    show(now);
    changed(now);
  });
  show(open);
  if (parts.length > 1 || rest !== null || (lead?.textContent ?? "").length > SHORT) made.append(more);
  return made;
}

/**
 * Where a failure began: of this execution, or of one below that it got over.
 * @param {TreeEntry} entry
 * @param {boolean} failed
 * @param {AnswerHooks} hooks
 */
function originPart(entry, failed, hooks) {
  const origin = originOfFailure(entry);
  if (origin === null || origin === entry) return null;
  const { id, agent, error } = origin.node;
  const link = { type: "button", class: "x-link", "data-origin": id, onclick: () => hooks.go(id) };
  const why = plainLine(error ?? statusWords(origin.node));
  const words = why.startsWith(agent) ? why : `${agent}: ${why}`;
  return element("p", {}, failed ? "It began at " : "Failed below: ", element("button", link, words));
}

/**
 * @param {TreeEntry} entry
 * @param {Execution} execution
 */
function errorParts(entry, execution) {
  const { node } = entry;
  const said = node.error ?? execution.cancel_reason ?? node.reason ?? "";
  const why = said === node.status ? "" : said;
  const kind = node.error_type ? ` (${node.error_type})` : "";
  const who = execution.cancelled_by ? ` by ${execution.cancelled_by}` : "";
  const parts = [
    element("h3", {}, `${statusWords(node)}${who}${kind}`),
    why === "" ? null : element("p", { class: isBad(node.status) ? "x-error" : "x-hint" }, why),
  ];
  for (const { recommendation } of execution.result?.errors ?? []) {
    if (recommendation) parts.push(element("p", { class: "x-hint" }, `hint: ${recommendation}`));
  }
  return parts.filter((part) => part !== null);
}

/**
 * @param {Result} result
 * @param {Execution} execution
 * @param {AnswerHooks} hooks
 */
function resultParts(result, execution, hooks) {
  const cite = (/** @type {Citation} */ { execution_id, call_id }) => {
    if (call_id !== null) hooks.go(execution_id ?? execution.node.id, call_id);
  };
  const citations = new Map(execution.citations.map((citation) => [citation.cited, citation]));
  const said = typeof result.output === "string" && result.output !== "" ? result.output : result.summary;
  /** @type {(HTMLElement | null)[]} */
  const parts = said === execution.node.error ? [] : [markdownElement(said, { citations, cite })];
  const rest = [];
  if (typeof result.output !== "string" && !isEmpty(result.output)) rest.push(textBlock(jsonText(result.output)));
  if (result.outcome === "partial" && result.reason)
    parts.push(element("p", { class: "x-hint" }, `in part: ${result.reason}`));
  const evidence = execution.citations.map((citation) => element("li", {}, citationButton(citation, { cite })));
  if (evidence.length > 0)
    parts.push(folded(`Evidence (${evidence.length})`, element("ul", { class: "x-evidence" }, ...evidence)));
  if (result.next_steps.length > 0) {
    const steps = result.next_steps.map((step) => element("li", {}, step));
    rest.push(element("h3", {}, "Next steps"), element("ul", {}, ...steps));
  }
  if (result.artifacts.length > 0) {
    const artifacts = result.artifacts.map((artifact) => {
      const name = String(artifact.name ?? artifact.title ?? artifact.path ?? artifact.type ?? "artifact");
      return folded(name, textBlock(jsonText(artifact.content ?? artifact)));
    });
    rest.push(element("h3", {}, "Artifacts"), ...artifacts);
  }
  if (rest.length > 0) parts.push(element("div", { class: "x-rest" }, ...rest));
  return parts.filter((part) => part !== null);
}

/** @param {unknown} value */
function isEmpty(value) {
  return value === null || value === undefined || (typeof value === "object" && Object.keys(value).length === 0);
}

/**
 * @param {string} words
 * @param {HTMLElement} inside
 */
export function folded(words, inside) {
  return element("details", { class: "x-folded" }, element("summary", {}, words), inside);
}
