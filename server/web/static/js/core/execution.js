/**
 * The view of one execution and everything below it, in any element: live while its source is, the same in every shell.
 * It knows no address, no storage and no server: a shell gives a source, and hooks for what only a page can do.
 */

import { ExecutionView } from "./execution_view.js";

/** @import {Source} from "../types.js" */
/** @import {Depth} from "./transcript.js" */

/** @typedef {{node: string, tab: Depth, q: string, zoom: string}} ExecutionState */

/**
 * What a shell does for the view; it may leave out each of them.
 * @typedef {object} ExecutionHooks
 * @property {(state: ExecutionState) => void} [changed] what the address should say
 * @property {(id: string) => string | null} [href] the page of an execution
 * @property {(id: string) => void} [open] opens the page of an execution that is not in this tree
 * @property {(id: string, node: string) => string} [copyLink] the address to copy
 * @property {{words: string, href: string}[]} [links] further links of the head, such as an export
 * @property {(key: string) => string | null} [recall] what `remember` was told before
 * @property {(key: string, value: string) => void} [remember]
 * @property {(standing: {agent: string, status: string, ended: boolean}) => void} [standing] for the title of the page
 * @property {(words: string) => void} [toast] else the view shows its own
 * @property {() => void} [help] shows all keys; such a shell hands on those that it does not take
 * @property {string} [home] the address of the list
 * @property {(open: boolean) => void} [over] the detail covers the tree, or no longer does
 * @property {() => void} [back] the reader leaves
 */

/**
 * @typedef {object} ExecutionOptions
 * @property {Source} source
 * @property {string} id
 * @property {string} [selected]
 * @property {Depth} [tab]
 * @property {string} [q]
 * @property {string} [zoom] as `changed` told it
 * @property {ExecutionHooks} [hooks]
 */

/**
 * @param {HTMLElement} parent
 * @param {ExecutionOptions} options
 */
export function mountExecution(parent, options) {
  const view = new ExecutionView(parent, options);
  view.start();
  return {
    destroy: () => view.destroy(),
    select: (/** @type {string} */ id) => view.select(id),
    /** For keys that reach the page and not the view. */
    key: (/** @type {KeyboardEvent} */ event) => view.reader.pressed(event),
    /** Uncovers the tree. */
    uncover: () => view.panes.isOpen() && view.panes.openDetail(false),
    focus: () => view.grid.element.focus(),
    refresh: () => view.feed.ask(),
    restyle: () => view.panes.measure(),
  };
}
