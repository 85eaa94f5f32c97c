/**
 * The view's half of the MCP Apps protocol, revision 2026-01-26: JSON-RPC 2.0 with the host, over messages between windows.
 */

export const PROTOCOL = "2026-01-26";
const METHOD_NOT_FOUND = -32601;
const INTERNAL_ERROR = -32603;

/** @typedef {{jsonrpc: "2.0", id?: number | string, method?: string, params?: any, result?: any, error?: {code: number, message: string}}} Message */

/**
 * How messages come and go; tests replace it.
 * @typedef {object} Port
 * @property {(message: Message) => void} post
 * @property {(take: (message: Message) => void) => () => void} listen returns the function that stops
 */

/**
 * What the host says of itself; every part may be missing, and later ones replace earlier ones.
 * @typedef {object} HostContext
 * @property {"light" | "dark"} [theme]
 * @property {{variables?: Record<string, string | undefined>, css?: {fonts?: string}}} [styles]
 * @property {string} [displayMode]
 * @property {string[]} [availableDisplayModes]
 * @property {{width?: number, maxWidth?: number, height?: number, maxHeight?: number}} [containerDimensions]
 * @property {{top: number, right: number, bottom: number, left: number}} [safeAreaInsets]
 */

/** @typedef {{openLinks?: object, serverTools?: object, serverResources?: object}} HostCapabilities */

/** @typedef {{isError?: boolean, structuredContent?: any, content?: {type: string, text?: string}[]}} ToolAnswer */

/** A request that the host refused, or that no host answered. */
export class HostError extends Error {
  /**
   * @param {string} message
   * @param {number} [code]
   */
  constructor(message, code = INTERNAL_ERROR) {
    super(message);
    this.name = "HostError";
    this.code = code;
  }
}

/**
 * The port to the window around this one. Messages of any other window are not heard.
 * @param {Window} own
 * @returns {Port}
 */
export function parentPort(own) {
  return {
    // The origin of a host cannot be known. Nothing secret leaves: the host has all of it already.
    post: (message) => own.parent.postMessage(message, "*"),
    listen: (take) => {
      /** @param {MessageEvent} event */
      const heard = (event) => {
        if (event.source === own.parent && event.data?.jsonrpc === "2.0") take(event.data);
      };
      own.addEventListener("message", heard);
      return () => own.removeEventListener("message", heard);
    },
  };
}

export class AppBridge {
  /**
   * @param {Port} port
   * @param {{name: string, version: string}} about
   * @param {string[]} modes the display modes that the view has
   */
  constructor(port, about, modes) {
    this.port = port;
    this.about = about;
    this.modes = modes;
    /** @type {HostContext} */
    this.context = {};
    /** @type {HostCapabilities} */
    this.capabilities = {};
    this.last = 0;
    /** @type {Map<number | string, {done: (result: any) => void, failed: (error: HostError) => void}>} */
    this.waiting = new Map();
    /** @type {Map<string, (params: any) => unknown>} */
    this.handlers = new Map();
    this.handlers.set("ping", () => ({}));
    this.stop = port.listen((message) => this.take(message));
  }

  /**
   * Calls `handler` for a request or notification of the host; what it returns answers a request.
   * @param {string} method
   * @param {(params: any) => unknown} handler
   */
  on(method, handler) {
    this.handlers.set(method, handler);
  }

  /** The handshake. Nothing else is sent before it is complete. */
  async connect() {
    const said = await this.request("ui/initialize", {
      protocolVersion: PROTOCOL,
      appInfo: this.about,
      appCapabilities: { availableDisplayModes: this.modes },
    });
    this.capabilities = said?.hostCapabilities ?? {};
    this.context = { ...this.context, ...said?.hostContext };
    this.notify("ui/notifications/initialized", {});
  }

  /**
   * @param {string} method
   * @param {Record<string, unknown>} params
   * @returns {Promise<any>}
   */
  request(method, params) {
    this.last += 1;
    const id = this.last;
    return new Promise((done, failed) => {
      this.waiting.set(id, { done, failed });
      this.port.post({ jsonrpc: "2.0", id, method, params });
    });
  }

  /**
   * @param {string} method
   * @param {Record<string, unknown>} params
   */
  notify(method, params) {
    this.port.post({ jsonrpc: "2.0", method, params });
  }

  /**
   * Calls a tool of the server through the host, and returns its structured answer.
   * @param {string} name
   * @param {Record<string, unknown>} given
   * @returns {Promise<any>}
   */
  async callTool(name, given) {
    /** @type {ToolAnswer} */
    const answer = await this.request("tools/call", { name, arguments: given });
    if (answer?.isError || answer?.structuredContent === undefined) throw new HostError(textOf(answer) || "no answer");
    return answer.structuredContent;
  }

  /**
   * Asks for a display mode, if both sides have it; returns the mode that holds then.
   * @param {string} mode
   * @returns {Promise<string>}
   */
  async display(mode) {
    const now = this.context.displayMode ?? "inline";
    if (!this.modes.includes(mode) || !(this.context.availableDisplayModes ?? []).includes(mode)) return now;
    const said = await this.request("ui/request-display-mode", { mode });
    this.context = { ...this.context, displayMode: said?.mode ?? now };
    return this.context.displayMode ?? now;
  }

  /** Ends every wait, and hears nothing more. */
  close() {
    this.stop();
    for (const { failed } of this.waiting.values()) failed(new HostError("the view was closed"));
    this.waiting.clear();
  }

  /** @param {Message} message */
  take(message) {
    if (message.method !== undefined) {
      void this.handle(message.method, message);
      return;
    }
    const waiter = message.id === undefined ? undefined : this.waiting.get(message.id);
    if (waiter === undefined || message.id === undefined) return;
    this.waiting.delete(message.id);
    if (message.error === undefined) waiter.done(message.result);
    else waiter.failed(new HostError(String(message.error.message), message.error.code));
  }

  /**
   * @param {string} method
   * @param {Message} message
   */
  async handle(method, { id, params }) {
    if (method === "ui/notifications/host-context-changed") this.context = { ...this.context, ...params };
    const handler = this.handlers.get(method);
    if (id === undefined) {
      handler?.(params ?? {});
      return;
    }
    if (handler === undefined) {
      this.port.post({ jsonrpc: "2.0", id, error: { code: METHOD_NOT_FOUND, message: "Method not found" } });
      return;
    }
    try {
      this.port.post({ jsonrpc: "2.0", id, result: (await handler(params ?? {})) ?? {} });
    } catch (failure) {
      const reason = failure instanceof Error ? failure.message : String(failure);
      this.port.post({ jsonrpc: "2.0", id, error: { code: INTERNAL_ERROR, message: reason } });
    }
  }
}

/** @param {ToolAnswer | undefined} answer */
export function textOf(answer) {
  return (answer?.content ?? []).map((block) => (block.type === "text" ? block.text : "")).join("\n");
}
