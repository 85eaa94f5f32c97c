/**
 * Dialogs over the page: what they have in common.
 */

import { append, element } from "../core/dom.js";
import { guardForm } from "../core/form.js";
import { actionButton } from "./parts.js";

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
          "span",
          { class: "push" },
          actionButton("close", "✕", close, { kind: "quiet", size: "small", label: "Close" }),
        ),
    ),
  );
  append(dialog, children);
  dialog.addEventListener("cancel", (event) => !closable && event.preventDefault());
  guardForm(dialog, dialog.querySelector("form"));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog && dialog.dispatchEvent(new Event("cancel", { cancelable: true }))) close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    onclose?.();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
