/**
 * A console for read-only SQL, with the schema beside it.
 */

import { append, element, replaceChildren, setText } from "../../core/dom.js";
import { errorWords } from "../../sources/api.js";
import { isTyping } from "../keys.js";
import { remember, remembered } from "../memory.js";
import { actionButton, pageHead, skeleton } from "../parts.js";
import { resultParts } from "./sql_result.js";

/** @import {QueryAnswer, Schema} from "../../types_pages.js" */
/** @import {Route} from "../router.js" */
/** @import {MountPage, Page, Shell} from "../shell.js" */

const FIRST =
  "SELECT agent, status, count(*) AS executions, round(sum(cost_usd), 4) AS cost_usd\nFROM executions\nGROUP BY agent, status\nORDER BY executions DESC";
/** @type {{title: string, sql: string}[]} */
const NONE_SAVED = [];

/** @type {MountPage} */
export function mountSql(place, shell, route) {
  return new SqlPage(place, shell, route);
}

/** @implements {Page} */
class SqlPage {
  /**
   * @param {HTMLElement} place
   * @param {Shell} shell
   * @param {Route} route
   */
  constructor(place, shell, route) {
    this.place = place;
    this.shell = shell;
    this.ended = new AbortController();
    this.asked = 0;
    /** @type {{title: string, sql: string}[]} */
    this.examples = [];
    this.editor = element("textarea", {
      class: "input sql-editor",
      name: "sql",
      rows: "8",
      spellcheck: "false",
      autocapitalize: "off",
      "aria-label": "SQL",
      "aria-keyshortcuts": "Control+Enter",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.pressed(event),
    });
    this.chosen = element("select", {
      class: "input",
      "aria-label": "Queries",
      name: "saved",
      onchange: () => this.choose(),
    });
    this.forget = actionButton("forget", "Forget", () => this.forgotten(), { kind: "quiet" });
    this.forget.hidden = true;
    const run = actionButton("run", "Run", () => void this.run(), { kind: "primary" });
    run.append(element("kbd", { class: "on-accent" }, "Ctrl ↵"));
    this.result = element("section", { class: "sql-result", "aria-label": "Result", "aria-live": "polite" });
    this.schema = element("aside", { class: "card sql-schema", "aria-label": "Schema" }, skeleton(8, 26));
    this.note = element("span", { class: "faint push" });
    shell.title("SQL");
    append(place, [
      pageHead("SQL", element("span", { class: "soft" }, "Read-only, over the tables and views of this database.")),
      element(
        "div",
        { class: "sql-page" },
        element(
          "div",
          { class: "stack" },
          element(
            "div",
            { class: "card sql-card" },
            this.editor,
            element(
              "div",
              { class: "row wrap sql-bar" },
              run,
              this.chosen,
              actionButton("save", "Save", () => this.save()),
              this.forget,
              this.note,
            ),
          ),
          this.result,
        ),
        this.schema,
      ),
    ]);
    this.drawSaved();
    if (!shell.session.reads_all) {
      place.dataset.state = "error";
      replaceChildren(place, pageHead("SQL"), notAllowed());
      return;
    }
    this.visit(route);
    void this.learn();
  }

  destroy() {
    this.ended.abort();
  }

  /** @param {Route} route */
  visit({ query }) {
    const sql = query.get("sql");
    this.editor.value = sql ?? this.editor.value ?? "";
    if (sql !== null) return void this.run();
    if (this.editor.value === "") this.editor.value = remembered("sql", FIRST);
    this.showNothing();
  }

  /**
   * @param {string} key
   * @param {KeyboardEvent} event
   */
  key(key, event) {
    if (key !== "/" || isTyping(event.target)) return false;
    this.editor.focus();
    return true;
  }

  showNothing(words = "Rows appear here. Ids of executions lead to their pages.") {
    this.asked += 1;
    this.place.dataset.state = "ready";
    replaceChildren(this.result, element("p", { class: "vacant soft" }, words));
  }

  async learn() {
    try {
      /** @type {Schema} */
      const schema = await this.shell.ask("/sql/schema", this.ended.signal);
      this.examples = schema.examples;
      setText(this.note, `at most ${schema.row_limit.toLocaleString("en-US")} rows`);
      this.drawSaved();
      replaceChildren(
        this.schema,
        element("h2", {}, "Schema"),
        ...schema.relations.map((relation) => this.relation(relation)),
      );
    } catch (failure) {
      replaceChildren(this.schema, element("p", { class: "soft" }, errorWords(failure).message));
    }
  }

  /** @param {Schema["relations"][number]} relation */
  relation({ name, kind, columns }) {
    const insert = (/** @type {string} */ words) =>
      element(
        "button",
        { class: "schema-name", type: "button", title: `Insert ${words}`, onclick: () => this.insert(words) },
        words,
      );
    return element(
      "details",
      { "data-relation": name },
      element("summary", {}, element("code", {}, name), kind === "view" && element("span", { class: "chip" }, "view")),
      element("div", { class: "schema-columns" }, insert(name), ...columns.map(insert)),
    );
  }

  /** @param {string} words */
  insert(words) {
    const { selectionStart, selectionEnd, value } = this.editor;
    const before = value.slice(0, selectionStart);
    const space = before === "" || /[\s(.,]$/.test(before) ? "" : " ";
    this.editor.setRangeText(space + words, selectionStart, selectionEnd, "end");
    this.editor.focus();
  }

  saved() {
    return remembered("queries", NONE_SAVED).filter(
      (each) => typeof each?.sql === "string" && typeof each?.title === "string",
    );
  }

  /** @param {string} [value] what is chosen; examples may arrive after the reader has chosen */
  drawSaved(value = this.chosen.value) {
    const saved = this.saved();
    const option = (/** @type {string} */ kind) => (/** @type {{title: string}} */ each, /** @type {number} */ index) =>
      element("option", { value: `${kind}:${index}` }, each.title);
    replaceChildren(
      this.chosen,
      element("option", { value: "" }, "Queries…"),
      saved.length > 0 && element("optgroup", { label: "Yours" }, ...saved.map(option("saved"))),
      this.examples.length > 0 && element("optgroup", { label: "Examples" }, ...this.examples.map(option("example"))),
    );
    this.chosen.value = value;
    this.forget.hidden = !value.startsWith("saved");
  }

  choose() {
    const [kind, index] = this.chosen.value.split(":");
    const query = (kind === "saved" ? this.saved() : this.examples)[Number(index)];
    this.forget.hidden = kind !== "saved";
    if (query === undefined || kind === "") return;
    this.editor.value = query.sql;
    void this.run();
  }

  save() {
    const sql = this.editor.value.trim();
    if (sql === "") return;
    const title = sql.replace(/\s+/g, " ").slice(0, 60);
    remember("queries", [{ title, sql }, ...this.saved().filter((each) => each.sql !== sql)].slice(0, 50));
    this.drawSaved("saved:0");
    this.shell.toast("Query saved in this browser", { tone: "ok" });
  }

  forgotten() {
    const saved = this.saved();
    saved.splice(Number(this.chosen.value.split(":")[1]), 1);
    remember("queries", saved);
    this.drawSaved("");
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void this.run();
    } else if (event.key === "Escape") this.editor.blur();
  }

  async run() {
    const sql = this.editor.value.trim();
    if (sql === "") return this.showNothing("The query is empty. Write a select, or choose one of the queries.");
    const asked = ++this.asked;
    remember("sql", sql);
    this.shell.router.say({ sql });
    this.place.dataset.state = "loading";
    this.result.setAttribute("aria-busy", "true");
    try {
      /** @type {QueryAnswer} */
      const answer = await this.shell.api.post("/sql", { sql });
      if (asked !== this.asked || this.ended.signal.aborted) return;
      this.place.dataset.state = answer.rows.length === 0 ? "empty" : "ready";
      replaceChildren(this.result, ...resultParts(this.shell, answer));
    } catch (failure) {
      if (asked !== this.asked || this.ended.signal.aborted) return;
      this.place.dataset.state = "error";
      const { message, hint } = errorWords(failure);
      replaceChildren(
        this.result,
        element(
          "div",
          { class: "banner failure", "data-tone": "bad", role: "alert" },
          element("pre", {}, message),
          hint !== "" && element("p", { class: "hint" }, hint),
        ),
      );
    } finally {
      this.result.removeAttribute("aria-busy");
    }
  }
}

function notAllowed() {
  return element(
    "section",
    { class: "card vacant" },
    element("h2", {}, "SQL reads the executions of all callers"),
    element(
      "p",
      {},
      "Your token does not allow that. It needs the scope ",
      element("code", {}, "executions:read_all"),
      ".",
    ),
  );
}
