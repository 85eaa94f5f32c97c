/**
 * The transcript of one execution as it grows: what is known stays, and only what may differ is asked again.
 */

/** @import {ModelCall, Source, Transcript, TranscriptMessage} from "../types.js" */

export class Conversation {
  /**
   * @param {Source} source
   * @param {string} id
   */
  constructor(source, id) {
    this.source = source;
    this.id = id;
    /** @type {Map<number, TranscriptMessage>} */
    this.known = new Map();
    /** @type {ModelCall[]} */
    this.modelCalls = [];
    this.total = 0;
    /** @type {number | null} */
    this.next = 0;
  }

  /** In order. */
  messages() {
    return [...this.known.values()].sort((one, other) => one.position - other.position);
  }

  /** Asks for what may have changed: from the first message with a call that has not ended, and what came after. */
  async refresh() {
    const messages = this.messages();
    const open = messages.find((message) => message.calls.some((call) => call.finished_at === null));
    const last = messages.at(-1);
    this.take(await this.source.transcript(this.id, open?.position ?? (last === undefined ? 0 : last.position + 1)));
  }

  /** Asks for the messages after those that are known. */
  async more() {
    if (this.next !== null) this.take(await this.source.transcript(this.id, this.next));
  }

  /** @param {Transcript} transcript */
  take(transcript) {
    for (const message of transcript.messages) this.known.set(message.position, message);
    const calls = new Map([...this.modelCalls, ...transcript.model_calls].map((call) => [call.id, call]));
    this.modelCalls = [...calls.values()].sort((one, other) => one.turn - other.turn);
    this.total = Math.max(transcript.total, this.known.size);
    this.next = transcript.next_position;
  }

  /**
   * The message that asked for a call.
   * @param {string} call the id the model gave it, or that of its row
   */
  messageOf(call) {
    return this.messages().find((message) => message.calls.some((each) => each.call_id === call || each.id === call));
  }
}

/**
 * The text of a message.
 * @param {TranscriptMessage} message
 */
export function textOf(message) {
  return message.content
    .filter((block) => typeof block.text === "string" && (block.type === "text" || block.type === undefined))
    .map((block) => String(block.text))
    .join("\n\n");
}
