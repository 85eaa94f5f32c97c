/**
 * The pane beside the tree: one execution, its task and its answer, then what was said at three depths.
 */

import { answerElement, folded } from "./answer.js";
import { Conversation } from "./conversation.js";
import { DetailHead } from "./detail_head.js";
import { arrangeChildren, element, replaceChildren, setAttribute, setText } from "./dom.js";
import { isEnded, jsonText } from "./format.js";
import { textBlock } from "./text_block.js";
import { rawElements, transcriptElements } from "./transcript.js";

/** @import {Execution, Source, Timeline} from "../types.js" */
/** @import {TreeEntry, TreeStore} from "./store.js" */
/** @import {Depth} from "./transcript.js" */

const TABS = /** @type {const} */ (["messages", "turns", "raw"]);
const TAB_WORDS = { messages: "Messages", turns: "Turns", raw: "Raw" };

/**
 * @typedef {import("./detail_head.js").HeadHooks & {
 *   depth: (depth: Depth) => void,
 *   loaded: (execution: Execution) => void,
 * }} DetailHooks
 */

export class Detail {
  /**
   * @param {Source} source
   * @param {TreeStore} store
   * @param {DetailHooks} hooks
   */
  constructor(source, store, hooks) {
    this.source = source;
    this.store = store;
    this.hooks = hooks;
    /** @type {Depth} */
    this.depth = "messages";
    /** @type {TreeEntry | null} */
    this.entry = null;
    /** @type {Execution | null} */
    this.execution = null;
    /** @type {Conversation | null} */
    this.conversation = null;
    /** @type {Timeline | null} */
    this.timeline = null;
    /** @type {Record<string, unknown> | null} */
    this.plan = null;
    this.earlier = 0;
    this.busy = false;
    this.again = false;
    this.follows = true;
    /** @type {string | null} */
    this.sought = null;
    /** @type {Map<string, {said: string, made: HTMLElement}>} the messages that have elements */
    this.kept = new Map();
    this.top = new DetailHead(source, store, hooks);
    this.answer = element("div", { class: "x-detail-answer" });
    this.voice = element("p", { class: "x-voice", hidden: true, "data-voice": "" });
    this.content = element("div", {
      class: "x-transcript",
      role: "tabpanel",
      tabindex: 0,
      "aria-label": "Conversation",
    });
    this.tabs = element("div", { class: "x-tabs", role: "tablist", "aria-label": "Depth of detail" });
    for (const name of TABS) {
      const attributes = { type: "button", role: "tab", "data-depth": name, onclick: () => this.setDepth(name) };
      this.tabs.append(element("button", attributes, TAB_WORDS[name]));
    }
    this.element = element("section", {
      class: "x-detail",
      "aria-label": "Detail",
      "data-detail": "",
      "data-state": "loading",
    });
    this.element.append(
      element("h2", { class: "x-unseen" }, "Detail"),
      this.top.element,
      this.answer,
      this.tabs,
      this.content,
      this.voice,
    );
    this.element.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.element;
      this.follows = scrollHeight - scrollTop - clientHeight < 40 && scrollTop > 0;
    });
    this.markTabs();
  }

  markTabs() {
    for (const tab of this.tabs.children) {
      const chosen = tab.getAttribute("data-depth") === this.depth;
      setAttribute(tab, "aria-selected", String(chosen));
      setAttribute(tab, "tabindex", chosen ? 0 : -1);
    }
  }

  /** @param {Depth} depth */
  setDepth(depth) {
    if (depth === this.depth) return;
    this.depth = depth;
    this.kept.clear();
    this.markTabs();
    this.hooks.depth(depth);
    if (depth === "raw") this.load();
    this.drawContent();
  }

  /**
   * @param {TreeEntry} entry
   * @param {string | null} [call] the call to show
   */
  show(entry, call = null) {
    this.sought = call;
    if (call !== null && this.depth !== "turns") {
      this.depth = "turns";
      this.kept.clear();
      this.markTabs();
      this.hooks.depth("turns");
    }
    if (this.entry?.node.id === entry.node.id) {
      this.drawContent();
      return;
    }
    this.entry = entry;
    this.execution = null;
    this.timeline = null;
    this.plan = null;
    this.earlier = 0;
    this.follows = false;
    this.kept.clear();
    this.conversation = new Conversation(this.source, entry.node.id);
    this.element.scrollTop = 0;
    this.element.dataset.state = "loading";
    this.element.dataset.execution = entry.node.id;
    setAttribute(this.element, "data-top", entry.parent === null);
    replaceChildren(this.answer);
    replaceChildren(this.content, element("p", { class: "x-muted" }, "Loading …"));
    this.drawHead();
    this.load();
  }

  /** Brings what is shown up to date; while an answer is awaited, once more after it. */
  async load() {
    if (this.busy) {
      this.again = true;
      return;
    }
    const { entry, conversation } = this;
    if (entry === null || conversation === null) return;
    this.busy = true;
    const { id } = entry.node;
    try {
      const wanted = this.source.plan !== null && /plan|iterat/.test(entry.node.strategy);
      const [execution, , timeline, plan] = await Promise.all([
        this.source.execution(id),
        conversation.refresh(),
        this.depth === "raw" ? this.source.timeline(id) : null,
        wanted ? (this.source.plan?.(id) ?? null) : null,
      ]);
      if (this.entry?.node.id === id) {
        Object.assign(this, { execution, timeline: timeline ?? this.timeline, plan });
        this.element.dataset.state = "ready";
        this.hooks.loaded(execution);
        this.drawAll();
      }
    } catch (failure) {
      if (this.entry?.node.id === id && this.execution === null) this.fail(failure);
    } finally {
      this.busy = false;
      if (this.again || this.entry?.node.id !== id) {
        this.again = false;
        this.load();
      }
    }
  }

  /** @param {unknown} failure */
  fail(failure) {
    this.element.dataset.state = "error";
    const words = failure instanceof Error ? failure.message : "it cannot be loaded";
    const again = element("button", { type: "button", onclick: () => this.load() }, "Try again");
    replaceChildren(this.content, element("p", { class: "x-error", role: "alert" }, words), again);
  }

  drawAll() {
    const { entry, execution } = this;
    if (entry === null || execution === null) return;
    this.drawHead();
    // The answer of the execution of the page stands above, in its head.
    const parts = [entry.parent === null ? null : answerElement(entry, execution, this.hooks)];
    if (this.plan !== null) parts.push(folded("Plan", textBlock(jsonText(this.plan))));
    replaceChildren(
      this.answer,
      ...parts,
      element("div", { class: "x-task-text" }, textBlock(execution.task, { make: taskElement })),
    );
    this.drawContent();
  }

  drawHead() {
    const { entry, execution } = this;
    if (entry !== null) this.top.draw(entry, execution);
  }

  drawContent() {
    const { conversation, execution, depth } = this;
    if (conversation === null || execution === null) return;
    const hooks = {
      source: this.source,
      go: (/** @type {string} */ id) => this.hooks.go(id),
      above: new Map([
        [`assistant ${String(execution.result?.output ?? "").trim()}`, "The answer, as above"],
        [`user ${execution.task.trim()}`, "The task, as above"],
      ]),
      shown: this.earlier,
      kept: (/** @type {string} */ key, /** @type {unknown} */ from, /** @type {() => HTMLElement} */ make) =>
        this.keep(key, from, make),
      showMore: () => {
        this.earlier += 30;
        this.drawContent();
      },
      loadMore: () =>
        conversation.more().then(
          () => this.drawContent(),
          (failure) => this.fail(failure),
        ),
    };
    const made =
      depth === "raw"
        ? rawElements(execution, conversation, this.timeline)
        : transcriptElements(conversation, depth, hooks);
    const row = this.content.contains(document.activeElement) ? document.activeElement?.closest("[data-row]") : null;
    arrangeChildren(this.content, made);
    if (row && !row.isConnected) this.cardOf(row.getAttribute("data-row"))?.querySelector("summary")?.focus();
    this.seek();
    this.drawVoice();
  }

  /**
   * The element of a message: one that says the same stays, with its focus and what is open in it.
   * @param {string} key
   * @param {unknown} from
   * @param {() => HTMLElement} make
   */
  keep(key, from, make) {
    const said = JSON.stringify(from);
    const known = this.kept.get(key);
    if (known?.said === said) return known.made;
    const made = make();
    this.kept.set(key, { said, made });
    const open = known?.made.querySelectorAll("details[open][data-row]") ?? [];
    for (const card of open) {
      const again = made.querySelector(`details[data-row="${CSS.escape(card.getAttribute("data-row") ?? "")}"]`);
      if (again instanceof HTMLDetailsElement) again.open = true;
    }
    return made;
  }

  /** Shows the call that was asked for, once it is here. */
  seek() {
    const { sought } = this;
    if (sought === null) return;
    const found = this.cardOf(sought);
    if (found === undefined) return;
    this.sought = null;
    if (found instanceof HTMLDetailsElement) found.open = true;
    found.classList.add("x-brief");
    found.scrollIntoView({ block: "center" });
    if (found instanceof HTMLElement) setTimeout(() => found.classList.remove("x-brief"), 2000);
  }

  /** @param {string | null} call its id, or that of its row */
  cardOf(call) {
    return [...this.content.querySelectorAll("[data-call]")].find(
      (each) => each.getAttribute("data-call") === call || each.getAttribute("data-row") === call,
    );
  }

  /** What the model says at this moment. */
  drawVoice() {
    const { entry } = this;
    const said = entry === null || isEnded(entry.node.status) ? "" : (this.store.voices.get(entry.node.id) ?? "");
    this.voice.hidden = said === "" || this.depth === "raw";
    setText(this.voice, said.slice(-4000));
    if (this.follows) this.element.scrollTop = this.element.scrollHeight;
  }
}

/** @param {string} text */
function taskElement(text) {
  return element("p", { class: "x-plain" }, text);
}
