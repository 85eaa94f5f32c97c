/**
 * What this browser remembers of its reader: choices of form, never data of executions, never a token.
 */

const PREFIX = "outrider.";

/**
 * @template T
 * @param {string} name
 * @param {T} otherwise if nothing, or something of another type, is remembered
 * @returns {T}
 */
export function remembered(name, otherwise) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    const value = text === null ? otherwise : JSON.parse(text);
    return typeof value === typeof otherwise && Array.isArray(value) === Array.isArray(otherwise) ? value : otherwise;
  } catch {
    return otherwise; // storage is switched off, or holds what another program wrote
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 */
export function remember(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // A browser that stores nothing shows the page all the same.
  }
}
