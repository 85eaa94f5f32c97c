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
function tokenOfAddress() {
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
    this.refused = element("p", { class: "login-refused", role: "alert" });
    this.entered = () => {};
    this.others = new BroadcastChannel("login");
    this.others.onmessage = () => this.entered();
  }

  /** @param {string} token */
  async exchange(token) {
    await this.api.post("/session", { token });
    setText(this.refused, "");
    this.entered();
    this.others.postMessage("entered");
  }

  /** Takes a token that the address brings. One that is used is of no matter to a browser that has a session. */
  async enter() {
    const token = tokenOfAddress();
    try {
      if (token !== "") await this.exchange(token);
    } catch (failure) {
      this.refuse(failure);
    }
    return token !== "";
  }

  /** @param {unknown} failure */
  refuse(failure) {
    const { message, hint } = errorWords(failure);
    setText(this.refused, hint === "" ? message : `${message}. ${hint}`);
  }

  /** Asks for a token over the page, once however many requests need it; done when the server has accepted one. */
  ask() {
    this.asking ??= this.open().finally(() => {
      this.asking = null;
    });
    return this.asking;
  }

  /** @returns {Promise<void>} */
  open() {
    return new Promise((done) => {
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
          await this.exchange(token.value.trim().split("token=").at(-1) ?? "");
        } catch (failure) {
          this.refuse(failure);
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
          "This server asks who you are. Paste your token, or the address that ",
          element("code", {}, "outrider dashboard"),
          " prints; it opens one page, then type the command again.",
        ),
        element("label", { class: "field" }, "Token", token),
        this.refused,
        element("div", { class: "dialog-foot" }, submit),
      );
      const dialog = openDialog("Log in", { name: "login", closable: false }, form);
      this.entered = () => {
        dialog.close();
        done();
      };
      token.focus();
    });
  }
}
