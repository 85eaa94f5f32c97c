/**
 * The time axis: from times to places between 0 and 1, where long idle gaps shrink to a marker of fixed size. Pure, and
 * total: any input gives an axis, and any time a finite place.
 */

import { durationWords, timeOf } from "./format.js";

/** @import {Span, SpanKind, TreeNode} from "../types.js" */
/** @import {TreeEntry} from "./store.js" */

/** A gap of more than this part of the whole is shrunk. */
const GAP_PART = 0.05;
/** The part of the axis that one marker takes, and all of them together at most. */
const MARKER = 0.035;
const MARKERS = 0.4;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];

/** @typedef {{from: number, to: number}} Stretch milliseconds */
/** @typedef {{from: number, to: number, x: number, end: number, gap: boolean}} AxisPiece */
/** @typedef {{x: number, label: string, gap: boolean}} Tick */
/** @typedef {{kind: SpanKind | "own", from: number, to: number, bad: boolean, label: string}} Bar */
/** @typedef {{from: number, to: number}} ZoomWindow parts of the axis, 0 to 1 */

/** What takes time, in words: the name beside its colour, and what it means. @type {Record<SpanKind, [string, string]>} */
export const KINDS = {
  model: ["model", "the model answered"],
  tool: ["tools", "tools worked"],
  approval: ["approval", "a person was asked"],
  children: ["children", "it waited for executions below"],
  queue: ["queue", "it waited for a slot to start"],
  idle: ["idle", "nothing was measured: the work of Outrider itself, or of a function"],
};

/** @type {ZoomWindow} */
export const WHOLE = { from: 0, to: 1 };

/**
 * @typedef {object} TimeAxis
 * @property {number} from
 * @property {number} to
 * @property {AxisPiece[]} pieces
 */

/**
 * @param {number} from
 * @param {number} to
 * @param {Stretch[]} busy when something happened
 * @returns {TimeAxis}
 */
export function timeAxis(from, to, busy) {
  const start = Number.isFinite(from) ? from : 0;
  const end = Number.isFinite(to) && to > start ? to : start + 1;
  const gaps = idleGaps(start, end, busy);
  const marker = Math.min(MARKER, MARKERS / Math.max(1, gaps.length));
  const idle = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const scale = (1 - marker * gaps.length) / Math.max(1e-9, end - start - idle);
  /** @type {AxisPiece[]} */
  const pieces = [];
  let x = 0;
  let at = start;
  const piece = (/** @type {number} */ until, /** @type {boolean} */ gap) => {
    if (until <= at) return;
    const width = gap ? marker : (until - at) * scale;
    pieces.push({ from: at, to: until, x, end: x + width, gap });
    x += width;
    at = until;
  };
  for (const gap of gaps) {
    piece(gap.from, false);
    piece(gap.to, true);
  }
  piece(end, false);
  return { from: start, to: end, pieces };
}

/**
 * @param {number} start
 * @param {number} end
 * @param {Stretch[]} busy
 * @returns {Stretch[]}
 */
function idleGaps(start, end, busy) {
  const sorted = busy.filter(({ from, to }) => to >= from).sort((one, other) => one.from - other.from);
  /** @type {Stretch[]} */
  const gaps = [];
  let until = start;
  for (const { from, to } of [...sorted, { from: end, to: end }]) {
    const upTo = Math.min(from, end);
    if (sorted.length > 0 && upTo - until > GAP_PART * (end - start)) gaps.push({ from: until, to: upTo });
    until = Math.max(until, to);
  }
  return gaps;
}

/**
 * The place of a time on the axis, 0 to 1.
 * @param {TimeAxis} axis
 * @param {number} time
 */
export function placeOf({ pieces, from, to }, time) {
  const at = Number.isFinite(time) ? Math.min(Math.max(time, from), to) : from;
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at > (pieces[middle]?.to ?? 0)) low = middle + 1;
    else high = middle;
  }
  const piece = pieces[low];
  if (piece === undefined) return 0;
  return piece.x + ((at - piece.from) / (piece.to - piece.from)) * (piece.end - piece.x);
}

/**
 * The time at a place of the axis.
 * @param {TimeAxis} axis
 * @param {number} x
 */
export function timeAt({ pieces, from, to }, x) {
  const piece = pieces.find((each) => x <= each.end);
  if (piece === undefined) return to;
  const part = piece.end > piece.x ? (x - piece.x) / (piece.end - piece.x) : 0;
  return Math.max(from, piece.from + part * (piece.to - piece.from));
}

/**
 * Marks of real time, at least `apart` of the shown width from each other.
 * @param {TimeAxis} axis
 * @param {ZoomWindow} view
 * @param {number} apart 0 to 1
 * @returns {Tick[]} places of the axis
 */
export function ticksOf(axis, view, apart) {
  const shown = view.to - view.from;
  /** @type {Tick[]} */
  const ticks = [];
  for (const piece of axis.pieces) {
    if (piece.end < view.from || piece.x > view.to) continue;
    if (piece.gap) {
      ticks.push({ x: (piece.x + piece.end) / 2, label: durationWords((piece.to - piece.from) / 1000), gap: true });
      continue;
    }
    const perX = (piece.to - piece.from) / (piece.end - piece.x);
    const step = stepOf((perX * shown * apart) / 1000) * 1000;
    const first = Math.ceil((timeAt(axis, Math.max(piece.x, view.from)) - axis.from) / step) * step;
    for (let at = first; axis.from + at <= piece.to && ticks.length < 64; at += step) {
      const x = piece.x + (axis.from + at - piece.from) / perX;
      if (x > view.to) break;
      ticks.push({ x, label: tickWords(at / 1000), gap: false });
    }
  }
  return ticks;
}

/** @param {number} least seconds */
function stepOf(least) {
  if (least <= 1) {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 0.001)));
    return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least) ?? 1;
  }
  return STEPS.find((step) => step >= least) ?? Math.ceil(least / 86_400) * 86_400;
}

/** @param {number} seconds */
function tickWords(seconds) {
  if (seconds < 60) return `${Number(seconds.toFixed(2))}s`;
  const whole = Math.round(seconds);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  if (hours > 0) return minutes > 0 ? `${hours}h ${minutes}m` : `${hours}h`;
  return whole % 60 > 0 ? `${minutes}m ${whole % 60}s` : `${minutes}m`;
}

/**
 * The stretches of an execution's time: what its spans say, or, until they are known, when it waited and when it ran.
 * @param {TreeNode} node
 * @param {Span[] | null} spans
 * @param {number} now milliseconds
 * @returns {Bar[]}
 */
export function barsOf(node, spans, now) {
  const end = node.finished_at === null ? now : timeOf(node.finished_at);
  const created = timeOf(node.created_at);
  if (spans !== null && spans.length > 0) {
    return spans.map((span) => ({
      kind: span.kind,
      from: timeOf(span.started_at),
      to: span.finished_at === null ? end : timeOf(span.finished_at),
      bad: span.is_error,
      label: span.label,
    }));
  }
  const started = node.started_at === null ? end : timeOf(node.started_at);
  /** @type {Bar[]} */
  const bars = [];
  if (started > created) bars.push({ kind: "queue", from: created, to: started, bad: false, label: "" });
  if (node.started_at !== null) bars.push({ kind: "own", from: started, to: end, bad: false, label: "" });
  return bars;
}

/**
 * When something happened in a tree: executions without children from start to end, others before, between and after the
 * time of their children, except where their spans say that they only waited.
 * @param {TreeEntry} root
 * @param {Map<string, Span[]>} spans
 * @param {number} now
 * @returns {Stretch[]}
 */
export function busyStretches(root, spans, now) {
  /** @type {Stretch[]} */
  const busy = [];
  const stack = [root];
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const { node } = entry;
    for (const child of entry.children) stack.push(child);
    const known = spans.get(node.id);
    if (known !== undefined && known.length > 0) {
      for (const bar of barsOf(node, known, now)) {
        if (bar.kind === "model" || bar.kind === "tool") busy.push({ from: bar.from, to: bar.to });
      }
    } else if (node.started_at !== null && entry.children.length === 0) {
      busy.push({ from: timeOf(node.started_at), to: node.finished_at === null ? now : timeOf(node.finished_at) });
    } else {
      const at = timeOf(node.started_at ?? node.created_at);
      const first = entry.children.reduce((least, { node: child }) => Math.min(least, timeOf(child.created_at)), now);
      busy.push({ from: at, to: first });
      if (node.finished_at !== null) {
        busy.push({
          from: entry.children.reduce((last, child) => Math.max(last, child.sums.lastEnd), at),
          to: timeOf(node.finished_at),
        });
      }
    }
  }
  return busy;
}

/**
 * A window made bigger or smaller around a place, and kept on the axis.
 * @param {ZoomWindow} view
 * @param {number} factor less than 1: closer
 * @param {number} [around] place of the axis
 * @returns {ZoomWindow}
 */
export function zoomed(view, factor, around = (view.from + view.to) / 2) {
  const width = Math.min(1, Math.max(0.0005, (view.to - view.from) * factor));
  const part = (around - view.from) / Math.max(1e-9, view.to - view.from);
  return clampedWindow(around - part * width, width);
}

/**
 * @param {number} from
 * @param {number} width
 * @returns {ZoomWindow}
 */
export function clampedWindow(from, width) {
  const start = Math.min(Math.max(0, Number.isFinite(from) ? from : 0), 1 - width);
  return { from: start, to: start + width };
}
