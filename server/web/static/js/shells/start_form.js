/**
 * The form that starts an agent or a chain: its task, the input that it declares, and what it may cost.
 */

import { element, replaceChildren, setText } from "../core/dom.js";
import { errorWords } from "../sources/api.js";
import { openDialog } from "./dialogs.js";
import { executionHref } from "./router.js";
import { fieldsOf, inputOf } from "./schema_fields.js";

/** @import {Agents, AgentSpec, ChainSpec} from "../types_pages.js" */
/** @import {SchemaField} from "./schema_fields.js" */
/** @import {Shell} from "./shell.js" */

/**
 * @param {Shell} shell
 * @param {string} [name] of the agent or chain to begin with
 */
export async function openStart(shell, name = "") {
  const agents = await shell.ask("/agents");
  new StartForm(shell, /** @type {Agents} */ (agents), name);
}

class StartForm {
  /**
   * @param {Shell} shell
   * @param {Agents} known
   * @param {string} name
   */
  constructor(shell, known, name) {
    this.shell = shell;
    /** @type {Map<string, AgentSpec | ChainSpec>} */
    this.known = new Map([...known.chains, ...known.agents].map((each) => [each.name, each]));
    this.key = freshKey();
    /** @type {SchemaField[] | null} */
    this.fields = null;
    this.choice = this.makeChoice(known, name);
    this.about = element("p", { class: "soft start-about" });
    this.task = element("textarea", {
      class: "input",
      name: "task",
      rows: "4",
      placeholder: "What should it find out or do?",
    });
    this.inputs = element("div", { class: "start-inputs" });
    this.budget = element("input", {
      class: "input",
      name: "budget_usd",
      inputmode: "decimal",
      placeholder: "no limit",
    });
    this.timeout = element("input", {
      class: "input",
      name: "timeout_seconds",
      inputmode: "numeric",
      placeholder: "as configured",
    });
    this.refused = element("p", { class: "login-refused", role: "alert" });
    this.submit = element("button", { class: "button", "data-kind": "primary", "data-action": "start" }, "Start");
    const form = element(
      "form",
      { class: "dialog-body", onsubmit: (/** @type {SubmitEvent} */ event) => void this.submitted(event) },
      element(
        "div",
        { class: "field" },
        element("label", { for: "start-name" }, "Agent or chain"),
        this.choice,
        this.about,
      ),
      element("label", { class: "field" }, "Task", this.task),
      this.inputs,
      element(
        "div",
        { class: "field-pair" },
        element("label", { class: "field" }, "Budget in US dollars", this.budget),
        element("label", { class: "field" }, "Timeout in seconds", this.timeout),
      ),
      this.refused,
      element("div", { class: "dialog-foot" }, this.submit),
    );
    this.dialog = openDialog("Start an execution", { name: "start" }, form);
    this.chosen();
    if (name === "") this.choice.focus();
    else this.task.focus();
  }

  /**
   * @param {Agents} known
   * @param {string} name
   */
  makeChoice(known, name) {
    const option = (/** @type {{name: string}} */ each) =>
      element("option", { value: each.name, selected: each.name === name }, each.name);
    return element(
      "select",
      { class: "input", id: "start-name", name: "name", onchange: () => this.chosen() },
      known.chains.length > 0 && element("optgroup", { label: "Chains" }, ...known.chains.map(option)),
      element("optgroup", { label: "Agents" }, ...known.agents.map(option)),
    );
  }

  chosen() {
    const spec = this.known.get(this.choice.value);
    setText(this.about, spec?.description ?? "");
    const schema = spec !== undefined && "input_schema" in spec ? spec.input_schema : null;
    this.fields = fieldsOf(schema);
    if (schema === null) replaceChildren(this.inputs);
    else if (this.fields === null) {
      this.fields = [{ name: "", kind: "json", label: "Input", note: "", required: false, choices: [], initial: "" }];
      replaceChildren(this.inputs, ...this.fields.map(inputField));
    } else replaceChildren(this.inputs, ...this.fields.map(inputField));
  }

  texts() {
    /** @type {Record<string, string>} */
    const texts = {};
    for (const field of this.inputs.querySelectorAll("[data-input]")) {
      if (field instanceof HTMLInputElement && field.type === "checkbox")
        texts[field.dataset.input ?? ""] = field.checked ? "true" : "";
      else if (field instanceof HTMLElement && "value" in field) texts[field.dataset.input ?? ""] = String(field.value);
    }
    return texts;
  }

  /** The body of the request; null if a field says what cannot be. */
  body() {
    /** @type {Record<string, unknown>} */
    const body = { name: this.choice.value, task: this.task.value.trim(), idempotency_key: this.key };
    for (const field of [this.budget, this.timeout]) {
      const number = Number(field.value.trim());
      const wrong = field.value.trim() !== "" && !(number > 0);
      field.setAttribute("aria-invalid", String(wrong));
      if (wrong) return this.refuse(`\`${field.value}\` is no number above zero`, field);
      if (field.value.trim() !== "") body[field.name] = number;
    }
    if (this.fields === null) return body;
    const { input, errors } = inputOf(this.fields, this.texts());
    const [wrong] = Object.entries(errors);
    if (wrong !== undefined) {
      const field = this.inputs.querySelector(`[data-input="${CSS.escape(wrong[0])}"]`);
      return this.refuse(`${wrong[0] || "input"} ${wrong[1]}`, field);
    }
    if (Object.keys(input).length > 0) body.input = this.fields[0]?.name === "" ? input[""] : input;
    return body;
  }

  /**
   * @param {string} words
   * @param {Element | null} field
   */
  refuse(words, field) {
    setText(this.refused, words);
    field?.setAttribute("aria-invalid", "true");
    if (field instanceof HTMLElement) field.focus();
    return null;
  }

  /** @param {SubmitEvent} event */
  async submitted(event) {
    event.preventDefault();
    const body = this.body();
    if (body === null) return;
    this.submit.disabled = true;
    try {
      /** @type {{execution_id: string}} */
      const started = await this.shell.api.post("/executions", body);
      this.dialog.close();
      this.shell.router.go(executionHref(started.execution_id));
    } catch (failure) {
      const { message, hint } = errorWords(failure);
      this.refuse(hint === "" ? message : `${message}. ${hint}`, null);
    } finally {
      this.submit.disabled = false;
    }
  }
}

/** @param {SchemaField} field */
function inputField(field) {
  const common = { class: "input", "data-input": field.name, required: field.required && field.kind !== "boolean" };
  const note = element("span", { class: "note" }, field.note);
  const label = `${field.label}${field.kind === "json" ? ", as JSON" : ""}${field.required ? "" : " (optional)"}`;
  if (field.kind === "boolean") {
    const box = element("input", { type: "checkbox", "data-input": field.name, checked: field.initial === "true" });
    return element("label", { class: "field" }, element("span", { class: "row" }, box, field.label), note);
  }
  if (field.kind === "choice") {
    const empty = field.required ? [] : [element("option", { value: "" }, "-")];
    const options = field.choices.map((each) =>
      element("option", { value: each, selected: each === field.initial }, each),
    );
    return element("label", { class: "field" }, label, element("select", common, ...empty, ...options), note);
  }
  if (field.kind === "long" || field.kind === "json") {
    const area = element("textarea", { ...common, rows: "3", spellcheck: "false" }, field.initial);
    return element("label", { class: "field" }, label, area, note);
  }
  return element("label", { class: "field" }, label, element("input", { ...common, value: field.initial }), note);
}

/** A request that arrives twice starts one execution. */
function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
