/**
 * The top of the page of an execution: where it stands, its name and actions, its facts, what is out of the ordinary, and
 * its answer.
 */

import { actionButtons } from "./actions.js";
import { answerElement, foldedAnswer } from "./answer.js";
import { showBanners } from "./banners.js";
import { element, replaceChildren, setText } from "./dom.js";
import { factList } from "./facts.js";
import { shownStatus, statusShape, statusWords } from "./format.js";
import { plainLine } from "./plain_text.js";

/** @import {Execution, Source} from "../types.js" */
/** @import {Banner} from "./banners.js" */
/** @import {ExecutionHooks} from "./execution.js" */
/** @import {TreeEntry} from "./store.js" */

export class PageHead {
  /**
   * @param {Source} source
   * @param {ExecutionHooks} hooks of the shell
   * @param {{done: (words: string, answer: Record<string, unknown>) => void, go: (id: string, call?: string) => void, copy: () => void}} does
   */
  constructor(source, hooks, does) {
    this.source = source;
    this.hooks = hooks;
    this.does = does;
    this.drawn = "";
    this.path = element("nav", { class: "x-path", "aria-label": "Ancestors", hidden: true });
    this.title = element("div", { class: "x-title" });
    this.live = element("span", { class: "x-live", "data-live": "", "data-state": "loading" });
    this.facts = element("div", { class: "x-page-facts" });
    this.outcome = element("div", { class: "x-outcome-place" });
    this.open = false;
    this.banners = element("div", { class: "x-banners" });
    this.element = element("header", { class: "x-page-head" });
    this.element.append(this.path, this.title, this.facts, this.banners, this.outcome);
  }

  /**
   * @param {TreeEntry} entry
   * @param {Execution | null} execution
   * @param {Banner[]} banners
   * @param {number} now
   */
  draw(entry, execution, banners, now) {
    const { node } = entry;
    const drawn = JSON.stringify([
      statusWords(node),
      execution?.actions,
      execution?.ancestors,
      node.error,
      entry.sums.bad,
      execution?.node.status,
      execution?.citations.length,
    ]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.drawTitle(entry, execution);
      this.drawOutcome(entry, execution);
    }
    replaceChildren(this.facts, factList(entry, execution, now));
    showBanners(this.banners, banners, this.does.go, (id, words) => this.link(id, words));
  }

  /**
   * @param {TreeEntry} entry
   * @param {Execution | null} execution
   */
  drawTitle({ node }, execution) {
    const ancestors = execution?.ancestors ?? [];
    this.path.hidden = ancestors.length === 0;
    replaceChildren(
      this.path,
      ...ancestors.flatMap(({ id, agent }) => [this.link(id, agent) ?? agent, " › "]),
      node.agent,
    );
    const status = { class: "x-badge", "data-status": shownStatus(node) };
    const does = { source: this.source, done: this.does.done, below: ancestors.length > 0 };
    const copied = { type: "button", class: "x-id", "data-action": "copy-id", title: `${node.id}, copied on a click` };
    const copy = () => navigator.clipboard?.writeText(node.id).catch(() => {});
    const shared = element("div", { class: "x-actions" });
    if (this.hooks.copyLink !== undefined) {
      shared.append(element("button", { type: "button", "data-action": "copy", onclick: this.does.copy }, "Copy link"));
    }
    for (const { words, href } of this.hooks.links ?? []) {
      shared.append(element("a", { class: "x-button", href, download: true }, words));
    }
    replaceChildren(
      this.title,
      element("span", status, `${statusShape(node)} ${statusWords(node)}`),
      element("h1", {}, node.agent),
      element("span", { class: "x-task-line" }, plainLine(node.task)),
      element("button", { ...copied, onclick: copy }, node.short_id),
      this.live,
      actionButtons(node.id, node.agent, execution?.actions ?? [], does),
      shared,
    );
  }

  /**
   * @param {string} id
   * @param {string} words
   * @returns {HTMLElement | null} null: no other page can be shown
   */
  link(id, words) {
    const href = this.hooks.href?.(id) ?? null;
    if (href !== null) return element("a", { href, "data-ancestor": id }, words);
    const open = this.hooks.open;
    if (open === undefined) return null;
    return element("button", { type: "button", class: "x-link", "data-ancestor": id, onclick: () => open(id) }, words);
  }

  /**
   * What came out: here and not in the detail, so that it is said once.
   * @param {TreeEntry} entry
   * @param {Execution | null} execution
   */
  drawOutcome(entry, execution) {
    const answer = execution === null ? null : answerElement(entry, execution, this.does);
    const keep = (/** @type {boolean} */ open) => {
      this.open = open;
    };
    const title = element("h2", { class: "x-unseen" }, "Answer");
    replaceChildren(this.outcome, ...(answer === null ? [] : [title, foldedAnswer(answer, this.open, keep)]));
  }

  /**
   * @param {string} state
   * @param {string} words
   */
  showLive(state, words) {
    this.live.dataset.state = state;
    setText(this.live, words);
  }
}
