/**
 * Addresses of the dashboard: which page a path means, and moves between pages without loading. The query string is the
 * state of a page, so a link shows what its sender saw.
 */

/** @typedef {"executions" | "execution" | "agents" | "usage" | "sql" | "compare"} PageName */
/** @typedef {{page: PageName, id: string, query: URLSearchParams}} Route */

/** @type {Record<string, PageName>} */
const PLACES = {
  "/": "executions",
  "/executions": "executions",
  "/agents": "agents",
  "/usage": "usage",
  "/sql": "sql",
  "/compare": "compare",
};

/**
 * The route of an address; null if no page has it.
 * @param {string} path
 * @param {string} [search]
 * @returns {Route | null}
 */
export function routeOf(path, search = "") {
  const query = new URLSearchParams(search);
  const place = PLACES[path.length > 1 ? path.replace(/\/$/, "") : path];
  if (place !== undefined) return { page: place, id: "", query };
  const found = /^\/executions\/([^/.]+)\/?$/.exec(path);
  try {
    return found?.[1] === undefined ? null : { page: "execution", id: decodeURIComponent(found[1]), query };
  } catch {
    return null; // what a reader typed is no encoded text
  }
}

/**
 * A query with some values changed; empty values leave it.
 * @param {URLSearchParams} query
 * @param {Record<string, string | null | undefined>} changes
 */
export function changedQuery(query, changes) {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") next.delete(name);
    else next.set(name, value);
  }
  return next;
}

/** @param {string} id */
export function executionHref(id) {
  return `/executions/${encodeURIComponent(id)}`;
}

/**
 * The data of a page as JSON; its query is the same.
 * @param {string} path
 * @param {string} search
 */
export function dataHref(path, search) {
  return `${path === "/" ? "/executions" : path.replace(/\/$/, "")}.json${search}`;
}

/** The state of an entry behind which there is another one of these pages. */
const INSIDE = { inside: true };

export class Router {
  /** @param {(route: Route | null, how: "load" | "push" | "replace" | "back") => void} show */
  constructor(show) {
    this.show = show;
  }

  start() {
    window.addEventListener("popstate", () => this.show(this.route(), "back"));
    document.addEventListener("click", (event) => this.clicked(event));
    this.show(this.route(), "load");
  }

  route() {
    return routeOf(location.pathname, location.search);
  }

  /**
   * @param {string} href
   * @param {{replace?: boolean}} [options]
   */
  go(href, { replace = false } = {}) {
    if (replace) history.replaceState(history.state, "", href);
    else history.pushState(INSIDE, "", href);
    this.show(this.route(), replace ? "replace" : "push");
  }

  /**
   * Leads to where the reader came from; to this address, if that was another site.
   * @param {string} otherwise
   */
  back(otherwise) {
    if (history.state?.inside) history.back();
    else this.go(otherwise);
  }

  /**
   * Keeps the page and changes what its address says, without a step back unless `push`.
   * @param {Record<string, string | null | undefined>} changes
   * @param {{push?: boolean}} [options]
   */
  say(changes, { push = false } = {}) {
    const next = changedQuery(new URLSearchParams(location.search), changes).toString();
    const href = location.pathname + (next === "" ? "" : `?${next}`);
    if (href === location.pathname + location.search) return;
    if (push) history.pushState(INSIDE, "", href);
    else history.replaceState(history.state, "", href);
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target !== "" || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || routeOf(link.pathname) === null) return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }
}
