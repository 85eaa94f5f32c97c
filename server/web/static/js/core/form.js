/**
 * What the forms in dialogs have in common: Ctrl Enter sends one, and the first Esc does not throw away what was typed.
 */

import { element } from "./dom.js";

/**
 * @param {HTMLDialogElement} dialog
 * @param {HTMLFormElement | null} form
 */
export function guardForm(dialog, form) {
  if (form === null) return;
  const note = element("p", { role: "status", hidden: true }, "What you typed is kept. Close once more to discard it.");
  form.append(note);
  form.addEventListener("input", () => {
    note.hidden = true;
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit();
  });
  dialog.addEventListener("cancel", (event) => {
    if (!note.hidden || ![...form.elements].some(isTyped)) return;
    event.preventDefault();
    note.hidden = false;
  });
}

/** @param {Element} field */
function isTyped(field) {
  const takesText = field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement;
  return takesText && field.value !== field.defaultValue;
}
