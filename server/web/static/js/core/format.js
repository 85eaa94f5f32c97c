/**
 * Numbers, times and statuses in words: the same words and shapes as in the terminal.
 */

/** @import {StreamEvent} from "../types.js" */

/** One shape per status; colour only repeats it. @type {Record<string, string>} */
const SHAPES = {
  pending: "○",
  running: "◐",
  completed: "●",
  partial: "◕",
  failed: "✕",
  timed_out: "◷",
  cancelled: "⊘",
  blocked: "▣",
  skipped: "◌",
};

/** @type {Record<string, string>} */
const STATUS_WORDS = { timed_out: "timed out", partial: "completed in part" };

/** Statuses of executions that ended, and not well. */
const BAD = new Set(["failed", "timed_out", "blocked"]);

const COUNTED = new Intl.NumberFormat("en-US");
const MONEY = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/**
 * What decides how an execution is shown.
 * @typedef {object} Standing
 * @property {string} status
 * @property {string | null} [outcome]
 * @property {boolean} [owner_gone]
 * @property {boolean} [cancel_requested]
 */

/**
 * The status that a shape, a colour and words are chosen by: a completed execution may be `partial`.
 * @param {Standing} standing
 */
export function shownStatus({ status, outcome }) {
  return status === "completed" && outcome === "partial" ? "partial" : status;
}

/** @param {Standing} standing */
export function statusShape(standing) {
  return SHAPES[shownStatus(standing)] ?? "?";
}

/** @param {Standing} standing */
export function statusWords(standing) {
  if (!isEnded(standing.status)) {
    if (standing.owner_gone) return "interrupted";
    if (standing.cancel_requested) return "cancelling";
  }
  const status = shownStatus(standing);
  return STATUS_WORDS[status] ?? status;
}

/** @param {string} status */
export function isEnded(status) {
  return status !== "pending" && status !== "running";
}

/** @param {string} status */
export function isBad(status) {
  return BAD.has(status);
}

/**
 * `0.4s`, `12.3s`, `4m 05s`, `2h 10m`, `3d 4h`.
 * @param {number} seconds
 */
export function durationWords(seconds) {
  if (!(seconds > 0)) return "0.0s";
  if (seconds < 59.95) return `${seconds.toFixed(1)}s`;
  const whole = Math.max(60, Math.floor(seconds));
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (days > 0) return `${days}d ${hours % 24}h`;
  if (hours > 0) return `${hours}h ${pad(minutes % 60)}m`;
  return `${minutes}m ${pad(whole % 60)}s`;
}

/**
 * `1 agent`, `1,234 agents`.
 * @param {number} number
 * @param {string} noun
 */
export function countWords(number, noun) {
  return `${COUNTED.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** @param {number} number */
export function numberWords(number) {
  return COUNTED.format(number);
}

/**
 * `987`, `12.3k`, `4.56M`.
 * @param {number} number
 */
export function tokenNumber(number) {
  if (number < 10_000) return COUNTED.format(number);
  return number < 1_000_000 ? `${(number / 1000).toFixed(1)}k` : `${(number / 1_000_000).toFixed(2)}M`;
}

/**
 * `987 tok`, `12.3k tok`.
 * @param {number} number
 */
export function tokenWords(number) {
  return `${tokenNumber(number)} tok`;
}

/**
 * An estimated price; what was rehearsed or has no price says so instead of pretending to be free.
 * @param {number} usd
 * @param {Iterable<string>} pricing
 */
export function priceWords(usd, pricing) {
  const kinds = new Set(pricing);
  if (kinds.size === 0) return "-";
  const real = [...kinds].filter((kind) => kind !== "rehearsed");
  if (real.length === 0) return "rehearsed";
  if (real.every((kind) => kind === "unpriced")) return "unpriced";
  return `${real.some((kind) => kind !== "priced") ? "≥" : "~"}${usdWords(usd)}`;
}

/**
 * What the sign before a price means.
 * @param {Iterable<string>} pricing
 */
export function priceNote(pricing) {
  const kinds = new Set(pricing);
  if (kinds.size === 0) return "no model was asked";
  const notes = ["estimated from the prices of the configuration"];
  if (kinds.has("unpriced")) notes.push("some calls have no price, and are not counted");
  if (kinds.has("partly")) notes.push("some calls are priced only in part");
  if (kinds.has("rehearsed")) notes.push("rehearsed calls cost nothing");
  return notes.join("; ");
}

/**
 * `$0.0123`, `$1,234.50`.
 * @param {number} usd
 */
export function usdWords(usd) {
  return usd < 1 ? `$${usd.toFixed(4)}` : `$${MONEY.format(usd)}`;
}

/**
 * Milliseconds of a time of the API; NaN where there is none.
 * @param {string | null | undefined} at
 */
export function timeOf(at) {
  if (!at) return Number.NaN;
  return Date.parse(at.endsWith("Z") || /[+-]\d\d:?\d\d$/.test(at) ? at : `${at}Z`);
}

/**
 * The seconds from one time to another, or to now.
 * @param {string | null | undefined} from
 * @param {string | null | undefined} to
 * @param {number} now milliseconds
 */
export function secondsBetween(from, to, now) {
  const start = timeOf(from);
  const end = to ? timeOf(to) : now;
  return Number.isFinite(start) && Number.isFinite(end) ? Math.max(0, (end - start) / 1000) : 0;
}

/**
 * A time where the reader is: `14:03:22`, with the day unless it is the day of `now`.
 * @param {string | null | undefined} at
 * @param {number} now milliseconds
 */
export function clockWords(at, now) {
  const time = timeOf(at);
  if (!Number.isFinite(time)) return "-";
  const date = new Date(time);
  const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return dayOf(date) === dayOf(new Date(now)) ? clock : `${dayOf(date)} ${clock}`;
}

/**
 * How long ago: `just now`, `4 min ago`, `3 h ago`, `2 d ago`.
 * @param {string | null | undefined} at
 * @param {number} now milliseconds
 */
export function agoWords(at, now) {
  const seconds = (now - timeOf(at)) / 1000;
  if (!Number.isFinite(seconds)) return "-";
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h ago` : `${Math.floor(seconds / 86_400)} d ago`;
}

/**
 * A size of text: `312 characters`, `12 kB`.
 * @param {number} characters
 */
export function sizeWords(characters) {
  if (characters < 2000) return countWords(characters, "character");
  return characters < 1_000_000 ? `${Math.round(characters / 1000)} kB` : `${(characters / 1_000_000).toFixed(1)} MB`;
}

/**
 * The first line of a text, cut at a length.
 * @param {string} text
 * @param {number} most
 */
export function firstLine(text, most = 200) {
  const line = text.trimStart().split("\n", 1)[0] ?? "";
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/**
 * A value of JSON as text: text as it is, everything else indented.
 * @param {unknown} value
 */
export function jsonText(value) {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

/**
 * An event in words.
 * @param {Pick<StreamEvent, "type" | "payload">} event
 */
export function eventWords({ type, payload }) {
  const said = (/** @type {string} */ key) => (payload[key] ? String(payload[key]) : "");
  const [family, what = ""] = type.split(".");
  if (type === "execution.status") return said("status");
  if (type === "execution.progress") {
    return said("action") || (said("waiting_for") ? `waiting for ${said("waiting_for")}` : "working");
  }
  if (family === "approval") return `approval of ${said("tool") || "a call"} ${said("decision") || what}`;
  if (family === "upstream") return `upstream ${said("server")} ${what}`;
  if (family === "budget") return `budget ${what}${said("what") ? `: ${said("what")}` : ""}`;
  if (family === "delivery") return what.endsWith("consumed") ? "reading results" : "something arrived";
  if (type === "context.compacted") {
    const [before, after] = [Number(payload.before_tokens), Number(payload.after_tokens)];
    return `conversation shortened from ${tokenWords(before)} to ${tokenWords(after)}`;
  }
  return timelineWords(what, payload);
}

/**
 * @param {string} what
 * @param {Record<string, unknown>} payload
 */
function timelineWords(what, payload) {
  if (payload.kind === "tool") {
    const tool = String(payload.tool ?? "a tool");
    if (what === "created") return `calling ${tool}`;
    if (payload.status === "unknown") return `${tool}: outcome unknown`;
    return payload.is_error ? `${tool} failed` : `${tool} answered`;
  }
  if (payload.kind === "dispatch") return `dispatch of ${payload.agent} ${payload.refused ? "refused" : "done"}`;
  return payload.kind === "model" ? "thinking" : what;
}

/** @param {number} number */
function pad(number) {
  return String(number).padStart(2, "0");
}

/** @param {Date} date */
function dayOf(date) {
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}
