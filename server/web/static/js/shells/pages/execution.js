/**
 * The page of one execution: the view of the core, with an address, a title, a memory and a way back.
 */

import { setAttribute } from "../../core/dom.js";
import { mountExecution } from "../../core/execution.js";
import { openHelp } from "../help.js";
import { remember, remembered } from "../memory.js";
import { executionHref } from "../router.js";

/** @import {Depth} from "../../core/transcript.js" */
/** @import {Route} from "../router.js" */
/** @import {MountPage, Page, Shell} from "../shell.js" */

/** @type {Depth[]} */
const DEPTHS = ["messages", "turns", "raw"];

/** How it ended, in front of the title of a page in the background. @type {Record<string, string>} */
const SIGNS = { completed: "✓ ", "completed in part": "✓ ", cancelled: "⊘ " };

/** @type {MountPage} */
export function mountExecutionPage(place, shell, route) {
  return new ExecutionPage(place, shell, route);
}

/** @implements {Page} */
class ExecutionPage {
  /**
   * @param {HTMLElement} place
   * @param {Shell} shell
   * @param {Route} route
   */
  constructor(place, shell, route) {
    this.shell = shell;
    this.id = route.id;
    /** @type {{agent: string, status: string, ended: boolean} | null} */
    this.standing = null;
    this.sign = "";
    const { query } = route;
    shell.title(route.id.slice(-6));
    this.view = mountExecution(place, {
      source: shell.source,
      id: route.id,
      selected: query.get("node") ?? undefined,
      tab: DEPTHS.find((depth) => depth === query.get("tab")),
      q: query.get("q") ?? "",
      zoom: query.get("zoom") ?? "",
      hooks: {
        changed: ({ node, tab, q, zoom }) =>
          shell.router.say({ node: node === route.id ? null : node, tab: tab === "messages" ? null : tab, q, zoom }),
        href: executionHref,
        open: (id) => shell.router.go(executionHref(id)),
        copyLink: (id, node) =>
          location.origin + executionHref(id) + (node === id ? "" : `?node=${encodeURIComponent(node)}`),
        links: [
          { words: "Export page", href: `/api${executionHref(route.id)}/page` },
          { words: "Export JSON", href: `/api${executionHref(route.id)}/bundle` },
        ],
        recall: (key) => remembered(`execution.${key}`, "") || null,
        remember: (key, value) => remember(`execution.${key}`, value),
        standing: (standing) => this.stands(standing),
        toast: (words) => shell.toast(words),
        help: openHelp,
        home: "/",
        over: (open) => {
          if (open === Boolean(history.state?.over)) return;
          if (open) history.pushState({ inside: true, over: true }, "", location.href);
          else history.back();
        },
        back: () => shell.router.back("/"),
      },
    });
    this.looked = () => {
      if (document.hidden || this.sign === "") return;
      this.sign = "";
      this.draw();
    };
    document.addEventListener("visibilitychange", this.looked);
    setAttribute(place, "data-execution", route.id);
  }

  destroy() {
    document.removeEventListener("visibilitychange", this.looked);
    this.view.destroy();
  }

  /** @param {Route} route */
  visit({ query }) {
    this.view.select(query.get("node") ?? this.id);
    if (!history.state?.over) this.view.uncover();
  }

  /**
   * @param {string} _key
   * @param {KeyboardEvent} event
   */
  key(_key, event) {
    this.view.key(event);
    return event.defaultPrevented;
  }

  /** @param {{agent: string, status: string, ended: boolean}} standing */
  stands(standing) {
    if (standing.ended && document.hidden && this.standing?.ended === false) this.sign = SIGNS[standing.status] ?? "✕ ";
    this.standing = standing;
    this.draw();
  }

  draw() {
    if (this.standing === null) return;
    const { agent, status } = this.standing;
    this.shell.title(`${this.sign}${agent} · ${status}`);
  }
}
