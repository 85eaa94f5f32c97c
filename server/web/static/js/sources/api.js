/**
 * Requests to the API of this server. A failure of any kind arrives as one class of error, with a hint.
 */

/** @import {Problem} from "../types.js" */

/** A request that was refused, or that no server answered (`status` 0). */
export class ApiError extends Error {
  /** @param {Partial<Problem>} problem */
  constructor(problem) {
    super(problem.detail || problem.title || "the request failed");
    this.name = "ApiError";
    this.status = problem.status ?? 0;
    this.title = problem.title ?? "";
    this.hint = problem.hint ?? "";
  }
}

/**
 * Who is told how requests went.
 * @typedef {object} ApiWatch
 * @property {(reachable: boolean) => void} reachable
 * @property {() => void} unauthorised
 */

const SILENT = {
  title: "no answer",
  detail: "the server does not answer",
  hint: "start it again with the same command; this page goes on by itself",
};

export class ApiClient {
  /** @param {ApiWatch} watch */
  constructor(watch) {
    this.watch = watch;
  }

  /**
   * @template T
   * @param {string} path below `/api`
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  get(path, signal) {
    return this.request("GET", path, undefined, signal);
  }

  /**
   * @template T
   * @param {string} path
   * @param {Record<string, unknown>} [body]
   * @returns {Promise<T>}
   */
  post(path, body = {}) {
    return this.request("POST", path, body);
  }

  /**
   * @template T
   * @param {string} path
   * @returns {Promise<T>}
   */
  delete(path) {
    return this.request("DELETE", path, {});
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {Record<string, unknown> | undefined} body
   * @param {AbortSignal} [signal]
   */
  async request(method, path, body, signal) {
    /** @type {Record<string, string>} */
    const headers = { Accept: "application/json" };
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      headers["X-Outrider"] = "1"; // a form of another site cannot send it
    }
    const response = await this.send(path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    });
    if (!response.ok) throw new ApiError(await problemOf(response));
    return response.status === 204 ? null : response.json();
  }

  /**
   * Sends a request, and tells whether the server is there and knows the caller.
   * @param {string} path
   * @param {RequestInit} init
   */
  async send(path, init) {
    const asked = {
      credentials: /** @type {const} */ ("same-origin"),
      cache: /** @type {const} */ ("no-store"),
      ...init,
    };
    let response;
    try {
      response = await fetch(`/api${path}`, asked);
    } catch (failure) {
      if (init.signal?.aborted) throw failure;
      this.watch.reachable(false);
      throw new ApiError(SILENT);
    }
    this.watch.reachable(true);
    // A token that is refused says nothing about the session.
    if (response.status === 401 && `${init.method}${path}` !== "POST/session") this.watch.unauthorised();
    return response;
  }
}

/**
 * What a refused response says, also when it is not JSON.
 * @param {Response} response
 * @returns {Promise<Partial<Problem>>}
 */
async function problemOf(response) {
  const text = await response.text();
  try {
    const said = JSON.parse(text);
    if (said !== null && typeof said === "object") {
      const about = typeof said.error === "object" && said.error !== null ? said.error : said;
      return { title: about.title, detail: about.detail ?? about.message, hint: about.hint, status: response.status };
    }
  } catch {
    // It is no JSON: its text is what can be shown.
  }
  return { title: response.statusText, detail: text.slice(0, 300), status: response.status };
}

/**
 * A path with a query; values that are empty or null are left out.
 * @param {string} path
 * @param {Record<string, string | number | boolean | null | undefined>} query
 */
export function withQuery(path, query) {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) said.set(name, String(value));
  }
  const text = said.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** @param {unknown} failure */
export function errorWords(failure) {
  if (failure instanceof ApiError) return { message: failure.message, hint: failure.hint, status: failure.status };
  return { message: failure instanceof Error ? failure.message : String(failure), hint: "", status: -1 };
}
