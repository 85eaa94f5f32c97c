/**
 * Upstream servers, every value of the effective configuration with its origin, and prices.
 */

import { element } from "../../core/dom.js";
import { countWords, jsonText } from "../../core/format.js";
import { dataTable } from "../parts.js";
import { chips } from "./agent_cards.js";

/** @import {Child} from "../../core/dom.js" */
/** @import {Configuration, ModelPrice, Upstream} from "../../types_pages.js" */

/** @type {Record<string, {tone: string, shape: string}>} */
const STATES = {
  idle: { tone: "", shape: "○" },
  connecting: { tone: "accent", shape: "◐" },
  ready: { tone: "ok", shape: "●" },
  unavailable: { tone: "bad", shape: "✕" },
};

/**
 * @param {Upstream[]} upstreams
 * @returns {Child[]}
 */
export function serversPart(upstreams) {
  if (upstreams.length === 0)
    return [
      element("p", { class: "card vacant soft" }, "No upstream server is configured: agents use built-in tools only."),
    ];
  return upstreams.map((upstream) => {
    const { tone, shape } = STATES[upstream.state] ?? { tone: "", shape: "?" };
    return element(
      "article",
      { class: "card spec", "data-row": true, "data-upstream": upstream.name, "data-state": upstream.state },
      element(
        "header",
        { class: "row wrap" },
        element("h2", {}, upstream.name),
        element(
          "span",
          { class: "badge", "data-tone": tone },
          element("span", { "aria-hidden": "true" }, shape),
          upstream.state,
        ),
        element("span", { class: "faint" }, upstream.transport),
        element("code", { class: "origin push" }, upstream.origin),
      ),
      upstream.error !== null && element("p", { class: "banner", "data-tone": "bad" }, upstream.error),
      upstream.state === "idle" && element("p", { class: "faint" }, "It is started when an execution first needs it."),
      upstream.agents.length > 0 &&
        element("div", { class: "row wrap" }, element("span", { class: "faint" }, "used by"), chips(upstream.agents)),
      upstream.tools !== null &&
        element(
          "details",
          { open: upstream.tools.length <= 8 },
          element("summary", {}, countWords(upstream.tools.length, "tool")),
          toolTable(upstream.tools),
        ),
    );
  });
}

/** @param {import("../../types_pages.js").UpstreamTool[]} tools */
function toolTable(tools) {
  return table(
    ["tool", "description", "effect", "gate"],
    "Tools",
    tools.map((tool) => [
      element("code", {}, tool.name),
      tool.description,
      tool.effect.replaceAll("_", " "),
      tool.gate,
    ]),
  );
}

/**
 * @param {Configuration} configuration
 * @returns {Child[]}
 */
export function configurationPart({ source, values }) {
  const rows = values.map(({ path, value, origin }) => [
    element("code", {}, path),
    element("span", { class: "mono value" }, valueText(value)),
    element("code", { class: "origin" }, origin),
  ]);
  return [
    element(
      "p",
      { class: "soft" },
      "Every value that is in force, and the line that it comes from. Read from ",
      element("code", {}, source),
      ".",
    ),
    element("div", { class: "card" }, table(["key", "value", "from"], "Configuration", rows)),
  ];
}

/** @param {unknown} value */
function valueText(value) {
  return typeof value === "object" ? JSON.stringify(value) : jsonText(value);
}

/**
 * @param {ModelPrice[]} prices
 * @returns {Child[]}
 */
export function pricesPart(prices) {
  const usd = (/** @type {number | null} */ value) =>
    value === null ? element("span", { class: "faint" }, "not known") : `$${value}`;
  const rows = prices.map((price) => [
    element("strong", {}, price.name),
    element("code", {}, price.model),
    usd(price.input),
    usd(price.output),
    usd(price.cache_read),
    usd(price.cache_write),
    element("code", { class: "origin" }, price.origin),
  ]);
  return [
    element(
      "p",
      { class: "soft" },
      "US dollars for a million tokens. Costs on all pages are estimates from these; a model without a price is shown as unpriced.",
    ),
    element(
      "div",
      { class: "card" },
      table(["name", "model", "input", "output", "cache read", "cache write", "from"], "Prices", rows, [2, 3, 4, 5]),
    ),
  ];
}

/**
 * @param {string[]} heads
 * @param {string} label
 * @param {Child[][]} rows
 * @param {number[]} [numbers] columns of numbers
 */
function table(heads, label, rows, numbers = []) {
  const look = (/** @type {number} */ column) => (numbers.includes(column) ? "number" : null);
  const lines = rows.map((cells) => {
    const found = cells.map((cell, column) => element("td", { class: look(column) }, cell));
    return element("tr", { "data-row": true }, ...found);
  });
  const titles = heads.map((head, column) => element("th", { scope: "col", class: look(column) }, head));
  return dataTable(label, titles, element("tbody", {}, ...lines));
}
