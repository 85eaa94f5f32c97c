/**
 * Keys of the dashboard: sequences, and who gets a key. A key that a field needs never leaves the field.
 */

/** @import {Page} from "./shell.js" */

/** @type {Record<string, string>} the second key of `g …` */
const PLACES = { e: "/", a: "/agents", u: "/usage", c: "/compare", s: "/sql" };
const SEQUENCE = 1_200;

/** @type {import("./help.js").KeyGroup[]} */
export const SHELL_KEYS = [
  {
    title: "Everywhere",
    keys: [
      { keys: ["Ctrl K"], words: "go to a page or an execution, start an agent" },
      { keys: ["g e"], words: "executions" },
      { keys: ["g a"], words: "agents and configuration" },
      { keys: ["g u"], words: "usage" },
      { keys: ["g c"], words: "compare" },
      { keys: ["g s"], words: "SQL" },
      { keys: ["/"], words: "search" },
      { keys: ["?"], words: "this list" },
    ],
  },
  {
    title: "In the list of executions",
    keys: [
      { keys: ["j", "k"], words: "next, previous" },
      { keys: ["Space"], words: "look into it" },
      { keys: ["Enter"], words: "open" },
      { keys: ["x"], words: "cancel; asks first" },
      { keys: ["."], words: "show what is new" },
      { keys: ["Esc"], words: "close the look" },
    ],
  },
  { title: "In SQL", keys: [{ keys: ["Ctrl ↵"], words: "run the query" }] },
];

/** @typedef {{palette: () => void, help: () => void, go: (href: string) => void}} KeyActions */

export class Keys {
  /**
   * @param {() => Page | null} page
   * @param {KeyActions} actions
   */
  constructor(page, actions) {
    this.page = page;
    this.actions = actions;
    this.going = 0;
  }

  start() {
    document.addEventListener("keydown", (event) => {
      if (!event.defaultPrevented && this.took(event)) event.preventDefault();
    });
  }

  /** @param {KeyboardEvent} event */
  took(event) {
    if (event.isComposing || document.querySelector("dialog[open]") !== null) return false;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      this.actions.palette();
      return true;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return false;
    const going = Date.now() - this.going < SEQUENCE;
    this.going = 0;
    const place = PLACES[event.key];
    if (going && place !== undefined) {
      this.actions.go(place);
      return true;
    }
    if (event.key === "g") {
      this.going = Date.now();
      return true;
    }
    if (event.key === "?") {
      this.actions.help();
      return true;
    }
    return this.page()?.key?.(event.key, event) ?? false;
  }
}

/**
 * Whether a key belongs to the field that has the focus.
 * @param {EventTarget | null} target
 */
export function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["button", "checkbox", "radio", "submit"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}
