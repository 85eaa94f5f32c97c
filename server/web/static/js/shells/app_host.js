/**
 * How the view of an MCP App follows its host: theme, style variables, the space it is given, and the size it tells.
 */

/** @import {HostContext} from "../sources/app_bridge.js" */

/**
 * Our tokens by the variable of a host that replaces them.
 * @type {Record<string, string[]>}
 */
const TOKENS = {
  "--color-background-primary": ["--ground", "--surface"],
  "--color-background-secondary": ["--raised", "--hover"],
  "--color-background-tertiary": ["--sunken"],
  "--color-text-primary": ["--ink"],
  "--color-text-secondary": ["--ink-soft"],
  "--color-text-tertiary": ["--ink-faint"],
  "--color-text-success": ["--ok"],
  "--color-text-danger": ["--bad"],
  "--color-text-warning": ["--warn"],
  "--color-border-primary": ["--line-strong"],
  "--color-border-secondary": ["--line"],
  "--font-sans": ["--sans"],
  "--font-mono": ["--mono"],
  "--border-radius-md": ["--round"],
};
/** A host that sets colours sets at least these; with fewer, its ground and our text could not be told apart. */
const COLOURS = ["--color-background-primary", "--color-text-primary"];
/** Milliseconds without a change of size before the host is told. */
const SETTLED = 60;

/**
 * Makes the document look as the host says. Variables that the host does not set keep our own values.
 * @param {HTMLElement} root
 * @param {HostContext} context
 */
export function followHost(root, context) {
  if (context.theme === "light" || context.theme === "dark") {
    root.dataset.theme = context.theme;
    root.style.setProperty("color-scheme", context.theme);
  }
  const given = variablesOf(context);
  for (const [name, tokens] of Object.entries(TOKENS)) {
    for (const token of tokens) {
      const value = given[name];
      if (value === undefined) root.style.removeProperty(token);
      else root.style.setProperty(token, value);
    }
  }
  root.dataset.display = context.displayMode ?? "inline";
  for (const [name, value] of Object.entries(spaceOf(context))) {
    if (value === "") root.style.removeProperty(name);
    else root.style.setProperty(name, value);
  }
}

/**
 * The variables of a host that count: its colours only together.
 * @param {HostContext} context
 * @returns {Record<string, string | undefined>}
 */
export function variablesOf({ styles }) {
  const given = Object.entries(styles?.variables ?? {}).filter(
    ([, value]) => typeof value === "string" && value !== "",
  );
  const named = Object.fromEntries(given);
  if (COLOURS.every((name) => name in named)) return named;
  return Object.fromEntries(given.filter(([name]) => !name.startsWith("--color-")));
}

/**
 * The space that the host gives, as variables of our styles; empty where it sets no limit.
 * @param {HostContext} context
 */
export function spaceOf({ containerDimensions: space = {}, safeAreaInsets: insets }) {
  /** @param {number | undefined} length */
  const pixels = (length) => (typeof length === "number" && length > 0 ? `${length}px` : "");
  return {
    "--app-height": pixels(space.height),
    "--app-max-height": pixels(space.maxHeight),
    "--app-inset-top": pixels(insets?.top),
    "--app-inset-right": pixels(insets?.right),
    "--app-inset-bottom": pixels(insets?.bottom),
    "--app-inset-left": pixels(insets?.left),
  };
}

/**
 * Returns a function that takes sizes, and tells the last of them once they rest, if it differs from the one told before.
 * @param {(width: number, height: number) => void} tell
 * @param {(work: () => void, milliseconds: number) => () => void} later returns the function that takes it back
 */
export function settledSize(tell, later) {
  let told = "";
  let takeBack = () => {};
  /**
   * @param {number} width
   * @param {number} height
   */
  return (width, height) => {
    takeBack();
    takeBack = later(() => {
      const size = `${Math.ceil(width)} ${Math.ceil(height)}`;
      if (size === told) return;
      told = size;
      tell(Math.ceil(width), Math.ceil(height));
    }, SETTLED);
  };
}

/**
 * Lets forms be sent where the sandbox of a host forbids it: their listeners hear of it, and nothing leaves the document.
 * @param {Document} own
 */
export function sendFormsHere(own) {
  own.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (button === null || button.type !== "submit" || button.form === null || event.defaultPrevented) return;
    event.preventDefault();
    button.form.dispatchEvent(new SubmitEvent("submit", { bubbles: true, cancelable: true, submitter: button }));
  });
}

/**
 * Tells the size of an element now and whenever it changes; returns the function that stops.
 * @param {HTMLElement} element
 * @param {(width: number, height: number) => void} tell
 */
export function tellSize(element, tell) {
  const take = settledSize(tell, (work, milliseconds) => {
    const timer = setTimeout(work, milliseconds);
    return () => clearTimeout(timer);
  });
  const observer = new ResizeObserver(() => {
    const box = element.getBoundingClientRect();
    take(box.width, box.height);
  });
  observer.observe(element);
  return () => observer.disconnect();
}

/**
 * Returns once the document can be seen.
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export function untilShown(signal) {
  return untilEvent(signal, () => document.visibilityState === "visible", null);
}

/**
 * Waits; less long when the document is seen again.
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export function pause(milliseconds, signal) {
  return untilEvent(signal, () => false, milliseconds);
}

/**
 * @param {AbortSignal} signal
 * @param {() => boolean} ready
 * @param {number | null} milliseconds
 * @returns {Promise<void>}
 */
function untilEvent(signal, ready, milliseconds) {
  return new Promise((done) => {
    if (ready() || signal.aborted) return done();
    const finish = () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      signal.removeEventListener("abort", finish);
      done();
    };
    const seen = () => document.visibilityState === "visible" && finish();
    const timer = milliseconds === null ? undefined : setTimeout(finish, milliseconds);
    document.addEventListener("visibilitychange", seen);
    signal.addEventListener("abort", finish);
  });
}
