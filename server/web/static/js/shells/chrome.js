/**
 * What is around each page: the navigation with its numbers, the state of the connection, the place for messages.
 */

import { element, setAttribute, setText } from "../core/dom.js";
import { LiveState } from "./live_state.js";
import { actionButton } from "./parts.js";
import { dataHref } from "./router.js";
import { applyTheme, nextTheme } from "./theme.js";

/** @import {Counts, Session} from "../types_pages.js" */
/** @import {PageName} from "./router.js" */

/** @type {{page: PageName, href: string, words: string}[]} */
export const PLACES = [
  { page: "executions", href: "/", words: "Executions" },
  { page: "agents", href: "/agents", words: "Agents" },
  { page: "usage", href: "/usage", words: "Usage" },
  { page: "compare", href: "/compare", words: "Compare" },
  { page: "sql", href: "/sql", words: "SQL" },
];

/** @typedef {{palette: () => void, help: () => void, logout: () => void}} ChromeActions */

export class Chrome {
  /** @param {ChromeActions} actions */
  constructor(actions) {
    this.waiting = element("span", { class: "nav-count", hidden: true });
    this.main = element("main", { id: "main", tabindex: "-1" });
    this.toasts = element("div", { class: "toasts" });
    this.says = element("div", { class: "hidden-visually", role: "status", "aria-live": "polite" });
    this.lost = element(
      "div",
      { class: "lost", role: "status", hidden: true },
      element("span", { class: "spinner", "aria-hidden": "true" }),
      element("span", {}, "The server does not answer. This page shows what it last heard, and is reconnecting."),
    );
    this.live = new LiveState();
    this.links = PLACES.map(({ page, href, words }) =>
      element("a", { href, "data-nav": page }, words, page === "executions" && this.waiting),
    );
    this.about = element("span", { class: "about" });
    this.logout = actionButton("logout", "Log out", actions.logout, { kind: "quiet", size: "small" });
    this.logout.hidden = true;
    this.words = "Outrider";
    this.needed = 0;
    document.body.append(
      element("a", { class: "skip hidden-visually", href: "#main" }, "Skip to the page"),
      element(
        "header",
        { class: "top" },
        element(
          "a",
          { class: "brand", href: "/", "aria-label": "Outrider: executions" },
          element("img", { src: "/static/icon.svg", alt: "", width: "22", height: "22" }),
          element("span", {}, "Outrider"),
        ),
        element("nav", { "aria-label": "Pages" }, ...this.links),
        element("div", { class: "top-end" }, this.live.element, this.tools(actions), this.about, this.logout),
      ),
      this.lost,
      this.main,
      this.toasts,
      this.says,
    );
    document.querySelector("a.skip")?.addEventListener("click", (event) => {
      event.preventDefault();
      this.main.focus();
    });
  }

  /** @param {ChromeActions} actions */
  tools(actions) {
    const theme = element(
      "button",
      { class: "button", "data-kind": "quiet", "data-size": "small", type: "button", "data-action": "theme" },
      "◐",
    );
    const named = (/** @type {string} */ chosen) => setAttribute(theme, "aria-label", `Colours: ${chosen}. Change`);
    theme.title = "Colours: as the system, light, dark";
    named(applyTheme());
    theme.addEventListener("click", () => {
      const chosen = nextTheme();
      named(chosen);
      this.announce(`Colours: ${chosen}`);
    });
    const data = element(
      "a",
      {
        class: "button",
        "data-kind": "quiet",
        "data-size": "small",
        "data-action": "json",
        href: "/executions.json",
        title: "This page as JSON",
        "aria-label": "This page as JSON",
      },
      "{ }",
    );
    data.addEventListener("click", () => setAttribute(data, "href", dataHref(location.pathname, location.search)));
    const key = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";
    return element(
      "div",
      { class: "row tools" },
      element(
        "button",
        {
          class: "button palette-open",
          "data-size": "small",
          type: "button",
          onclick: actions.palette,
          "data-action": "palette",
        },
        "Go to…",
        element("kbd", {}, `${key} K`),
      ),
      actionButton("help", "?", actions.help, {
        kind: "quiet",
        size: "small",
        title: "Keyboard shortcuts (?)",
        label: "Keyboard shortcuts",
      }),
      data,
      theme,
    );
  }

  /** @param {PageName | null} page */
  showPlace(page) {
    const shown = page === "execution" ? "executions" : page;
    for (const link of this.links) setAttribute(link, "aria-current", link.dataset.nav === shown ? "page" : null);
    setAttribute(document.body, "data-page", page ?? "unknown");
  }

  /** @param {Counts} counts */
  showCounts(counts) {
    this.needed = counts.attention;
    this.waiting.hidden = counts.attention === 0;
    setText(this.waiting, counts.attention > 99 ? "99+" : String(counts.attention));
    setAttribute(this.waiting, "aria-label", `${counts.attention} need attention`);
    this.title(this.words);
  }

  /** @param {Session} session */
  showSession(session) {
    setText(this.about, session.principal ?? "");
    setAttribute(this.about, "title", `${this.about.textContent} · Outrider ${session.version} · ${session.database}`);
    this.logout.hidden = session.principal === null;
  }

  /** @param {string} words */
  title(words) {
    this.words = words;
    document.title = `${this.needed > 0 ? `(${this.needed}) ` : ""}${words} · Outrider`;
  }

  /** @param {string} words */
  announce(words) {
    setText(this.says, words);
  }

  /** @param {boolean} reachable */
  showReachable(reachable) {
    if (this.lost.hidden === reachable) return;
    this.lost.hidden = reachable;
    setAttribute(document.body, "data-connection", reachable ? null : "lost");
    this.announce(reachable ? "The server answers again." : "The server does not answer. Reconnecting.");
  }
}
