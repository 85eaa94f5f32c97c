/**
 * Which choices match a few letters, and in which order.
 */

/**
 * @typedef {object} Choice
 * @property {string} group
 * @property {string} words
 * @property {string} note
 * @property {boolean} [found] the server has found it for this text
 * @property {() => void} run
 */

const MOST = 24;

/**
 * How well words match: 0 is best, null is not at all.
 * @param {string} text
 * @param {string} words
 * @returns {number | null}
 */
export function matchRank(text, words) {
  const sought = text.toLowerCase();
  const said = words.toLowerCase();
  if (said.startsWith(sought)) return 0;
  if (said.includes(sought)) return 1;
  let from = 0;
  for (const letter of sought.replaceAll(" ", "")) {
    from = said.indexOf(letter, from) + 1;
    if (from === 0) return null;
  }
  return 2;
}

/**
 * The choices for a text, those of a group together, the group of the best match first.
 * @param {string} text
 * @param {Choice[]} choices
 * @returns {Choice[]}
 */
export function choicesFor(text, choices) {
  if (text === "") return choices.slice(0, MOST);
  /** @type {Map<string, {best: number, ranked: {rank: number, choice: Choice}[]}>} */
  const groups = new Map();
  for (const choice of choices) {
    const rank = matchRank(text, choice.words) ?? (choice.found ? 3 : null);
    if (rank === null) continue;
    const group = groups.get(choice.group) ?? { best: rank, ranked: [] };
    group.best = Math.min(group.best, rank);
    group.ranked.push({ rank, choice });
    groups.set(choice.group, group);
  }
  return [...groups.values()]
    .sort((a, b) => a.best - b.best)
    .flatMap((group) => group.ranked.sort((a, b) => a.rank - b.rank).map(({ choice }) => choice))
    .slice(0, MOST);
}
