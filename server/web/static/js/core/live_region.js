/**
 * What is told to readers who do not see the page: one polite region, not more often than they can listen.
 */

import { element, setText } from "./dom.js";

const PAUSE = 3000;

export class LiveRegion {
  constructor() {
    this.element = element("div", { class: "x-unseen", role: "status", "aria-live": "polite", "data-said": "" });
    this.next = "";
    this.silentUntil = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /**
   * Says words; if it has just spoken, later, and then only the newest.
   * @param {string} words
   */
  say(words) {
    this.next = words;
    if (this.timer !== undefined) return;
    const wait = this.silentUntil - Date.now();
    if (wait <= 0) this.speak();
    else this.timer = setTimeout(() => this.speak(), wait);
  }

  speak() {
    this.timer = undefined;
    this.silentUntil = Date.now() + PAUSE;
    setText(this.element, this.next);
  }

  destroy() {
    clearTimeout(this.timer);
  }
}
