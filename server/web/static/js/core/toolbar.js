/**
 * Above the tree: the search, and buttons for what keys do.
 */

import { element, setAttribute, setText } from "./dom.js";
import { keyHelp } from "./keys.js";

export class Toolbar {
  /** @param {{search: (query: string) => void, command: (name: string) => void}} hooks */
  constructor(hooks) {
    this.search = element("input", {
      type: "search",
      class: "x-search",
      placeholder: "Search  /",
      "aria-label": "Search the tree",
    });
    this.search.addEventListener("input", () => hooks.search(this.search.value));
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Escape" || event.key === "Enter") {
        if (event.key === "Escape") this.search.value = "";
        hooks.search(this.search.value);
        hooks.command(event.key === "Enter" ? "match" : "focus");
        event.preventDefault();
        event.stopPropagation();
      }
    });
    this.found = element("span", { class: "x-found", "data-found-count": "" });
    this.follow = toolButton("Follow", "follow", "follow what happens (f)", hooks.command);
    this.element = element(
      "div",
      { class: "x-toolbar", role: "toolbar", "aria-label": "Tree" },
      this.search,
      this.found,
      this.follow,
      toolButton("−", "collapse-all", "collapse all ([)", hooks.command),
      toolButton("+", "expand-all", "expand all (])", hooks.command),
      toolButton("Fit", "fit", "fit the whole time (z)", hooks.command),
      toolButton("?", "help", "keys (?)", hooks.command),
    );
  }

  /** @param {boolean} on */
  showFollow(on) {
    setAttribute(this.follow, "aria-pressed", String(on));
  }

  /**
   * @param {number | null} number
   */
  showFound(number) {
    setText(this.found, number === null ? "" : number === 0 ? "nothing found" : `${number} found`);
  }
}

/**
 * @param {string} words
 * @param {string} command
 * @param {string} title
 * @param {(name: string) => void} does
 */
function toolButton(words, command, title, does) {
  return element(
    "button",
    { type: "button", "data-command": command, title, "aria-label": title, onclick: () => does(command) },
    words,
  );
}

/** Shows the table of keys. */
export function showKeys() {
  const close = element("button", { type: "submit" }, "Close");
  const form = element("form", { method: "dialog" }, element("h2", {}, "Keys"), keyHelp(), close);
  const dialog = element("dialog", { class: "x-dialog", "aria-label": "Keys", "data-dialog": "keys" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
