/**
 * What differs between two texts, word by word.
 */

/** @typedef {{kind: "same" | "removed" | "added", text: string}} DiffPart */

/** Beyond so many pairs of words the middle is shown as replaced, so that no text can stop the page. */
const MOST_PAIRS = 4_000_000;

/** @param {string} text */
function wordsOf(text) {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

/**
 * The parts of both texts in order; neighbours of one kind are one part. Without `added` it reads `a`, without `removed` `b`.
 * @param {string} a
 * @param {string} b
 * @returns {DiffPart[]}
 */
export function diffWords(a, b) {
  const before = wordsOf(a);
  const after = wordsOf(b);
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  const shorter = Math.min(before.length, after.length) - start;
  while (end < shorter && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  /** @type {DiffPart[]} */
  const parts = [];
  push(parts, "same", before.slice(0, start));
  middle(parts, before.slice(start, before.length - end), after.slice(start, after.length - end));
  push(parts, "same", before.slice(before.length - end));
  return parts;
}

/**
 * @param {DiffPart[]} parts
 * @param {DiffPart["kind"]} kind
 * @param {string[]} words
 */
function push(parts, kind, words) {
  if (words.length === 0) return;
  const last = parts.at(-1);
  if (last?.kind === kind) last.text += words.join("");
  else parts.push({ kind, text: words.join("") });
}

/**
 * @param {DiffPart[]} parts
 * @param {string[]} a
 * @param {string[]} b
 */
function middle(parts, a, b) {
  if (a.length * b.length > MOST_PAIRS || a.length === 0 || b.length === 0) {
    push(parts, "removed", a);
    push(parts, "added", b);
    return;
  }
  const wide = b.length + 1;
  const common = new Uint32Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * wide + j;
      common[at] =
        a[i] === b[j]
          ? numberAt(common, at + wide + 1) + 1
          : Math.max(numberAt(common, at + wide), numberAt(common, at + 1));
    }
  }
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const at = i * wide + j;
    if (i < a.length && j < b.length && a[i] === b[j]) {
      push(parts, "same", [a[i++] ?? ""]);
      j += 1;
    } else if (j >= b.length || (i < a.length && numberAt(common, at + wide) >= numberAt(common, at + 1)))
      push(parts, "removed", [a[i++] ?? ""]);
    else push(parts, "added", [b[j++] ?? ""]);
  }
}

/**
 * @param {Uint32Array} numbers
 * @param {number} at
 */
function numberAt(numbers, at) {
  return numbers[at] ?? 0;
}
