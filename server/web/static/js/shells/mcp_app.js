/**
 * The MCP App of an execution tree: the execution view inside the window of a chat host, which is all it can talk to.
 */

import { element, replaceChildren, setText } from "../core/dom.js";
import { mountExecution } from "../core/execution.js";
import { appSource } from "../sources/app.js";
import { AppBridge, parentPort, textOf } from "../sources/app_bridge.js";
import { givenSource, treeOf } from "../sources/given.js";
import { followHost, pause, sendFormsHere, tellSize, untilShown } from "./app_host.js";

/** @import {Approval, Tree} from "../types.js" */
/** @import {ToolAnswer} from "../sources/app_bridge.js" */

const MODES = ["inline", "fullscreen"];

class TreeApp {
  /** @param {HTMLElement} main */
  constructor(main) {
    this.main = main;
    this.note = element("p", { class: "app-note", role: "status" });
    this.questions = element("div", { class: "app-questions", role: "status" });
    this.view = element("div", { class: "app-view" });
    this.larger = element("button", { type: "button", "data-action": "fullscreen", onclick: () => this.resize() });
    this.elsewhere = element(
      "button",
      { type: "button", "data-action": "dashboard", onclick: () => this.openDashboard() },
      "Open dashboard",
    );
    this.bar = element("div", { class: "app-bar" }, this.larger, this.elsewhere);
    main.append(this.bar, this.questions, this.note, this.view);
    const version = document.body.dataset.version ?? "";
    this.bridge = new AppBridge(parentPort(window), { name: "outrider", version }, MODES);
    /** @type {{destroy: () => void} | null} */
    this.mounted = null;
    this.top = "";
    this.dashboard = "";
    this.stopSizes = () => {};
  }

  async start() {
    const { bridge } = this;
    bridge.on("ui/notifications/host-context-changed", () => this.followHost());
    bridge.on("ui/notifications/tool-input", () => this.say("loading", "Waiting for the tree…"));
    bridge.on("ui/notifications/tool-result", (answer) => this.show(answer));
    bridge.on("ui/notifications/tool-cancelled", ({ reason }) =>
      this.say(
        "cancelled",
        `The call was cancelled${typeof reason === "string" && reason !== "" ? `: ${reason}` : ""}`,
      ),
    );
    bridge.on("ui/resource-teardown", () => this.close());
    sendFormsHere(document);
    this.followHost();
    await bridge.connect();
    this.followHost();
    this.stopSizes = tellSize(this.main, (width, height) =>
      bridge.notify("ui/notifications/size-changed", { width, height }),
    );
  }

  /** @param {ToolAnswer} answer */
  show(answer) {
    const told = answer.structuredContent;
    const top = told?.tree?.execution_id ?? told?.execution_id;
    if (answer.isError || typeof top !== "string") {
      this.say("error", textOf(answer) || "The answer has no tree.");
      return;
    }
    if (top === this.top) return;
    this.mounted?.destroy();
    this.top = top;
    this.say("ready", "");
    this.mounted = mountExecution(this.view, { source: this.source(told), id: top });
  }

  /** @param {any} told */
  source(told) {
    if (!this.bridge.capabilities.serverTools) return givenSource(treeOf(told));
    return appSource({
      callTool: (name, given) => this.bridge.callTool(name, given),
      shown: untilShown,
      pause,
      heard: (tree) => this.heard(tree),
    });
  }

  /** @param {Tree & {dashboard?: string}} tree */
  heard(tree) {
    this.dashboard = tree.dashboard ?? "";
    this.elsewhere.hidden = !this.canOpen();
    this.ask(tree.approvals);
  }

  /**
   * Shows the open questions. Nothing here answers them: a model could reach whatever a view can call.
   * @param {Approval[]} approvals
   */
  ask(approvals) {
    const where = this.canOpen() ? "Decide in the dashboard." : "Decide with `outrider approve`, or in the chat.";
    const shown = approvals.map((approval) =>
      element(
        "section",
        { class: "app-question", "data-approval": approval.id },
        element("strong", {}, `${approval.agent} asks to call ${approval.tool}`),
        element("pre", {}, approval.arguments),
        element("span", {}, where),
      ),
    );
    replaceChildren(this.questions, ...shown);
  }

  canOpen() {
    return this.dashboard !== "" && this.bridge.capabilities.openLinks !== undefined;
  }

  openDashboard() {
    const url = `${this.dashboard}/executions/${encodeURIComponent(this.top)}`;
    this.bridge.request("ui/open-link", { url }).catch((failure) => this.say("ready", failure.message));
  }

  resize() {
    const mode = this.bridge.context.displayMode === "fullscreen" ? "inline" : "fullscreen";
    this.bridge.display(mode).then(
      () => this.followHost(),
      (failure) => this.say("ready", failure.message),
    );
  }

  followHost() {
    const { context } = this.bridge;
    followHost(document.documentElement, context);
    const isFull = context.displayMode === "fullscreen";
    setText(this.larger, isFull ? "Smaller" : "Full screen");
    this.larger.hidden = !(context.availableDisplayModes ?? []).includes(isFull ? "inline" : "fullscreen");
    this.elsewhere.hidden = !this.canOpen();
  }

  /**
   * @param {"loading" | "ready" | "error" | "cancelled" | "closed"} state
   * @param {string} words
   */
  say(state, words) {
    this.main.dataset.state = state;
    setText(this.note, words);
    this.note.hidden = words === "";
  }

  close() {
    this.mounted?.destroy();
    this.mounted = null;
    this.stopSizes();
    this.say("closed", "Closed.");
    setTimeout(() => this.bridge.close()); // after the answer to this request
  }
}

const main = document.getElementById("app");
if (main !== null) {
  const app = new TreeApp(main);
  app.start().catch((failure) => app.say("error", failure.message));
}
