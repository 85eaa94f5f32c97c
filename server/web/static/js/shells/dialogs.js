/**
 * Dialogs over the page: what they have in common, and the question before something that cannot be undone.
 */

import { append, element } from "../core/dom.js";

/** @import {Child} from "../core/dom.js" */

/**
 * Opens a modal dialog, and removes it when it closes; the focus goes back to where it was.
 * @param {string} title
 * @param {{name: string, wide?: boolean, closable?: boolean, onclose?: () => void}} how
 * @param {Child[]} children
 */
export function openDialog(title, { name, wide = false, closable = true, onclose }, ...children) {
  const before = document.activeElement;
  const close = () => dialog.close();
  const dialog = element(
    "dialog",
    { "data-dialog": name, "data-wide": wide, "aria-label": title },
    element(
      "div",
      { class: "dialog-head" },
      element("h2", {}, title),
      closable &&
        element(
          "button",
          {
            class: "button push",
            "data-kind": "quiet",
            "data-size": "small",
            type: "button",
            onclick: close,
            "aria-label": "Close",
          },
          "✕",
        ),
    ),
  );
  append(dialog, children);
  dialog.addEventListener("cancel", (event) => !closable && event.preventDefault());
  dialog.addEventListener("click", (event) => closable && event.target === dialog && close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    onclose?.();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * @typedef {object} Question
 * @property {string} title
 * @property {string[] | Promise<string[]>} words what will happen, a sentence each
 * @property {string} act what the button says
 * @property {"danger" | "primary"} [kind]
 * @property {string} [reason] asks for a reason under this label
 */

/**
 * Asks before something is done.
 * @param {Question} question
 * @returns {Promise<{reason: string} | null>} null: the reader has changed their mind
 */
export function confirmAction({ title, words, act, kind = "danger", reason }) {
  return new Promise((answer) => {
    /** @type {{reason: string} | null} */
    let answered = null;
    const list = element("ul", { class: "consequences" });
    const field = element("input", { class: "input", maxlength: "500", name: "reason", autocomplete: "off" });
    const confirm = element("button", { class: "button", "data-kind": kind, "data-action": "confirm" }, act);
    /** @param {SubmitEvent} event */
    const submitted = (event) => {
      event.preventDefault();
      answered = { reason: field.value.trim() };
      dialog.close();
    };
    const form = element(
      "form",
      { class: "dialog-body", onsubmit: submitted },
      list,
      reason !== undefined && element("label", { class: "field" }, reason, field),
      element(
        "div",
        { class: "dialog-foot" },
        element("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Back"),
        confirm,
      ),
    );
    const dialog = openDialog(title, { name: "confirm", onclose: () => answer(answered) }, form);
    confirm.focus();
    void Promise.resolve(words).then(
      (sentences) =>
        append(
          list,
          sentences.map((sentence) => element("li", {}, sentence)),
        ),
      () => append(list, [element("li", {}, "What it will change is not known: the server does not say.")]),
    );
  });
}
