/**
 * What the dashboard gives its pages, and what it expects of them.
 */

/** @import {ApiClient} from "../sources/api.js" */
/** @import {Source, StreamListener} from "../types.js" */
/** @import {Session} from "../types_pages.js" */
/** @import {Route, Router} from "./router.js" */

/**
 * @typedef {object} Toast
 * @property {"ok" | "bad" | "plain"} [tone]
 * @property {string} [hint]
 * @property {{href: string, words: string}} [link]
 */

/**
 * The part of the dashboard that a page may use.
 * @typedef {object} Shell
 * @property {ApiClient} api
 * @property {Source} source
 * @property {Router} router
 * @property {Session} session
 * @property {<T>(path: string, signal?: AbortSignal) => Promise<T>} ask a GET that outlives a lost server and a lost login
 * @property {(words: string, more?: Toast) => void} toast
 * @property {(words: string) => void} announce says it to a screen reader
 * @property {(words: string) => void} title
 * @property {(listener: StreamListener) => () => void} follow the events of every visible tree; answers how to stop
 * @property {() => void} recount asks for the numbers beside the navigation again
 */

/**
 * A page that is shown.
 * @typedef {object} Page
 * @property {() => void} destroy
 * @property {(route: Route) => void} [visit] the address has changed, and the page is the same
 * @property {(key: string, event: KeyboardEvent) => boolean} [key] whether the page has used a key
 */

/** @typedef {(place: HTMLElement, shell: Shell, route: Route) => Page} MountPage */

export {};
