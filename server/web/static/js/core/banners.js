/**
 * What is out of the ordinary, said above everything else, and only while it is so.
 */

import { element, keyedChildren, setAttribute, setText } from "./dom.js";
import { budgetsOf } from "./facts.js";
import { clockWords, countWords, isEnded, numberWords } from "./format.js";

/** @import {Execution} from "../types.js" */
/** @import {TreeEntry, TreeStore} from "./store.js" */

/** @typedef {{key: string, tone: "note" | "warn" | "bad", words: string, go: string, page: string}} Banner go: what it is about; page: another tree */
/** @typedef {{state: string, tries: number, upstreams: Map<string, string>}} StreamStanding */

/**
 * @param {TreeStore} store
 * @param {TreeEntry} entry the execution of the page
 * @param {Execution | null} execution
 * @param {StreamStanding} stream
 * @returns {Banner[]}
 */
export function bannersOf(store, entry, execution, stream) {
  const { node, sums } = entry;
  const active = !isEnded(node.status);
  /** @type {Banner[]} */
  const found = [];
  const say = (
    /** @type {string} */ key,
    /** @type {Banner["tone"]} */ tone,
    /** @type {string | false} */ words,
    go = "",
    page = "",
  ) => {
    if (words) found.push({ key, tone, words, go, page });
  };
  const earlier = node.continues_execution_id ?? "";
  say("continues", "note", earlier !== "" && `Continues ${ending(earlier)}.`, "", earlier);
  for (const { id } of execution?.continued_by ?? []) {
    say(`continued ${id}`, "note", `Continued by ${ending(id)}.`, "", id);
  }
  if (execution?.origin) {
    const { forked_from, at, kept } = execution.origin;
    say(
      "forked",
      "note",
      `Forked from ${ending(forked_from)} at ${ending(at)}; ${countWords(kept, "execution")} kept.`,
      "",
      forked_from,
    );
  }
  const tries = stream.tries > 1 ? ` (${stream.tries})` : "";
  say("reconnecting", "warn", stream.state === "reconnecting" && `The connection is lost. Reconnecting${tries} …`);
  say(
    "interrupted",
    "warn",
    active && node.owner_gone && "Interrupted: the process that ran it is gone. It can be resumed.",
  );
  for (const need of node.owner_gone ? (execution?.needs ?? []) : []) {
    say(`needs ${need.words}`, "bad", `This process cannot resume it: it needs ${need.words}. ${need.hint}`);
  }
  const written = store.writtenAt === null ? "" : clockWords(new Date(store.writtenAt).toISOString(), Date.now());
  say("written", "note", written !== "" && `It had not ended when this file was written: ${written}.`);
  const left = sums.running + sums.pending;
  say(
    "cancelling",
    "warn",
    active && node.cancel_requested && `Cancel requested: ${countWords(left, "execution")} still to stop.`,
  );
  const questions = store.approvals.length;
  say(
    "approval",
    "warn",
    questions > 0 &&
      `${countWords(questions, "call")} of this tree ${questions === 1 ? "waits" : "wait"} for a decision.`,
    store.approvals[0]?.execution_id ?? "",
  );
  say("children", "note", active && !node.owner_gone && node.waiting_for === "children" && "Waiting for its children.");
  for (const { name, part, words } of active ? budgetsOf(entry, execution, store.now()) : []) {
    say(
      `budget ${name}`,
      part >= 1 ? "bad" : "warn",
      part >= 0.8 && `${part >= 1 ? "Over" : "Near"} its ${name} limit: ${words}.`,
    );
  }
  say("attempt", "note", node.attempt > 1 && `Resumed after a crash: attempt ${node.attempt}.`);
  for (const [server, what] of stream.upstreams)
    say(`upstream ${server}`, "warn", `The upstream ${server} is ${what}.`);
  say("rehearsed", "note", (sums.pricing[3] ?? 0) > 0 && "Rehearsed: replies come from a script, no model was asked.");
  const shown = store.entries.size;
  const cut =
    store.truncated && `Only ${numberWords(shown)} of ${numberWords(store.executions)} executions are shown here.`;
  say("truncated", "warn", cut);
  for (const warning of execution?.warnings ?? []) say(`warning ${warning}`, "warn", warning);
  return found;
}

/** @param {string} id */
const ending = (id) => id.slice(-6);

/**
 * @param {HTMLElement} parent
 * @param {Banner[]} banners
 * @param {(id: string) => void} go
 * @param {(id: string, words: string) => HTMLElement | null} link to another tree
 */
export function showBanners(parent, banners, go, link) {
  keyedChildren(parent, banners, {
    key: (banner) => `${banner.key} ${banner.go}`,
    make: (banner) => {
      const show = element("button", { type: "button", class: "x-link", onclick: () => go(banner.go) }, "Show");
      const parts = [element("span"), " ", banner.go !== "" && show, banner.page !== "" && link(banner.page, "Show")];
      return element("p", { class: "x-banner", "data-banner": banner.key.split(" ")[0] ?? "" }, ...parts);
    },
    update: (made, banner) => {
      setAttribute(made, "data-tone", banner.tone);
      if (made.firstElementChild !== null) setText(made.firstElementChild, banner.words);
    },
  });
}
