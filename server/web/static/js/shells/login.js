/**
 * Who is at this page: a token is exchanged once for a cookie that scripts cannot read. No token is stored here.
 */

import { element, setText } from "../core/dom.js";
import { errorWords } from "../sources/api.js";
import { openDialog } from "./dialogs.js";

/** @import {ApiClient} from "../sources/api.js" */

/**
 * The token in the fragment of the address, which is removed from it and from the history.
 * @returns {string} empty if there is none
 */
export function tokenOfAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (token !== "") history.replaceState(history.state, "", location.pathname + location.search);
  return token;
}

export class Login {
  /** @param {ApiClient} api */
  constructor(api) {
    this.api = api;
    /** @type {Promise<void> | null} */
    this.asking = null;
  }

  /** @param {string} token */
  exchange(token) {
    return this.api.post("/session", { token });
  }

  /**
   * Asks for a token over the page, once however many requests need it; done when the server has accepted one.
   * @param {string} [said] why it asks
   */
  ask(said = "") {
    this.asking ??= this.open(said).finally(() => {
      this.asking = null;
    });
    return this.asking;
  }

  /**
   * @param {string} said
   * @returns {Promise<void>}
   */
  open(said) {
    return new Promise((done) => {
      const refused = element("p", { class: "login-refused", role: "alert" }, said);
      const token = element("input", {
        class: "input",
        type: "password",
        name: "token",
        required: true,
        autocomplete: "off",
        "aria-describedby": "login-note",
      });
      const submit = element("button", { class: "button", "data-kind": "primary", "data-action": "login" }, "Log in");
      /** @param {SubmitEvent} event */
      const submitted = async (event) => {
        event.preventDefault();
        submit.disabled = true;
        try {
          await this.exchange(token.value.trim());
          dialog.close();
          done();
        } catch (failure) {
          const { message, hint } = errorWords(failure);
          setText(refused, hint === "" ? message : `${message}. ${hint}`);
          token.setAttribute("aria-invalid", "true");
          token.select();
        } finally {
          submit.disabled = false;
        }
      };
      const form = element(
        "form",
        { class: "dialog-body", onsubmit: submitted },
        element(
          "p",
          { class: "soft", id: "login-note" },
          "This server asks who you are. Paste the token that it was given for you, or open the address that ",
          element("code", {}, "outrider dashboard"),
          " prints.",
        ),
        element("label", { class: "field" }, "Token", token),
        refused,
        element("div", { class: "dialog-foot" }, submit),
      );
      const dialog = openDialog("Log in", { name: "login", closable: false }, form);
      token.focus();
    });
  }
}
