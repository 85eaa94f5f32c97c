/**
 * The list of executions: what needs attention, what runs, what has finished. Newcomers announce themselves and move
 * nothing until the reader asks for them.
 */

import { ACTIONS, askFirst } from "../../core/actions.js";
import { append, element, replaceChildren, setText } from "../../core/dom.js";
import { QUIET } from "../../core/feed.js";
import { countWords, isEnded } from "../../core/format.js";
import { withQuery } from "../../sources/api.js";
import { tickDeadlines } from "../approval_card.js";
import { actionButton, failureCard, skeleton } from "../parts.js";
import { Refresher } from "../refresher.js";
import { openStart } from "../start_form.js";
import { emptyList } from "./empty_list.js";
import { ExecutionFilters } from "./execution_filters.js";
import { EVERY_LEVEL, ExecutionGroup, GROUPS, hearPages } from "./execution_group.js";
import { openPeek } from "./peek.js";

/** @import {Approval, ExecutionPage} from "../../types.js" */
/** @import {Route} from "../router.js" */
/** @import {MountPage, Page, Shell} from "../shell.js" */
/** @import {GroupAbout, News} from "./execution_group.js" */
/** @import {LineRow} from "./execution_line.js" */

const REFRESH = 1_200;

/** The row that had the focus when the list was left: there the reader goes on. */
let left = "";

/** @type {MountPage} */
export function mountExecutions(place, shell, route) {
  return new ExecutionsPage(place, shell, route);
}

/** @implements {Page} */
class ExecutionsPage {
  /**
   * @param {HTMLElement} place
   * @param {Shell} shell
   * @param {Route} route
   */
  constructor(place, shell, route) {
    this.place = place;
    this.shell = shell;
    this.ended = new AbortController();
    this.filters = new ExecutionFilters(route.query, (changes) => this.filtered(changes));
    /** @type {ExecutionGroup[]} */
    this.groups = [];
    this.news = element("button", {
      class: "news",
      type: "button",
      "data-action": "show-new",
      hidden: true,
      onclick: () => void this.load(),
    });
    this.list = element("div", { class: "groups" }, skeleton(8, 34));
    shell.title("Executions");
    append(place, [
      element(
        "header",
        { class: "page-head" },
        element("h1", { tabindex: "-1" }, "Executions"),
        this.filters.element,
        actionButton("start-form", "Start…", () => void openStart(shell), { kind: "primary" }),
      ),
      this.news,
      this.list,
    ]);
    this.list.addEventListener("focusin", () => this.current()?.link.scrollIntoView({ block: "nearest" }));
    this.clock = setInterval(() => this.tick(), 1000);
    this.refresher = new Refresher(() => this.refresh(), REFRESH);
    this.unfollow = shell.follow({
      event: (event) => event.seq !== null && this.refresher.soon(),
      state: (state) => state === "caught_up" && this.refresher.soon(),
    });
    this.asked = 0;
    this.askedAt = 0;
    void this.load();
  }

  destroy() {
    left = this.current()?.heard.line.id ?? "";
    this.ended.abort();
    clearInterval(this.clock);
    this.refresher.stop();
    this.unfollow();
  }

  /** @param {Route} route */
  visit(route) {
    this.filters.show(route.query);
    void this.load();
  }

  /** @param {Record<string, string | null>} changes */
  filtered(changes) {
    this.shell.router.say(changes);
    void this.load();
  }

  /**
   * @param {GroupAbout["name"]} name
   * @param {string | null} cursor
   * @returns {Promise<ExecutionPage>}
   */
  page(name, cursor) {
    const group = name === "all" ? "" : name;
    const limit = name === "finished" ? 30 : 50;
    return this.shell.ask(
      withQuery("/executions", { ...this.filters.query(), group, cursor, limit }),
      this.ended.signal,
    );
  }

  pages() {
    this.askedAt = Date.now();
    return Promise.all(this.groups.map((group) => this.page(group.about.name, null)));
  }

  /** Groups, or one list if the reader wants to see every level. */
  regroup() {
    const wanted = this.filters.query().all === "" ? GROUPS : EVERY_LEVEL;
    if (this.groups[0]?.about === wanted[0]) return;
    this.groups = wanted.map((about) => new ExecutionGroup(about, (cursor) => this.page(about.name, cursor)));
  }

  /** Shows everything in its place, newcomers too. */
  async load() {
    this.asked += 1;
    const asked = this.asked;
    this.regroup();
    if (this.place.dataset.state === undefined) this.place.dataset.state = "loading";
    try {
      const pages = await this.pages();
      if (asked !== this.asked) return;
      left = this.current()?.heard.line.id ?? left;
      const rows = new Map(this.rows().map((row) => [row.heard.line.id, row]));
      for (const [index, group] of this.groups.entries()) group.show(/** @type {ExecutionPage} */ (pages[index]), rows);
      this.arrange();
    } catch (failure) {
      if (this.ended.signal.aborted || asked !== this.asked) return;
      this.place.dataset.state = "error";
      replaceChildren(
        this.list,
        failureCard(failure, () => void this.load()),
      );
    }
  }

  arrange() {
    this.news.hidden = true;
    const shown = this.groups.filter((group) => group.rows.size > 0);
    if (shown.length === 0) {
      this.place.dataset.state = "empty";
      replaceChildren(this.list, emptyList(this.shell, this.filters));
      return;
    }
    this.place.dataset.state = "ready";
    if (
      this.list.childElementCount !== shown.length ||
      shown.some((group, index) => this.list.children[index] !== group.element)
    )
      this.list.replaceChildren(...shown.map((group) => group.element));
    for (const row of this.rows()) {
      if (row.heard.line.id === left && !row.element.contains(document.activeElement)) row.link.focus();
      if (row.heard.line.attention === "approval" && row.element.dataset.peeked === undefined) this.peek(row, true);
    }
    left = "";
  }

  /** Updates the rows that are shown, and counts those that are not. */
  async refresh() {
    if (this.place.dataset.state !== "ready") return this.load();
    const asked = this.asked;
    try {
      const pages = await this.pages();
      if (asked !== this.asked) return;
      const { news, lost } = hearPages(this.groups, pages);
      this.tellNews(news);
      await Promise.all([this.refreshQuestions(), ...lost.map((row) => this.find(row))]);
    } catch {
      // The rows stay as they are; the banner says if the server is gone.
    }
  }

  /**
   * Updates a row that is on no page any more.
   * @param {LineRow} row
   */
  async find(row) {
    const { id } = row.heard.line;
    /** @type {ExecutionPage} */
    const page = await this.shell.ask(withQuery("/executions", { q: id, limit: 1 }), this.ended.signal);
    for (const line of page.executions) if (line.id === id) row.update({ line, heard: Date.now() });
  }

  /** Draws the questions of the rows that are open again, where they are no longer the same. */
  async refreshQuestions() {
    const drawn = (/** @type {LineRow} */ row) =>
      [...row.peek.querySelectorAll("[data-approval]")].map((card) => card.getAttribute("data-approval"));
    const rows = this.rows().filter(
      (row) => row.element.dataset.peeked !== undefined && (row.heard.line.approvals > 0 || drawn(row).length > 0),
    );
    if (rows.length === 0) return;
    /** @type {{approvals: Approval[]}} */
    const { approvals } = await this.shell.ask("/approvals", this.ended.signal);
    for (const row of rows) {
      const [now, before] = [approvals.filter((each) => each.root_execution_id === row.heard.line.id), drawn(row)];
      const isNew = now.some(({ id }) => !before.includes(id));
      if (isNew || (now.length < before.length && !row.peek.hidden)) this.peek(row, true);
    }
  }

  /** @param {News} news */
  tellNews({ fresh, needing, ended, calmed }) {
    const parts = [];
    if (needing > 0) parts.push(`${needing} now need${needing === 1 ? "s" : ""} attention`);
    if (calmed > 0) parts.push(`${calmed} no longer need${calmed === 1 ? "s" : ""} attention`);
    if (fresh > 0) parts.push(countWords(fresh, "new execution"));
    if (ended > 0) parts.push(`${ended} ha${ended === 1 ? "s" : "ve"} ended`);
    this.news.hidden = parts.length === 0;
    if (parts.length === 0) return;
    const words = `${parts.join(" · ")} · show`;
    if (words !== this.news.textContent) this.shell.announce(parts.join(", "));
    setText(this.news, words);
    this.news.dataset.tone = needing > 0 ? "warn" : "accent";
  }

  tick() {
    const now = Date.now();
    const rows = this.rows();
    for (const row of rows) row.tick(now);
    tickDeadlines(this.list, now);
    if (document.hidden || now - this.askedAt < QUIET) return;
    if (!rows.some(({ heard: { line } }) => !isEnded(line.status) && !line.owner_gone)) return;
    this.refresher.soon();
    this.shell.recount();
  }

  rows() {
    return this.groups
      .flatMap((group) => [...group.rows.values()])
      .sort((a, b) => (a.element.compareDocumentPosition(b.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
  }

  current() {
    return this.rows().find((row) => row.element.contains(document.activeElement)) ?? null;
  }

  /**
   * @param {string} key
   * @param {KeyboardEvent} event
   */
  key(key, event) {
    const row = this.current();
    if (key === "/") this.filters.focus();
    else if (key === "j" || key === "ArrowDown") this.move(1);
    else if (key === "k" || key === "ArrowUp") this.move(-1);
    else if (key === "." && !this.news.hidden) void this.load();
    else if (key === " " && row !== null && event.target === row.link)
      this.peek(row, row.element.dataset.peeked !== "true");
    else if (key === "Escape" && row !== null && !row.peek.hidden) this.peek(row, false);
    else if (key === "x" && row !== null) this.cancel(row);
    else return false;
    return true;
  }

  /** @param {number} by */
  move(by) {
    const rows = this.rows();
    const at = rows.findIndex((row) => row.element.contains(document.activeElement));
    rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]?.link.focus();
  }

  /**
   * @param {LineRow} row
   * @param {boolean} open
   */
  peek(row, open) {
    row.element.dataset.peeked = String(open);
    row.peek.hidden = !open;
    row.link.setAttribute("aria-expanded", String(open));
    if (open) void openPeek(this.shell, row, { changed: () => this.refresher.soon(), cancel: () => this.cancel(row) });
    else row.link.focus();
  }

  /** @param {LineRow} row */
  cancel(row) {
    const { shell } = this;
    const { line } = row.heard;
    if (isEnded(line.status)) return shell.toast(`${line.agent} has ended: there is nothing to cancel`);
    const cancel = ACTIONS.find(({ name }) => name === "cancel");
    const done = (/** @type {string} */ words) => {
      shell.toast(words);
      this.refresher.soon();
    };
    if (cancel !== undefined) askFirst(cancel, line.id, line.agent, { source: shell.source, done });
  }
}
