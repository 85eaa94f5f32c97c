/**
 * Two executions side by side: what they did alike, and what not.
 */

import { append, element, replaceChildren, setAttribute } from "../../core/dom.js";
import { isEnded } from "../../core/format.js";
import { ApiError, errorWords, withQuery } from "../../sources/api.js";
import { actionButton, load, pageHead } from "../parts.js";
import { ComparisonChoice } from "./compare_choice.js";
import { comparisonHead, pairRows } from "./compare_pairs.js";

/** @import {Child} from "../../core/dom.js" */
/** @import {ComparedPair, Comparison} from "../../types_pages.js" */
/** @import {Route} from "../router.js" */
/** @import {MountPage, Page, Shell} from "../shell.js" */

const FILTERS = [
  { name: "", words: "all" },
  { name: "changed", words: "changed" },
  { name: "same", words: "equal" },
  { name: "only_a", words: "only in A" },
  { name: "only_b", words: "only in B" },
];

/** @type {MountPage} */
export function mountCompare(place, shell, route) {
  return new ComparePage(place, shell, route);
}

/** @implements {Page} */
class ComparePage {
  /**
   * @param {HTMLElement} place
   * @param {Shell} shell
   * @param {Route} route
   */
  constructor(place, shell, route) {
    this.shell = shell;
    this.ended = new AbortController();
    this.filter = "";
    this.asked = "";
    /** @type {Comparison | null} */
    this.comparison = null;
    this.choice = new ComparisonChoice(shell, (sides) => this.choose(sides));
    this.body = element("div", { class: "stack" });
    shell.title("Compare");
    append(place, [pageHead("Compare"), this.choice.element, this.body]);
    this.visit(route);
  }

  destroy() {
    this.ended.abort();
    this.choice.destroy();
  }

  /** @param {Route} route */
  visit({ query }) {
    const sides = { a: query.get("a") ?? "", b: query.get("b") ?? "" };
    this.filter = FILTERS.find(({ name }) => name === query.get("show"))?.name ?? "";
    this.choice.show(sides);
    void this.show(sides);
  }

  /** @param {{a: string, b: string}} sides */
  choose(sides) {
    this.shell.router.say({ ...sides, show: null }, { push: true });
    this.filter = "";
    void this.show(sides);
  }

  /** @param {{a: string, b: string}} sides */
  async show({ a, b }) {
    if (a === "" || b === "") {
      delete this.body.dataset.state;
      replaceChildren(this.body, this.choice.list());
      this.body.dataset.state = "empty";
      return;
    }
    const path = withQuery("/compare", { a, b });
    if (path !== this.asked) delete this.body.dataset.state;
    this.asked = path;
    await load(
      this.body,
      () => /** @type {Promise<Comparison>} */ (this.shell.ask(path, this.ended.signal)).catch(unknownId),
      (comparison) => this.parts(comparison),
    );
  }

  /**
   * @param {Comparison} comparison
   * @returns {Child[]}
   */
  parts(comparison) {
    const { a, b, pairs, equal } = comparison;
    this.shell.title(`${a.short_id} and ${b.short_id}`);
    const rows = element("div", { class: "card pairs" });
    const count = (/** @type {string} */ name) => pairs.filter((pair) => name === "" || pair.change === name).length;
    const buttons = FILTERS.map(({ name, words }) => {
      const button = element(
        "button",
        {
          class: "button",
          "data-size": "small",
          type: "button",
          "data-show": name || "all",
          disabled: count(name) === 0,
        },
        words,
        " ",
        element("span", { class: "faint" }, count(name)),
      );
      button.addEventListener("click", () => {
        this.filter = name;
        this.shell.router.say({ show: name });
        draw();
      });
      return button;
    });
    const draw = () => {
      for (const button of buttons)
        setAttribute(button, "aria-pressed", String(button.dataset.show === (this.filter || "all")));
      replaceChildren(
        rows,
        ...pairRows(
          /** @type {ComparedPair[]} */ (pairs.filter((pair) => this.filter === "" || pair.change === this.filter)),
          comparison,
        ),
      );
    };
    draw();
    return [
      comparisonHead(comparison),
      !(isEnded(a.status) && isEnded(b.status)) &&
        element(
          "p",
          { class: "banner", "data-open": true },
          "Not both have ended: this is how they were when they were compared.",
          actionButton("again", "Compare again", () => void this.show({ a: a.id, b: b.id }), { size: "small" }),
        ),
      equal &&
        element(
          "p",
          { class: "banner", "data-equal": true },
          "Both trees did the same: the same agents, calls, statuses and answers.",
        ),
      element("div", { class: "row wrap", role: "group", "aria-label": "Show" }, ...buttons),
      rows,
    ];
  }
}

/**
 * Says to a person what to do about an id that means nothing here.
 * @param {unknown} failure
 * @returns {never}
 */
function unknownId(failure) {
  if (errorWords(failure).status !== 404) throw failure;
  const hint = "Copy an id from the page of an execution, or empty a field to choose from the recent executions.";
  throw new ApiError({ detail: "One of the two executions is not known here.", hint, status: 404 });
}
