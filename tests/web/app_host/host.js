/**
 * A host of MCP Apps for tests: the bridge is the official one, the tools are called by the test that opened the page.
 * `window.host` is what tests drive, `window.heard` what the view has said.
 */

import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

/** @type {[string, unknown][]} */
window.heard = [];
const hear = (name, value) => window.heard.push([name, value]);
const once = (bridge, name) => new Promise((done) => bridge.addEventListener(name, done));

class Host {
  /** Loads a view into a sandbox of another origin, and completes the handshake. */
  async open({ sandbox, html, capabilities, context }) {
    this.frame = document.createElement("iframe");
    this.frame.setAttribute("sandbox", "allow-scripts allow-same-origin");
    this.frame.style.setProperty("width", `${context.containerDimensions?.width ?? 900}px`);
    document.body.append(this.frame);
    this.bridge = new AppBridge(null, { name: "reference host", version: "1" }, capabilities, { hostContext: context });
    this.listen();
    const initialized = once(this.bridge, "initialized");
    const ready = once(this.bridge, "sandboxready");
    this.frame.src = sandbox;
    await this.bridge.connect(new PostMessageTransport(this.frame.contentWindow, this.frame.contentWindow));
    await ready;
    await this.bridge.sendSandboxResourceReady({ html });
    await initialized;
    hear("initialized", { about: this.bridge.getAppVersion(), can: this.bridge.getAppCapabilities() });
  }

  listen() {
    const { bridge, frame } = this;
    bridge.addEventListener("sizechange", ({ width, height }) => {
      hear("size", [width, height]);
      frame.style.setProperty("height", `${height}px`);
    });
    bridge.oncalltool = async (params) => {
      hear("call", params.name);
      return window.callTool(params);
    };
    bridge.onopenlink = async ({ url }) => {
      hear("link", url);
      return {};
    };
    bridge.onrequestdisplaymode = async ({ mode }) => {
      hear("mode", mode);
      this.context({ displayMode: mode });
      return { mode };
    };
  }

  context(changed) {
    this.bridge.setHostContext({ ...this.bridge._hostContext, ...changed });
  }

  input(given) {
    return this.bridge.sendToolInput({ arguments: given });
  }

  result(answer) {
    return this.bridge.sendToolResult(answer);
  }

  cancelled(reason) {
    return this.bridge.sendToolCancelled({ reason });
  }

  /** Asks the view to end, and removes it once it has answered. */
  async teardown() {
    const answer = await this.bridge.teardownResource({});
    this.frame.remove();
    return answer;
  }
}

window.host = new Host();
