/**
 * What a query has answered: a table whose ids lead to executions, a chart of two columns, and text to take away.
 */

import { barChart, chartWidth, lineChart } from "../../core/chart.js";
import { append, element, replaceChildren, setText } from "../../core/dom.js";
import { countWords, durationWords } from "../../core/format.js";
import {
  cellText,
  columnsToDraw,
  csvText,
  executionOf,
  isNumber,
  numberColumns,
  numberText,
} from "../../core/table_text.js";
import { actionButton, copyText, dataTable } from "../parts.js";
import { executionHref } from "../router.js";

/** @import {Child} from "../../core/dom.js" */
/** @import {QueryAnswer} from "../../types_pages.js" */
/** @import {Shell} from "../shell.js" */

const MOST_DRAWN = 60;
const LONG = 400;
/** What is drawn of a table at once: rows, or fewer if they have many cells. */
const MOST = { rows: 500, cells: 10_000 };

/** The view that the reader has chosen: the next answer is shown in it, too. */
let chartChosen = false;

/**
 * @param {Shell} shell
 * @param {QueryAnswer} answer
 * @returns {Child[]}
 */
export function resultParts(shell, answer) {
  const { columns, rows } = answer;
  const draw = columnsToDraw(columns, rows);
  const table = resultTable(answer);
  const chart = element("div", { class: "sql-chart", hidden: true });
  const tab = (/** @type {string} */ words, /** @type {boolean} */ drawn) => {
    const button = element(
      "button",
      {
        class: "button",
        "data-size": "small",
        type: "button",
        "data-view": drawn ? "chart" : "table",
      },
      words,
    );
    button.addEventListener("click", () => {
      chartChosen = drawn;
      show(drawn);
    });
    return button;
  };
  const tabs = [tab("Table", false), tab("Chart", true)];
  const show = (/** @type {boolean} */ drawn) => {
    chart.hidden = !drawn;
    table.hidden = drawn;
    for (const each of tabs) each.setAttribute("aria-pressed", String(drawn === (each.dataset.view === "chart")));
    if (drawn && draw !== null && chart.childElementCount === 0) drawChart(chart, answer, draw);
  };
  show(chartChosen && draw !== null);
  const copy = (/** @type {string} */ what, /** @type {() => string} */ text) =>
    actionButton(`copy-${what.toLowerCase()}`, `Copy ${what}`, () => void copyText(shell, text(), what), {
      kind: "quiet",
      size: "small",
    });
  return [
    element(
      "div",
      { class: "row wrap sql-tools" },
      element(
        "span",
        { class: "soft" },
        `${countWords(rows.length, "row")} in ${answer.seconds < 1 ? `${Math.max(1, Math.round(answer.seconds * 1000))} ms` : durationWords(answer.seconds)}${answer.truncated ? " · cut at the limit" : ""}`,
      ),
      element("span", { class: "push" }),
      ...(draw === null ? [] : tabs),
      copy("CSV", () => csvText(columns, rows)),
      copy("JSON", () => JSON.stringify(rows, null, 2)),
    ),
    rows.length === 0
      ? element("p", { class: "vacant soft card" }, "The query is in order, and no row matches it.")
      : table,
    chart,
  ];
}

/** @param {QueryAnswer} answer */
function resultTable({ columns, rows }) {
  const numbers = new Set(numberColumns(columns, rows));
  const look = (/** @type {string} */ column) => (numbers.has(column) ? "number" : null);
  const most = Math.max(20, Math.min(MOST.rows, Math.floor(MOST.cells / columns.length)));
  const body = element("tbody");
  const left = element("span", { class: "soft" });
  const draw = () => {
    const drawn = body.childElementCount;
    const line = (/** @type {Record<string, unknown>} */ row) =>
      element("tr", {}, ...columns.map((column) => element("td", { class: look(column) }, cell(column, row[column]))));
    append(body, rows.slice(drawn, drawn + most).map(line));
    const hidden = rows.length - body.childElementCount;
    setText(left, `${countWords(hidden, "row")} not shown; a copy has all`);
    rest.hidden = hidden === 0;
  };
  const rest = element("div", { class: "row wrap" }, left, actionButton("more", "Show more", draw, { size: "small" }));
  draw();
  const heads = columns.map((column) => element("th", { scope: "col", class: look(column) }, column));
  return element("div", { class: "stack" }, dataTable("Rows", heads, body, "card scroll sql-table"), rest);
}

/**
 * @param {string} column
 * @param {unknown} value
 */
function cell(column, value) {
  if (value === null || value === undefined) return element("span", { class: "faint" }, "null");
  const text = typeof value === "number" ? numberText(value) : cellText(value);
  const execution = executionOf(column, value);
  if (execution !== null)
    return element("a", { class: "mono", href: executionHref(execution), title: text }, text.slice(-6));
  const shown = text.length > LONG ? `${text.slice(0, LONG)}…` : text;
  return element("span", { title: text.length > LONG ? text.slice(0, 4000) : null }, shown);
}

/**
 * @param {HTMLElement} place
 * @param {QueryAnswer} answer
 * @param {{x: string, y: string}} drawn
 */
function drawChart(place, { columns, rows }, drawn) {
  const numbers = numberColumns(columns, rows);
  const select = (/** @type {string[]} */ names, /** @type {string} */ label, /** @type {string} */ chosen) =>
    element(
      "select",
      { class: "input", "aria-label": label, onchange: () => draw() },
      ...names.map((name) => element("option", { value: name, selected: name === chosen }, name)),
    );
  const x = select(columns, "Across", drawn.x);
  const y = select(numbers, "Upwards", drawn.y);
  const figure = element("figure", { class: "card panel" });
  const draw = () => {
    const words = (/** @type {number} */ value) => value.toLocaleString("en-US", { maximumFractionDigits: 4 });
    const label = `${y.value} by ${x.value}; the table has the numbers`;
    const valued = rows.filter((row) => isNumber(row[y.value]));
    const number = (/** @type {Record<string, unknown>} */ row, /** @type {string} */ column) =>
      /** @type {number} */ (row[column]);
    const chart = numbers.includes(x.value)
      ? lineChart(
          valued.map((row) => ({
            x: number(row, x.value),
            y: number(row, y.value),
            note: `${x.value} ${cellText(row[x.value])}: ${words(number(row, y.value))}`,
          })),
          { label, words, width: chartWidth() },
        )
      : barChart(
          valued.slice(0, MOST_DRAWN).map((row) => ({
            name: cellText(row[x.value]),
            value: number(row, y.value),
            note: words(number(row, y.value)),
          })),
          { label, words, width: chartWidth() },
        );
    replaceChildren(
      figure,
      chart,
      valued.length > MOST_DRAWN &&
        !numbers.includes(x.value) &&
        element("figcaption", { class: "faint" }, `the first ${MOST_DRAWN} rows`),
    );
  };
  replaceChildren(
    place,
    element("div", { class: "row wrap" }, y, element("span", { class: "faint" }, "by"), x),
    figure,
  );
  draw();
}
