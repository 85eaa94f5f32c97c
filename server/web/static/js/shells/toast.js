/**
 * Short messages over the page. They go by themselves, except those that report a failure.
 */

import { element } from "../core/dom.js";
import { actionButton } from "./parts.js";

/** @import {Toast} from "./shell.js" */

const SHOWN = 6_000;
const MOST = 4;

/**
 * @param {HTMLElement} place
 * @param {string} words
 * @param {Toast} [more]
 */
export function showToast(place, words, { tone = "plain", hint = "", link } = {}) {
  const close = () => toast.remove();
  const toast = element(
    "div",
    { class: "toast", "data-toast": tone, role: tone === "bad" ? "alert" : "status" },
    element(
      "div",
      { class: "toast-words" },
      element("p", {}, words),
      hint !== "" && element("p", { class: "soft" }, hint),
      link !== undefined && element("a", { href: link.href }, link.words),
    ),
    actionButton("dismiss", "✕", close, { kind: "quiet", size: "small", label: "Dismiss" }),
  );
  place.append(toast);
  while (place.childElementCount > MOST) place.firstElementChild?.remove();
  if (tone === "bad") return;
  let timer = setTimeout(close, SHOWN);
  toast.addEventListener("mouseenter", () => clearTimeout(timer));
  toast.addEventListener("mouseleave", () => {
    timer = setTimeout(close, SHOWN / 2);
  });
}
