/**
 * What can be started and with what: agents, chains, upstream servers, the effective configuration, prices.
 */

import { append, element, setAttribute } from "../../core/dom.js";
import { load, pageHead } from "../parts.js";
import { openStart } from "../start_form.js";
import { agentsPart } from "./agent_cards.js";
import { configurationPart, pricesPart, serversPart } from "./configuration_tables.js";

/** @import {Child} from "../../core/dom.js" */
/** @import {Agents, Configuration, Upstream} from "../../types_pages.js" */
/** @import {Route} from "../router.js" */
/** @import {MountPage, Page, Shell} from "../shell.js" */

const TABS = [
  { name: "agents", words: "Agents and chains" },
  { name: "servers", words: "Servers" },
  { name: "configuration", words: "Configuration" },
  { name: "prices", words: "Prices" },
];

/** @type {MountPage} */
export function mountAgents(place, shell, route) {
  return new AgentsPage(place, shell, route);
}

/** @implements {Page} */
class AgentsPage {
  /**
   * @param {HTMLElement} place
   * @param {Shell} shell
   * @param {Route} route
   */
  constructor(place, shell, route) {
    this.shell = shell;
    this.ended = new AbortController();
    this.tab = "";
    this.filter = element("input", {
      class: "input",
      type: "search",
      name: "q",
      placeholder: "Filter",
      "aria-label": "Filter",
      oninput: () => this.filtered(),
    });
    this.buttons = TABS.map(({ name, words }) =>
      element(
        "button",
        {
          class: "tab",
          type: "button",
          role: "tab",
          id: `tab-${name}`,
          "aria-controls": "agents-panel",
          "data-tab": name,
          onclick: () => this.choose(name),
        },
        words,
      ),
    );
    this.tabs = element(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "Parts of the configuration" },
      ...this.buttons,
    );
    this.tabs.addEventListener("keydown", (event) => this.moved(event));
    this.body = element("div", { class: "stack", role: "tabpanel", id: "agents-panel" });
    this.none = element("p", { class: "vacant soft", hidden: true }, "Nothing matches the filter.");
    shell.title("Agents");
    append(place, [
      pageHead(
        "Agents and configuration",
        element("div", { class: "search-field push" }, this.filter, element("kbd", { "aria-hidden": "true" }, "/")),
      ),
      this.tabs,
      this.body,
      this.none,
    ]);
    this.filter.addEventListener("keydown", (event) => event.key === "Escape" && this.filter.blur());
    this.visit(route);
  }

  destroy() {
    this.ended.abort();
  }

  /** @param {Route} route */
  visit({ query }) {
    this.filter.value = query.get("q") ?? "";
    const tab = TABS.find(({ name }) => name === query.get("tab"))?.name ?? "agents";
    if (tab !== this.tab) this.open(tab);
    else this.match();
  }

  /** @param {string} key */
  key(key) {
    if (key !== "/") return false;
    this.filter.focus();
    this.filter.select();
    return true;
  }

  /** @param {string} tab */
  choose(tab) {
    if (tab === this.tab) return;
    this.shell.router.say({ tab: tab === "agents" ? null : tab }, { push: true });
    this.open(tab);
  }

  /** @param {KeyboardEvent} event */
  moved(event) {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    const at = this.buttons.findIndex((button) => button.dataset.tab === this.tab);
    const next = this.buttons[(at + by + this.buttons.length) % this.buttons.length];
    next?.focus();
    next?.click();
  }

  /** @param {string} tab */
  open(tab) {
    this.tab = tab;
    for (const button of this.buttons) {
      setAttribute(button, "aria-selected", String(button.dataset.tab === tab));
      setAttribute(button, "tabindex", button.dataset.tab === tab ? "0" : "-1");
      if (button.dataset.tab === tab) button.scrollIntoView({ block: "nearest" });
    }
    setAttribute(this.body, "aria-labelledby", `tab-${tab}`);
    delete this.body.dataset.state;
    void this.show();
  }

  async show() {
    const { shell, tab } = this;
    const { signal } = this.ended;
    /** @type {Record<string, () => Promise<Child[]>>} */
    const parts = {
      agents: async () =>
        agentsPart(/** @type {Agents} */ (await shell.ask("/agents", signal)), (name) => void openStart(shell, name)),
      servers: async () =>
        serversPart(/** @type {{upstreams: Upstream[]}} */ (await shell.ask("/upstreams", signal)).upstreams),
      configuration: async () =>
        configurationPart(/** @type {Configuration} */ (await shell.ask("/configuration", signal))),
      prices: async () => pricesPart(/** @type {Configuration} */ (await shell.ask("/configuration", signal)).prices),
    };
    await load(
      this.body,
      async () => ({ tab, children: (await parts[tab]?.()) ?? [] }),
      (answer) => (answer.tab === this.tab ? answer.children : []),
    );
    this.match();
  }

  filtered() {
    this.shell.router.say({ q: this.filter.value });
    this.match();
  }

  /** Shows what contains every word of the filter. */
  match() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    const rows = [...this.body.querySelectorAll("[data-row]")];
    for (const row of rows) {
      const text = (row.textContent ?? "").toLowerCase();
      const matches = words.every((word) => text.includes(word));
      /** @type {HTMLElement} */ (row).hidden = !matches;
      if (matches) shown += 1;
    }
    this.none.hidden = shown > 0 || rows.length === 0;
  }
}
