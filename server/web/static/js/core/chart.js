/**
 * Charts of bars and points, drawn as SVG. Colours come from the style sheet; each mark says its value to a pointer, and a
 * table beside the chart says the same to every reader.
 */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {{name: string, value: number, note: string}} ChartPoint */

/**
 * @typedef {object} ChartLook
 * @property {string} label what the chart shows
 * @property {(value: number) => string} words
 * @property {number} [width]
 * @property {number} [height]
 */

/** The width of a character below a chart, at most. */
const CHARACTER = 6.6;
const EDGE = { top: 10, right: 8, bottom: 22, left: 58 };

/**
 * Round values from zero, or at most the least below it, to at least the greatest: about four of them.
 * @param {number} greatest
 * @param {number} [least]
 */
export function ticksUpTo(greatest, least = 0) {
  if (!(greatest > least)) return [0, 1];
  const rough = (greatest - least) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((each) => each * power >= rough * 0.999) ?? 10) * power;
  const ticks = [];
  for (let at = Math.floor(least / step); at * step < greatest + step * 0.999; at += 1)
    ticks.push(Number((at * step).toPrecision(12)));
  return ticks;
}

/**
 * Every `n`-th name, so that no more than `most` are written.
 * @param {number} names
 * @param {number} most
 */
export function labelEvery(names, most) {
  return Math.max(1, Math.ceil(names / Math.max(1, most)));
}

/** The width to draw for, so that the words of a chart stay readable in a narrow window. */
export function chartWidth() {
  return window.innerWidth < 720 ? 360 : 760;
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {(Node | string)[]} children
 */
function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/**
 * What is written below bars: of times the part in which they differ.
 * @param {string[]} names
 */
export function shortNames(names) {
  const times = names.every((name) => /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(name));
  const oneDay = names.every((name) => name.slice(0, 10) === names[0]?.slice(0, 10));
  if (times) return names.map((name) => (oneDay ? name.slice(11, 19) : name.slice(5, 16).replace("T", " ")));
  return names.map((name) => (name.length > 12 ? `${name.slice(0, 11)}…` : name));
}

/**
 * @param {ChartLook} look
 * @param {number[]} values
 */
function frame({ label, words, width = 760, height = 220 }, values) {
  const ticks = ticksUpTo(Math.max(0, ...values), Math.min(0, ...values));
  const [low, top] = [ticks[0] ?? 0, ticks.at(-1) ?? 1];
  const inner = { width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
  const y = (/** @type {number} */ value) => EDGE.top + inner.height * (1 - (value - low) / (top - low));
  const lines = ticks.flatMap((tick) => [
    shape("line", {
      class: tick === 0 ? "chart-zero" : "chart-grid",
      x1: EDGE.left,
      x2: width - EDGE.right,
      y1: y(tick),
      y2: y(tick),
    }),
    shape("text", { class: "chart-words", x: EDGE.left - 8, y: y(tick) + 4, "text-anchor": "end" }, words(tick)),
  ]);
  const svg = shape(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    ...lines,
  );
  return { svg, y, inner, bottom: EDGE.top + inner.height, width };
}

/**
 * Upright bars, one for each point, in their order.
 * @param {ChartPoint[]} points
 * @param {ChartLook} look
 */
export function barChart(points, look) {
  const { svg, y, inner, bottom } = frame(
    look,
    points.map((point) => point.value),
  );
  const step = inner.width / Math.max(1, points.length);
  const thick = Math.max(1, Math.min(34, step * 0.72));
  const names = shortNames(points.map((point) => point.name));
  const longest = Math.max(0, ...names.map((name) => name.length)) * CHARACTER;
  const every = labelEvery(points.length, Math.floor(inner.width / (longest + 34)));
  points.forEach((point, index) => {
    const middle = EDGE.left + step * (index + 0.5);
    const high = Math.max(point.value === 0 ? 0 : 1.5, Math.abs(y(0) - y(point.value)));
    const bar = shape("rect", {
      class: "chart-bar",
      x: middle - thick / 2,
      y: point.value < 0 ? y(0) : y(0) - high,
      width: thick,
      height: high,
      rx: Math.min(3, thick / 3),
    });
    const reach = shape("rect", {
      class: "chart-reach",
      x: middle - step / 2,
      y: EDGE.top,
      width: step,
      height: inner.height,
    });
    svg.append(shape("g", { class: "chart-mark" }, shape("title", {}, `${point.name}: ${point.note}`), reach, bar));
    const name = names[index] ?? "";
    const x = Math.min(middle, EDGE.left + inner.width + EDGE.right - (name.length * CHARACTER) / 2);
    if (index % every === 0)
      svg.append(shape("text", { class: "chart-words", x, y: bottom + 16, "text-anchor": "middle" }, name));
  });
  return svg;
}

/**
 * Points by two numbers, joined in the order of `x`.
 * @param {{x: number, y: number, note: string}[]} points
 * @param {ChartLook} look
 */
export function lineChart(points, look) {
  const sorted = [...points].sort((a, b) => a.x - b.x);
  const { svg, y, inner, bottom } = frame(
    look,
    sorted.map((point) => point.y),
  );
  const [from, to] = [sorted[0]?.x ?? 0, sorted.at(-1)?.x ?? 1];
  const x = (/** @type {number} */ value) =>
    EDGE.left + (to > from ? (inner.width * (value - from)) / (to - from) : inner.width / 2);
  const path = sorted
    .map((point, index) => `${index === 0 ? "M" : "L"}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`)
    .join("");
  svg.append(shape("path", { class: "chart-line", d: path || "M0 0" }));
  for (const point of sorted)
    svg.append(
      shape("circle", { class: "chart-dot", cx: x(point.x), cy: y(point.y), r: 3 }, shape("title", {}, point.note)),
    );
  svg.append(
    shape("text", { class: "chart-words", x: EDGE.left, y: bottom + 16 }, String(from)),
    shape(
      "text",
      { class: "chart-words", x: EDGE.left + inner.width, y: bottom + 16, "text-anchor": "end" },
      String(to),
    ),
  );
  return svg;
}

/**
 * A level bar that shows a share, for a cell of a table.
 * @param {number} share from 0 to 1
 */
export function shareBar(share) {
  const wide = Math.max(share > 0 ? 1 : 0, Math.min(1, share) * 100);
  return shape(
    "svg",
    { class: "share", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    shape("rect", { class: "share-all", width: 100, height: 8 }),
    shape("rect", { class: "share-part", width: wide, height: 8 }),
  );
}
