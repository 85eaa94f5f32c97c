/**
 * The dashboard: starts the session, shows the page of the address, and keeps what all pages share.
 */

import { element, replaceChildren } from "../core/dom.js";
import { ApiClient, ApiError } from "../sources/api.js";
import { followAll, liveSource, untilRetry } from "../sources/live.js";
import { Chrome } from "./chrome.js";
import { openHelp } from "./help.js";
import { Keys } from "./keys.js";
import { Login } from "./login.js";
import { mountAgents } from "./pages/agents.js";
import { mountCompare } from "./pages/compare.js";
import { mountExecutionPage } from "./pages/execution.js";
import { mountExecutions } from "./pages/executions.js";
import { mountSql } from "./pages/sql.js";
import { mountUsage } from "./pages/usage.js";
import { openPalette } from "./palette.js";
import { Router } from "./router.js";
import { showToast } from "./toast.js";

/** @import {StreamListener} from "../types.js" */
/** @import {Counts, Session} from "../types_pages.js" */
/** @import {PageName, Route} from "./router.js" */
/** @import {MountPage, Page, Shell} from "./shell.js" */

/** @type {Record<PageName, MountPage>} */
const PAGES = {
  executions: mountExecutions,
  execution: mountExecutionPage,
  agents: mountAgents,
  usage: mountUsage,
  sql: mountSql,
  compare: mountCompare,
};

const PROBE = 2_000;
const RECOUNT_EVERY = 1_500;

/** @type {Session} */
const UNKNOWN = { principal: null, local: true, reads_all: true, demo: false, version: "", database: "" };

class Dashboard {
  constructor() {
    this.api = new ApiClient({ reachable: (there) => this.reached(there), unauthorised: () => this.refused() });
    this.login = new Login(this.api);
    this.chrome = new Chrome({
      palette: () => openPalette(this.shell),
      help: openHelp,
      logout: () => void this.logout(),
    });
    this.router = new Router((route, how) => this.show(route, how));
    this.keys = new Keys(() => this.page, {
      palette: () => openPalette(this.shell),
      help: openHelp,
      go: (href) => this.router.go(href),
    });
    this.session = UNKNOWN;
    this.started = false;
    /** @type {Page | null} */
    this.page = null;
    this.shown = "";
    /** @type {Set<StreamListener>} */
    this.listeners = new Set();
    /** @type {(() => void) | null} */
    this.stream = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.counting = undefined;
    this.counted = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.probing = undefined;
    this.shell = this.makeShell();
  }

  /** @returns {Shell} */
  makeShell() {
    const self = this;
    return {
      api: this.api,
      source: liveSource(this.api, (path) => this.ask(path)),
      router: this.router,
      get session() {
        return self.session;
      },
      ask: (path, signal) => this.ask(path, signal),
      toast: (words, more) => showToast(this.chrome.toasts, words, more),
      announce: (words) => this.chrome.announce(words),
      title: (words) => this.chrome.title(words),
      follow: (listener) => this.follow(listener),
      recount: () => this.recount(),
    };
  }

  async start() {
    window.addEventListener("hashchange", async () => {
      if ((await this.login.enter()) && this.started) await this.identify();
    });
    await this.login.enter();
    await this.identify();
    this.started = true;
    this.keys.start();
    this.router.start();
    setInterval(() => document.visibilityState === "visible" && this.stream === null && this.recount(), 20_000);
  }

  async identify() {
    this.session = await this.ask("/session");
    this.chrome.showSession(this.session);
  }

  async logout() {
    await this.api.delete("/session");
    location.assign("/");
  }

  /**
   * @template T
   * @param {string} path
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  async ask(path, signal) {
    for (;;) {
      try {
        return await this.api.get(path, signal);
      } catch (failure) {
        if (!(failure instanceof ApiError)) throw failure;
        if (failure.status === 401) await this.login.ask();
        else if (failure.status === 0) await untilRetry(5 * PROBE, signal);
        else throw failure;
        signal?.throwIfAborted();
      }
    }
  }

  refused() {
    if (!this.started) return;
    void this.login.ask().then(() => this.identify());
  }

  /** @param {boolean} there */
  reached(there) {
    if (there && document.body.dataset.connection === "lost") window.dispatchEvent(new Event("reached"));
    this.chrome.showReachable(there);
    clearTimeout(this.probing);
    if (!there) this.probing = setTimeout(() => void this.api.get("/session").catch(() => {}), PROBE);
  }

  /**
   * @param {Route | null} route
   * @param {"load" | "push" | "replace" | "back"} how
   */
  show(route, how) {
    const shown = route === null ? "unknown" : `${route.page}/${route.id}`;
    if (shown === this.shown && route !== null && this.page?.visit !== undefined) return this.page.visit(route);
    this.page?.destroy();
    this.page = null;
    this.shown = shown;
    this.chrome.showPlace(route?.page ?? null);
    const place = element("div", { class: "page", "data-page": route?.page ?? "unknown" });
    replaceChildren(this.chrome.main, place);
    if (route === null) this.showNothing(place);
    else this.page = PAGES[route.page](place, this.shell, route);
    this.recount();
    if (how === "push") window.scrollTo(0, 0);
    if (how !== "load") place.querySelector("h1")?.focus({ preventScroll: true });
  }

  /** @param {HTMLElement} place */
  showNothing(place) {
    this.chrome.title("Not found");
    place.dataset.state = "error";
    place.append(
      element(
        "div",
        { class: "vacant" },
        element("h1", { tabindex: "-1" }, "No such page"),
        element("p", {}, "The address leads to none of the pages of this server."),
        element("a", { class: "button", href: "/" }, "Executions"),
      ),
    );
  }

  /** @param {StreamListener} listener */
  follow(listener) {
    this.listeners.add(listener);
    this.stream ??= followAll(this.api, {
      event: (event) => {
        this.chrome.live.heard();
        if (event.seq !== null) this.recount();
        for (const each of this.listeners) each.event(event);
      },
      state: (state, tries) => {
        this.chrome.live.show(state, tries);
        for (const each of this.listeners) each.state(state, tries);
      },
    });
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      this.stream?.();
      this.stream = null;
      this.chrome.live.hide();
    };
  }

  recount() {
    const pause = Math.max(50, this.counted + RECOUNT_EVERY - Date.now());
    this.counting ??= setTimeout(async () => {
      this.counting = undefined;
      this.counted = Date.now();
      try {
        /** @type {Counts} */
        const counts = await this.api.get("/counts");
        this.chrome.showCounts(counts);
      } catch {
        // The numbers stay as they were; the banner and the login say what is wrong.
      }
    }, pause);
  }
}

void new Dashboard().start();
