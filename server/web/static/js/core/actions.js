/**
 * What can be done to an execution. An action that reaches what is below says first what will happen there.
 */

import { element } from "./dom.js";
import { guardForm } from "./form.js";

/** @import {Source} from "../types.js" */

/** @typedef {{source: Source, done: (words: string, answer: Record<string, unknown>) => void, below?: boolean}} ActionHooks */

/**
 * @typedef {object} ActionLine
 * @property {string} name
 * @property {string} title
 * @property {string} [below] its title for an execution that another one dispatched
 * @property {string} [confirm] what the button says that does it, if not its title
 * @property {string} field the key of its text; empty: it takes none
 * @property {string} asks about its text
 * @property {boolean} [needed] it makes no sense without its text
 * @property {string} did
 */

/** @type {ActionLine[]} */
export const ACTIONS = [
  { name: "message", title: "Message", field: "text", asks: "What to tell it", needed: true, did: "message sent" },
  { name: "wrap-up", title: "Wrap up", field: "reason", asks: "Reason (optional)", did: "asked to wrap up" },
  {
    name: "cancel",
    title: "Cancel",
    confirm: "Cancel execution",
    field: "reason",
    asks: "Reason (optional)",
    did: "cancel requested",
  },
  { name: "resume", title: "Resume", field: "text", asks: "What to tell it (optional)", did: "resumed" },
  {
    name: "rerun",
    title: "Run again",
    below: "Run again from here",
    field: "task",
    asks: "Another task (optional)",
    did: "started again",
  },
];

/**
 * @param {string} id
 * @param {string} agent
 * @param {string[]} names the actions that make sense now
 * @param {ActionHooks} hooks
 * @returns {HTMLElement | null} null: nothing can be done
 */
export function actionButtons(id, agent, names, hooks) {
  if (hooks.source.act === null) return null;
  const buttons = ACTIONS.filter((each) => names.includes(each.name))
    .map((each) => (hooks.below ? { ...each, title: each.below ?? each.title } : each))
    .map((line) =>
      element(
        "button",
        { type: "button", "data-action": line.name, onclick: () => askFirst(line, id, agent, hooks) },
        line.title,
      ),
    );
  return element("div", { class: "x-actions", "data-actions": id }, ...buttons);
}

/**
 * Says what will happen, and does it when the reader agrees.
 * @param {ActionLine} line
 * @param {string} id
 * @param {string} agent
 * @param {ActionHooks} hooks
 */
export function askFirst(line, id, agent, hooks) {
  const { source, done } = hooks;
  const act = source.act;
  if (act === null) return;
  const text = element("textarea", { rows: line.needed ? 4 : 2, "aria-label": line.asks, placeholder: line.asks });
  const below = element("ul", { class: "x-consequences", "data-state": "loading" });
  const failure = element("p", { class: "x-error", role: "alert", hidden: true });
  const go = element(
    "button",
    { type: "submit", class: "x-primary", "data-confirm": line.name },
    line.confirm ?? line.title,
  );
  const back = element("button", { type: "button", onclick: () => dialog.close() }, "Back");
  const form = element(
    "form",
    { method: "dialog" },
    element("h2", {}, `${line.title}: ${agent}`),
    below,
    text,
    failure,
  );
  form.append(element("div", { class: "x-decision" }, back, go));
  const dialog = element(
    "dialog",
    { class: "x-dialog", "aria-label": `${line.title}: ${agent}`, "data-dialog": line.name },
    form,
  );
  const fail = (/** @type {unknown} */ refused) => {
    failure.hidden = false;
    const hint = refused instanceof Error && "hint" in refused && refused.hint ? ` (${refused.hint})` : "";
    failure.textContent = (refused instanceof Error ? refused.message : "it was refused") + hint;
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = text.value.trim();
    if (line.needed && said === "") {
      text.focus();
      return;
    }
    go.disabled = true;
    try {
      const answer = await act(id, line.name, said === "" || line.field === "" ? {} : { [line.field]: said });
      dialog.close();
      done(`${agent}: ${line.did}`, answer);
    } catch (refused) {
      fail(refused);
      go.disabled = false;
    }
  });
  guardForm(dialog, form);
  dialog.addEventListener("close", () => dialog.remove());
  tellConsequences(source, id, line.name, below);
  document.body.append(dialog);
  dialog.showModal();
  (line.needed ? text : line.name === "cancel" ? back : go).focus();
}

/**
 * @param {Source} source
 * @param {string} id
 * @param {string} action
 * @param {HTMLElement} below
 */
async function tellConsequences(source, id, action, below) {
  let words = ["what will happen below cannot be told now"];
  try {
    words = source.consequences === null ? [] : (await source.consequences(id, action)).words;
    below.dataset.state = "ready";
  } catch {
    below.dataset.state = "error";
  }
  below.replaceChildren(...words.map((each) => element("li", {}, each)));
}
