/**
 * Agents and chains as cards: what each is for, what it may use, where it is declared.
 */

import { element } from "../../core/dom.js";
import { durationWords, jsonText } from "../../core/format.js";
import { actionButton } from "../parts.js";

/** @import {Child} from "../../core/dom.js" */
/** @import {Agents, AgentSpec, ChainSpec} from "../../types_pages.js" */

/**
 * @param {Agents} agents
 * @param {(name: string) => void} start
 * @returns {Child[]}
 */
export function agentsPart({ agents, chains }, start) {
  return [
    chains.length > 0 && element("h2", { class: "section" }, "Chains"),
    ...chains.map((chain) => chainCard(chain, start)),
    element("h2", { class: "section" }, "Agents"),
    element("div", { class: "cards" }, ...agents.map((agent) => agentCard(agent, start))),
  ];
}

/**
 * @param {{name: string, description: string, origin: string}} about
 * @param {Child} badge
 * @param {(name: string) => void} start
 */
function cardHead({ name, description, origin }, badge, start) {
  return [
    element(
      "header",
      { class: "row" },
      element("h3", { class: "cut" }, name),
      badge,
      element("span", { class: "push" }),
      actionButton("start", "Start…", () => start(name), { size: "small", title: `Start ${name}` }),
    ),
    element("p", { class: "soft" }, description || "No description."),
    origin,
  ];
}

/**
 * @param {ChainSpec} chain
 * @param {(name: string) => void} start
 */
function chainCard(chain, start) {
  const [head, description] = cardHead(chain, element("span", { class: "badge" }, "chain"), start);
  return element(
    "article",
    { class: "card spec", "data-row": true, "data-chain": chain.name },
    head,
    description,
    element(
      "ol",
      { class: "stages" },
      ...chain.stages.map((stage) =>
        element(
          "li",
          {},
          element("strong", {}, stage.name),
          element("span", { class: "faint" }, stage.agents.join(", ")),
        ),
      ),
    ),
    facts([
      ["answers", chips(chain.alert_types)],
      ["limits", limitWords(chain.limits)],
      ["declared in", element("code", { class: "origin" }, chain.origin)],
    ]),
  );
}

/**
 * @param {AgentSpec} agent
 * @param {(name: string) => void} start
 */
function agentCard(agent, start) {
  const [head, description] = cardHead(agent, element("span", { class: "badge" }, agent.strategy), start);
  return element(
    "article",
    { class: "card spec", "data-row": true, "data-agent": agent.name },
    head,
    description,
    facts([
      ["model", agent.model === null ? null : element("code", {}, agent.model)],
      ["function", agent.function === null ? null : element("code", {}, agent.function)],
      ["dispatches", chips(agent.sub_agents)],
      ["servers", chips(agent.mcp_servers)],
      ["capabilities", chips(agent.capabilities)],
      ["commands", chips(agent.commands)],
      ["workspaces", chips(agent.workspaces)],
      ["limits", limitWords(agent.limits)],
      ["declared in", element("code", { class: "origin" }, agent.origin)],
    ]),
    agent.input_schema !== null &&
      element(
        "details",
        {},
        element("summary", {}, "Input schema"),
        element("pre", { class: "code" }, jsonText(agent.input_schema)),
      ),
  );
}

/** @param {[string, Child][]} pairs those without a value are left out */
function facts(pairs) {
  return element(
    "dl",
    { class: "facts" },
    ...pairs
      .filter(([, value]) => value !== null && value !== "")
      .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );
}

/** @param {string[]} names */
export function chips(names) {
  return names.length === 0
    ? null
    : element("span", { class: "chips" }, ...names.map((name) => element("span", { class: "chip" }, name)));
}

/** @param {Record<string, number | null>} limits */
function limitWords(limits) {
  const said = Object.entries(limits).filter(([, value]) => value !== null);
  return said.length === 0
    ? null
    : element(
        "span",
        { class: "chips" },
        ...said.map(([name, value]) =>
          element(
            "span",
            { class: "chip" },
            `${name.replace(/_usd$/, "").replaceAll("_", " ")} `,
            element("b", {}, limitValue(name, value ?? 0)),
          ),
        ),
      );
}

/**
 * @param {string} name
 * @param {number} value
 */
function limitValue(name, value) {
  if (name.endsWith("_usd")) return `$${value}`;
  return name.endsWith("timeout") ? durationWords(value).replace(".0s", "s") : value.toLocaleString("en-US");
}
