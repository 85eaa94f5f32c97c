/**
 * What was spent: in all, by day, by agent, by model. Each chart has a table beside it.
 */

import { barChart, chartWidth, shareBar } from "../../core/chart.js";
import { append, element, replaceChildren } from "../../core/dom.js";
import { countWords, durationWords, numberWords, tokenNumber, usdWords } from "../../core/format.js";
import { tokensOf } from "../../core/store.js";
import { withQuery } from "../../sources/api.js";
import { dataTable, load, pageHead, price } from "../parts.js";

/** @import {Child} from "../../core/dom.js" */
/** @import {Usage, UsageRow} from "../../types_pages.js" */
/** @import {Route} from "../router.js" */
/** @import {MountPage, Page, Shell} from "../shell.js" */

/** @typedef {{name: string, words: string, value: (row: UsageRow) => number, say: (value: number) => string}} Measure */

/** @type {Measure[]} */
const MEASURES = [
  { name: "tokens", words: "Tokens", value: tokensOf, say: tokenNumber },
  { name: "cost", words: "Cost", value: (row) => row.cost_usd, say: usdWords },
  { name: "executions", words: "Executions", value: (row) => row.executions, say: numberWords },
];

const DAYS = ["7", "30", "90", "365"];

/** @type {MountPage} */
export function mountUsage(place, shell, route) {
  return new UsagePage(place, shell, route);
}

/** @implements {Page} */
class UsagePage {
  /**
   * @param {HTMLElement} place
   * @param {Shell} shell
   * @param {Route} route
   */
  constructor(place, shell, route) {
    this.shell = shell;
    this.ended = new AbortController();
    /** @type {Usage | null} */
    this.usage = null;
    this.days = element(
      "select",
      { class: "input", name: "days", "aria-label": "Period", onchange: () => this.chosen() },
      ...DAYS.map((days) => element("option", { value: days }, `last ${days} days`)),
    );
    this.measure = element(
      "select",
      { class: "input", name: "measure", "aria-label": "Measure", onchange: () => this.chosen() },
      ...MEASURES.map(({ name, words }) => element("option", { value: name }, words)),
    );
    this.body = element("div", { class: "stack" });
    shell.title("Usage");
    append(place, [pageHead("Usage", element("div", { class: "row push" }, this.measure, this.days)), this.body]);
    this.visit(route);
  }

  destroy() {
    this.ended.abort();
  }

  /** @param {Route} route */
  visit({ query }) {
    this.days.value = DAYS.includes(query.get("days") ?? "") ? (query.get("days") ?? "") : "30";
    this.measure.value = MEASURES.some(({ name }) => name === query.get("measure"))
      ? (query.get("measure") ?? "")
      : "tokens";
    void this.show();
  }

  chosen() {
    const { days, measure } = this;
    this.shell.router.say({
      days: days.value === "30" ? null : days.value,
      measure: measure.value === "tokens" ? null : measure.value,
    });
    void this.show();
  }

  show() {
    const path = withQuery("/usage", { days: this.days.value });
    return load(
      this.body,
      () => /** @type {Promise<Usage>} */ (this.shell.ask(path, this.ended.signal)),
      (usage) => this.parts(usage),
    );
  }

  /**
   * @param {Usage} usage
   * @returns {Child[] | "empty"}
   */
  parts(usage) {
    if (usage.total.executions === 0) {
      replaceChildren(
        this.body,
        element(
          "section",
          { class: "card vacant" },
          element("h2", {}, "Nothing was used"),
          element(
            "p",
            {},
            `No execution has started since ${usage.since}. What executions cost is counted here from their first call of a model.`,
          ),
        ),
      );
      return "empty";
    }
    const measure = MEASURES.find(({ name }) => name === this.measure.value) ?? /** @type {Measure} */ (MEASURES[0]);
    return [
      totals(usage.total),
      byDay(usage, measure),
      ranking("By agent", "agent", usage.by_agent, measure),
      ranking("By model", "model", usage.by_model, measure),
    ];
  }
}

/** @param {UsageRow} total */
function totals(total) {
  const cached = total.input_tokens + total.cache_read_tokens + total.cache_write_tokens;
  const figure = (/** @type {Child} */ value, /** @type {string} */ name, /** @type {string} */ note) =>
    element(
      "div",
      { class: "figure" },
      element("dt", {}, name),
      element("dd", {}, value),
      element("dd", { class: "faint" }, note),
    );
  return element(
    "dl",
    { class: "figures card" },
    figure(price(total.cost_usd, total.pricing), "Estimated cost", countWords(total.model_calls, "model call")),
    figure(tokenNumber(tokensOf(total)), "Tokens", `${tokenNumber(total.output_tokens)} output tokens`),
    figure(
      cached === 0 ? "-" : `${Math.round((100 * total.cache_read_tokens) / cached)} %`,
      "Input read from cache",
      `${tokenNumber(total.cache_read_tokens)} tokens`,
    ),
    figure(
      numberWords(total.executions),
      "Executions",
      total.failed === 0 ? "none failed" : `${numberWords(total.failed)} failed`,
    ),
    figure(durationWords(total.seconds), "Time of agents", "summed, also where they ran side by side"),
  );
}

/**
 * @param {Usage} usage
 * @param {Measure} measure
 */
function byDay(usage, measure) {
  const points = daysBetween(usage).map((row) => ({
    name: row.name.slice(5),
    value: measure.value(row),
    note: `${measure.say(measure.value(row))}, ${countWords(row.executions, "execution")}`,
  }));
  return element(
    "section",
    { class: "card panel", "data-chart": "day" },
    element("h2", {}, "By day"),
    element(
      "div",
      { class: "panel-split" },
      barChart(points, {
        label: `${measure.words} by day; the table beside it has the numbers`,
        words: measure.say,
        width: chartWidth(),
      }),
      usageTable("day", [...usage.by_day].reverse(), measure),
    ),
  );
}

/**
 * A row for each day of the period until the last one with usage, so that the axis is one of time.
 * @param {Usage} usage
 */
export function daysBetween(usage) {
  const known = new Map(usage.by_day.map((row) => [row.name, row]));
  const last = usage.by_day.at(-1)?.name ?? usage.since;
  const empty = {
    ...usage.total,
    executions: 0,
    failed: 0,
    model_calls: 0,
    input_tokens: 0,
    output_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    cost_usd: 0,
    seconds: 0,
  };
  const rows = [];
  for (let at = Date.parse(`${usage.since}T00:00:00Z`); rows.length < 400; at += 86_400_000) {
    const name = new Date(at).toISOString().slice(0, 10);
    if (name > last) break;
    rows.push(known.get(name) ?? { ...empty, name });
  }
  return rows;
}

/**
 * @param {string} title
 * @param {string} noun
 * @param {UsageRow[]} rows
 * @param {Measure} measure
 */
function ranking(title, noun, rows, measure) {
  const sorted = [...rows].sort((a, b) => measure.value(b) - measure.value(a));
  return element(
    "section",
    { class: "card panel", "data-chart": noun },
    element("h2", {}, title),
    usageTable(noun, sorted, measure, true),
  );
}

/**
 * @param {string} noun
 * @param {UsageRow[]} rows
 * @param {Measure} measure
 * @param {boolean} [bars]
 */
function usageTable(noun, rows, measure, bars = false) {
  const greatest = Math.max(1e-12, ...rows.map(measure.value));
  const number = (/** @type {Child} */ words) => element("td", { class: "number" }, words);
  const heads = [
    element("th", { scope: "col" }, noun),
    bars && element("th", { scope: "col" }, measure.words.toLowerCase()),
    ...["executions", "failed", "tokens", "cost", "time"].map((words) =>
      element("th", { scope: "col", class: "number" }, words),
    ),
  ];
  const lines = rows.map((row) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, noun === "agent" ? agentLink(row.name) : row.name),
      bars && element("td", { class: "share-cell" }, shareBar(measure.value(row) / greatest)),
      number(numberWords(row.executions)),
      number(row.failed === 0 ? element("span", { class: "faint" }, "0") : numberWords(row.failed)),
      number(tokenNumber(tokensOf(row))),
      number(price(row.cost_usd, row.pricing)),
      number(durationWords(row.seconds)),
    ),
  );
  return dataTable(`Usage by ${noun}`, heads, element("tbody", {}, ...lines));
}

/** @param {string} agent */
function agentLink(agent) {
  return element("a", { href: withQuery("/", { agent, all: "1" }) }, agent);
}
