/**
 * Answers from a file: a tree that has been written down and does not change any more.
 */

/**
 * @param {import("../types.js").Bundle} bundle
 * @returns {import("../types.js").Source}
 */
export function fileSource(bundle) {
  return {
    writtenAt: bundle.written_at == null ? null : Date.parse(bundle.written_at),
    tree: async (id) => within(bundle.tree, id),
    changes: async (id) => ({ ...within(bundle.tree, id), nodes: [], refused: [] }),
    execution: async (id) => written(bundle.executions, id),
    timeline: async (id) => written(bundle.timelines, id),
    transcript: async (id, from) => since(written(bundle.transcripts, id), from),
    call: null,
    plan: null,
    consequences: null,
    act: null,
    follow: null,
  };
}

/**
 * @template T
 * @param {Record<string, T>} parts
 * @param {string} id
 * @returns {T}
 */
function written(parts, id) {
  if (!Object.hasOwn(parts, id)) throw new Error(`no execution \`${id}\` in this file`);
  return parts[id];
}

/**
 * The part of a tree at and below an execution.
 * @param {import("../types.js").Tree} tree
 * @param {string} id
 * @returns {import("../types.js").Tree}
 */
function within(tree, id) {
  if (id === tree.id) return tree;
  const top = tree.nodes.find((node) => node.id === id);
  if (top === undefined) throw new Error(`no execution \`${id}\` in this file`);
  const below = new Set([id]);
  for (const node of tree.nodes) {
    if (node.parent_execution_id !== null && below.has(node.parent_execution_id)) below.add(node.id);
  }
  return {
    ...tree,
    id,
    executions: below.size,
    nodes: tree.nodes.filter((node) => below.has(node.id)).map((node) => ({ ...node, level: node.level - top.level })),
    refused: tree.refused.filter((refusal) => below.has(refusal.parent_execution_id)),
    approvals: [],
    critical_path: tree.critical_path.filter((each) => below.has(each)),
  };
}

/**
 * @param {import("../types.js").Transcript} transcript
 * @param {number} from
 * @returns {import("../types.js").Transcript}
 */
function since(transcript, from) {
  return { ...transcript, messages: transcript.messages.filter((message) => message.position >= from) };
}
