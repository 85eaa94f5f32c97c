/**
 * Elements made from names and text. Nothing here reads markup, so what an agent wrote stays text wherever it is shown.
 */

/** @typedef {string | number | boolean | null | undefined | EventListener | ((event: any) => void)} Attribute */
/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element. `on…` with a function listens; `true` sets an empty attribute; null, undefined and false leave it out.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, Attribute>} [attributes]
 * @param {Child[]} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
    else setAttribute(made, key, value);
  }
  append(made, children);
  return made;
}

/**
 * @param {Element} parent
 * @param {Child[]} children
 */
export function append(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(typeof child === "number" ? String(child) : child);
  }
}

/**
 * Sets or removes an attribute; writes only what differs. Neither a listener nor a style can come in as text.
 * @param {Element} target
 * @param {string} name
 * @param {string | number | boolean | null | undefined} value
 */
export function setAttribute(target, name, value) {
  if (name === "style" || name.startsWith("on")) throw new Error(`\`${name}\` cannot be set from text`);
  if (value === null || value === undefined || value === false) {
    if (target.hasAttribute(name)) target.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if ((name === "href" || name === "src") && !isSafeAddress(text)) return;
  if (target.getAttribute(name) !== text) target.setAttribute(name, text);
}

/**
 * Whether an address leads to a page: no script, no data.
 * @param {string} address
 */
export function isSafeAddress(address) {
  return /^(https?:\/\/|[/?#.]|$)/i.test(address) && !/^\/\//.test(address);
}

/**
 * Sets the text of an element that holds nothing else; writes only what differs.
 * @param {Element} target
 * @param {string} text
 */
export function setText(target, text) {
  const only = target.firstChild;
  if (only instanceof Text && only.nextSibling === null) {
    if (only.data !== text) only.data = text;
  } else if (target.textContent !== text) target.textContent = text;
}

/**
 * Puts these children in place of the ones there.
 * @param {Element} parent
 * @param {Child[]} children
 */
export function replaceChildren(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/**
 * Puts these children in place of the ones there; those that stay keep their focus and what is open in them.
 * @param {Element} parent
 * @param {Element[]} children
 */
export function arrangeChildren(parent, children) {
  const staying = new Set(children);
  for (const child of [...parent.childNodes]) if (!staying.has(/** @type {Element} */ (child))) child.remove();
  children.forEach((child, place) => {
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
  });
}

/**
 * What makes and updates the elements of a list.
 * @template Item
 * @typedef {object} ListItems
 * @property {(item: Item) => string} key
 * @property {(item: Item) => HTMLElement} make
 * @property {(made: HTMLElement, item: Item) => void} [update]
 */

/**
 * Makes the children of an element those of a list; the child of a key stays the same element, with its focus and scroll.
 * @template Item
 * @param {HTMLElement} parent holds only children of this list
 * @param {Item[]} items
 * @param {ListItems<Item>} how
 */
export function keyedChildren(parent, items, how) {
  /** @type {Map<string, HTMLElement>} */
  const known = new Map();
  for (const child of parent.children) {
    if (child instanceof HTMLElement && child.dataset.key !== undefined) known.set(child.dataset.key, child);
  }
  /** @type {Element | null} */
  let next = parent.firstElementChild;
  for (const item of items) {
    const key = how.key(item);
    let child = known.get(key);
    known.delete(key);
    if (child === undefined) {
      child = how.make(item);
      child.dataset.key = key;
    }
    how.update?.(child, item);
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
  for (const gone of known.values()) gone.remove();
}

/**
 * The nearest element around an event that has an attribute.
 * @param {Event} event
 * @param {string} attribute
 * @returns {HTMLElement | null}
 */
export function closest(event, attribute) {
  const found = event.target instanceof Element ? event.target.closest(`[${attribute}]`) : null;
  return found instanceof HTMLElement ? found : null;
}
