/**
 * What the list shows, as the address says it: a search, a status, an agent, roots or everything.
 */

import { element } from "../../core/dom.js";
import { actionButton } from "../parts.js";

const STATUSES = ["pending", "running", "completed", "failed", "timed_out", "cancelled", "blocked", "skipped"];
const TYPING = 250;

export class ExecutionFilters {
  /**
   * @param {URLSearchParams} query
   * @param {(changes: Record<string, string | null>) => void} changed
   */
  constructor(query, changed) {
    this.changed = changed;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.typing = undefined;
    this.search = element("input", {
      class: "input",
      type: "search",
      name: "q",
      placeholder: "Search task, agent, id",
      "aria-label": "Search executions",
      "aria-keyshortcuts": "/",
      oninput: () => this.typed(),
    });
    this.status = element(
      "select",
      { class: "input", name: "status", "aria-label": "Status", onchange: () => this.tell() },
      element("option", { value: "" }, "any status"),
      ...STATUSES.map((status) => element("option", { value: status }, status.replace("_", " "))),
    );
    this.agent = element("input", {
      class: "input",
      name: "agent",
      placeholder: "any agent",
      "aria-label": "Agent",
      onchange: () => this.tell(),
    });
    this.all = element("input", { type: "checkbox", name: "all", onchange: () => this.tell() });
    this.clear = actionButton("clear-filters", "Clear", () => this.cleared(), { kind: "quiet" });
    this.element = element(
      "search",
      { class: "filters" },
      element("div", { class: "search-field" }, this.search, element("kbd", { "aria-hidden": "true" }, "/")),
      this.status,
      this.agent,
      element("label", { class: "row tick" }, this.all, "every level"),
      this.clear,
    );
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.search.blur();
      if (event.key === "Enter") this.tell();
    });
    this.show(query);
  }

  /** @param {URLSearchParams} query */
  show(query) {
    if (this.search !== document.activeElement) this.search.value = query.get("q") ?? "";
    this.status.value = query.get("status") ?? "";
    this.agent.value = query.get("agent") ?? "";
    this.all.checked = query.get("all") === "1";
    this.clear.hidden = !this.any();
  }

  query() {
    return {
      q: this.search.value.trim(),
      status: this.status.value,
      agent: this.agent.value.trim(),
      all: this.all.checked ? "1" : "",
    };
  }

  any() {
    return Object.values(this.query()).some((value) => value !== "");
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.tell(), TYPING);
  }

  tell() {
    clearTimeout(this.typing);
    this.clear.hidden = !this.any();
    this.changed(this.query());
  }

  cleared() {
    this.search.value = "";
    this.status.value = "";
    this.agent.value = "";
    this.all.checked = false;
    this.tell();
    this.focus();
  }

  focus() {
    this.search.focus();
    this.search.select();
  }
}
