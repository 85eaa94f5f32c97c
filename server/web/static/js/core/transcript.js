/**
 * A conversation at three depths: what was said, turn by turn with calls and figures, and as it is stored.
 */

import { folded } from "./answer.js";
import { callCard, callLine } from "./call.js";
import { textOf } from "./conversation.js";
import { element } from "./dom.js";
import {
  clockWords,
  countWords,
  durationWords,
  eventWords,
  jsonText,
  priceWords,
  secondsBetween,
  sizeWords,
  tokenWords,
} from "./format.js";
import { markdownElement } from "./markdown.js";
import { textBlock } from "./text_block.js";

/** @import {Execution, ModelCall, Timeline, TranscriptMessage} from "../types.js" */
/** @import {CallHooks} from "./call.js" */
/** @import {Conversation} from "./conversation.js" */

/** @typedef {"messages" | "turns" | "raw"} Depth */
/** The element made before from the same, else a new one. @typedef {(key: string, from: unknown, make: () => HTMLElement) => HTMLElement} KeepElement */

/** @typedef {CallHooks & {above: Map<string, string>}} SaidHooks above: what stands there already, by role and text, and its name */

/** So many messages have elements at first. */
const WINDOW = 30;

/**
 * @param {Conversation} conversation
 * @param {"messages" | "turns"} depth
 * @param {SaidHooks & {shown: number, showMore: () => void, loadMore: () => void, kept: KeepElement}} hooks
 * @returns {HTMLElement[]}
 */
export function transcriptElements(conversation, depth, hooks) {
  // A message of results only says nothing: its results stand with the calls.
  const speaks = (/** @type {TranscriptMessage} */ message) => textOf(message) !== "" || message.calls.length > 0;
  const messages = depth === "messages" ? conversation.messages().filter(speaks) : conversation.messages();
  const from = Math.max(0, messages.length - WINDOW - hooks.shown);
  const turns = turnsOf(messages, conversation.modelCalls);
  const made = messages.slice(from).map((message) => {
    if (depth === "messages") return hooks.kept(message.id, message, () => messageElement(message, hooks));
    const turn = turns.get(message.id);
    return hooks.kept(message.id, [message, turn], () => turnElement(message, turn, hooks));
  });
  const earlier = () => button(`Show ${Math.min(WINDOW, from)} of ${from} earlier messages`, hooks.showMore);
  if (from > 0) made.unshift(earlier());
  if (conversation.next !== null && conversation.known.size < conversation.total) {
    made.push(
      button(`Load more (${conversation.known.size} of ${conversation.total} messages are here)`, hooks.loadMore),
    );
  }
  if (messages.length === 0)
    made.push(element("p", { class: "x-muted" }, "No messages: it has not spoken, or asks no model."));
  return made;
}

/**
 * @param {string} words
 * @param {() => void} does
 */
function button(words, does) {
  return element("div", { class: "x-more" }, element("button", { type: "button", onclick: does }, words));
}

/**
 * The model call behind each of the model's messages.
 * @param {TranscriptMessage[]} messages
 * @param {ModelCall[]} calls
 */
function turnsOf(messages, calls) {
  const spoken = messages.filter((message) => message.role === "assistant");
  return new Map(spoken.map((message, place) => [message.id, calls[place]]));
}

/** @param {TranscriptMessage} message */
function speaker({ role, kind }) {
  if (role === "assistant") return "agent";
  return kind === "" || kind === role ? role : `${role} · ${kind.replaceAll("_", " ")}`;
}

/**
 * @param {TranscriptMessage} message
 * @param {string} text
 * @param {SaidHooks} hooks
 */
function saidElement({ role, kind }, text, { above }) {
  if (text === "") return null;
  const said = textBlock(text, { make: role === "assistant" ? markdownElement : plain });
  const name =
    above.get(`${role} ${text.trim()}`) ?? (kind === "delivery" ? `What was delivered, ${sizeWords(text.length)}` : "");
  return name === "" ? said : folded(name, said);
}

/**
 * @param {TranscriptMessage} message
 * @param {SaidHooks} hooks
 */
function messageElement(message, hooks) {
  const text = textOf(message);
  return element(
    "article",
    { class: "x-message", "data-role": message.role, "data-message": message.id },
    element("header", {}, element("strong", {}, speaker(message)), time(message)),
    saidElement(message, text, hooks),
    ...message.calls.map((call) => callLine(call, hooks)),
  );
}

/**
 * @param {TranscriptMessage} message
 * @param {ModelCall | undefined} turn
 * @param {SaidHooks} hooks
 */
function turnElement(message, turn, hooks) {
  const text = textOf(message);
  const others = message.content.filter((block) => block.type !== "text" && block.type !== "tool_use");
  const title = turn === undefined ? speaker(message) : `turn ${turn.turn}`;
  return element(
    "article",
    { class: "x-message x-turn", "data-role": message.role, "data-message": message.id },
    element("header", {}, element("strong", {}, title), time(message)),
    turn !== undefined && element("p", { class: "x-muted" }, turnWords(turn)),
    saidElement(message, text, hooks),
    ...message.calls.map((call) => callCard(call, hooks)),
    others.length > 0 && folded(countWords(others.length, "other block"), textBlock(jsonText(others))),
  );
}

/** @param {ModelCall} turn */
function turnWords(turn) {
  const cached = turn.cache_read_tokens > 0 ? `, ${tokenWords(turn.cache_read_tokens)} from the cache` : "";
  return [
    turn.model,
    durationWords(secondsBetween(turn.started_at, turn.finished_at, 0)),
    `${tokenWords(turn.input_tokens)} in${cached}, ${tokenWords(turn.output_tokens)} out`,
    priceWords(turn.cost_usd, [turn.pricing]),
    turn.stop_reason ?? "",
  ]
    .filter(Boolean)
    .join(" · ");
}

/** @param {TranscriptMessage} message */
function time(message) {
  return element("time", { datetime: message.created_at }, clockWords(message.created_at, Date.now()));
}

/** @param {string} text */
function plain(text) {
  return element("p", { class: "x-plain" }, text);
}

/**
 * As it is stored.
 * @param {Execution} execution
 * @param {Conversation} conversation
 * @param {Timeline | null} timeline
 * @returns {HTMLElement[]}
 */
export function rawElements(execution, conversation, timeline) {
  const events = (timeline?.events ?? [])
    .slice(-100)
    .map((event) =>
      element(
        "li",
        {},
        element("time", { datetime: event.at }, clockWords(event.at, Date.now())),
        element("code", {}, event.type),
        ` ${eventWords(event)}`,
      ),
    );
  const more = (timeline?.events.length ?? 0) - events.length;
  /** @type {HTMLElement[]} */
  const made = [folded("Execution", textBlock(jsonText({ ...execution, result: undefined })))];
  made.push(folded("Result", textBlock(jsonText(execution.result))));
  if (execution.input !== null) made.push(folded("Input", textBlock(jsonText(execution.input))));
  made.push(folded("Messages", textBlock(jsonText(conversation.messages()))));
  made.push(folded("Model calls", textBlock(jsonText(conversation.modelCalls))));
  if (timeline !== null) made.push(folded("Spans", textBlock(jsonText(timeline.spans))));
  if (events.length > 0) {
    made.push(element("h3", {}, more > 0 ? `Events, the last ${events.length} of ${more + events.length}` : "Events"));
    made.push(element("ol", { class: "x-events" }, ...events));
  }
  return made;
}
