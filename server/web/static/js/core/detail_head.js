/**
 * The top of the detail: which execution it is, what can be done, its figures, and what it asks a person.
 */

import { actionButtons } from "./actions.js";
import { approvalElement } from "./approval.js";
import { element, replaceChildren } from "./dom.js";
import { budgetBars, factList, timesBar } from "./facts.js";
import { shownStatus, statusShape, statusWords } from "./format.js";

/** @import {Approval, Execution, Source} from "../types.js" */
/** @import {TreeEntry, TreeStore} from "./store.js" */

/**
 * @typedef {object} HeadHooks
 * @property {(id: string, call?: string) => void} go selects an execution, and shows one of its calls
 * @property {() => void} close
 * @property {(words: string, answer: Record<string, unknown>) => void} done
 */

export class DetailHead {
  /**
   * @param {Source} source
   * @param {TreeStore} store
   * @param {HeadHooks} hooks
   */
  constructor(source, store, hooks) {
    this.source = source;
    this.store = store;
    this.hooks = hooks;
    this.drawn = "";
    this.head = element("header", { class: "x-detail-head" });
    this.figures = element("div", { class: "x-detail-facts" });
    this.questions = element("div", { class: "x-questions" });
    this.element = element("div", { class: "x-detail-top" }, this.head, this.figures, this.questions);
  }

  /**
   * @param {TreeEntry} entry
   * @param {Execution | null} execution
   */
  draw(entry, execution) {
    const { node } = entry;
    // Made again only when it differs: a button keeps its focus while figures change.
    const drawn = JSON.stringify([node.id, statusWords(node), entry.parent?.node.id, execution?.actions]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.drawHead(entry, execution);
    }
    const now = this.store.now();
    replaceChildren(
      this.figures,
      factList(entry, execution, now),
      timesBar(node, now),
      ...budgetBars(entry, execution, now),
    );
    this.drawQuestions(node.id);
  }

  /**
   * @param {TreeEntry} entry
   * @param {Execution | null} execution
   */
  drawHead({ node, parent }, execution) {
    const back = { type: "button", class: "x-close", "data-action": "close", "aria-label": "Back to the tree" };
    const close = element("button", { ...back, onclick: this.hooks.close }, "←");
    const status = { class: "x-badge", "data-status": shownStatus(node) };
    const badge = element("span", status, `${statusShape(node)} ${statusWords(node)}`);
    const does = { source: this.source, done: this.hooks.done, below: true };
    // What can be done to the execution of the page stands above, with its name.
    const actions = parent === null ? null : actionButtons(node.id, node.agent, execution?.actions ?? [], does);
    const asked = parent === null ? null : this.parentLink(parent, node.tool_call_id);
    const id = element("code", { class: "x-id" }, node.short_id);
    replaceChildren(this.head, close, badge, element("h2", {}, node.agent), id, asked, actions);
  }

  /**
   * @param {TreeEntry} parent
   * @param {string | null} call
   */
  parentLink(parent, call) {
    const open = () => this.hooks.go(parent.node.id, call ?? undefined);
    const link = { type: "button", class: "x-link", "data-parent": parent.node.id, onclick: open };
    return element("button", link, `asked by ${parent.node.agent}`);
  }

  /** @param {string} id */
  drawQuestions(id) {
    const asked = this.store.approvalsOf(id);
    const shown = [...this.questions.children].map((child) => child.getAttribute("data-approval"));
    if (shown.join(" ") === asked.map((approval) => approval.id).join(" ")) return; // what the reader types stays
    const made = asked.map((approval) => approvalElement(approval, this.decider(approval)));
    replaceChildren(this.questions, ...made);
  }

  /** @param {Approval} approval */
  decider(approval) {
    const { act } = this.source;
    if (act === null) return null;
    return async (/** @type {string} */ decision, /** @type {string} */ reason) => {
      const body = reason === "" ? { shown: approval.shown } : { shown: approval.shown, reason };
      const answer = await act(approval.id, decision, body);
      this.hooks.done(`${approval.tool}: ${decision === "deny" ? "denied" : "approved"}`, answer);
    };
  }
}
