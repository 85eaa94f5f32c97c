/**
 * The dot that tells how the event stream does: live with its rate, reconnecting, caught up.
 */

import { element, setAttribute, setText } from "../core/dom.js";

const WINDOW = 5;

export class LiveState {
  constructor() {
    this.words = element("span", {});
    this.element = element(
      "span",
      { class: "live", hidden: true },
      element("span", { class: "live-dot", "aria-hidden": "true" }),
      this.words,
    );
    /** @type {number[]} events of each of the last seconds */
    this.seconds = Array(WINDOW).fill(0);
    this.state = "";
    this.tries = 0;
    /** @type {ReturnType<typeof setInterval> | undefined} */
    this.timer = undefined;
  }

  /**
   * @param {"live" | "reconnecting" | "caught_up" | "ended"} state
   * @param {number} tries
   */
  show(state, tries) {
    this.state = state;
    this.tries = tries;
    this.timer ??= setInterval(() => this.second(), 1000);
    this.element.hidden = false;
    setAttribute(this.element, "data-live", true);
    setAttribute(this.element, "data-state", state);
    this.say();
  }

  hide() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.state = "";
    this.element.hidden = true;
    setAttribute(this.element, "data-live", null);
    setAttribute(this.element, "data-state", null);
  }

  heard() {
    this.seconds[0] = (this.seconds[0] ?? 0) + 1;
  }

  second() {
    this.say();
    this.seconds.pop();
    this.seconds.unshift(0);
  }

  say() {
    const sum = this.seconds.reduce((all, each) => all + each, 0);
    const rate = Math.ceil(sum / WINDOW);
    if (this.state === "live")
      setText(this.words, sum === 0 ? "live" : `live · ${rate} event${rate === 1 ? "" : "s"}/s`);
    else if (this.state === "reconnecting") setText(this.words, `reconnecting (${this.tries})`);
    else setText(this.words, this.state === "caught_up" ? "caught up" : this.state);
  }
}
