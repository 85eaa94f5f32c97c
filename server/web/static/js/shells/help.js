/**
 * All keys of the dashboard, from the tables that the code reads too.
 */

import { element } from "../core/dom.js";
import { KEYS } from "../core/keys.js";
import { openDialog } from "./dialogs.js";
import { SHELL_KEYS } from "./keys.js";

/** @typedef {{title: string, keys: {keys: string[], words: string}[]}} KeyGroup */

export function openHelp() {
  if (document.querySelector("dialog[open]") !== null) return;
  const page = {
    title: "On an execution",
    keys: KEYS.map(({ shown, does }) => ({ keys: shown.split(" "), words: does })),
  };
  const groups = [...SHELL_KEYS, page].map(({ title, keys }) =>
    element(
      "section",
      {},
      element("h3", {}, title),
      element(
        "ul",
        {},
        ...keys.map((each) =>
          element(
            "li",
            {},
            element("span", {}, each.words),
            element("span", {}, ...each.keys.map((key) => element("kbd", {}, key))),
          ),
        ),
      ),
    ),
  );
  openDialog(
    "Keyboard shortcuts",
    { name: "help", wide: true },
    element("div", { class: "dialog-body shortcuts" }, ...groups),
  ).focus();
}
