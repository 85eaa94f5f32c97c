/**
 * Reads the text of an event stream: bytes arrive in any pieces, messages leave whole.
 */

/** @typedef {{id: string, event: string, data: string}} StreamMessage */

/**
 * Returns a function that takes the next piece of text and calls `tell` for each message that it completes.
 * @param {(message: StreamMessage) => void} tell
 * @returns {(piece: string) => void}
 */
export function messageReader(tell) {
  let rest = "";
  let id = "";
  let event = "";
  /** @type {string[]} */
  let data = [];

  /** @param {string} line */
  const take = (line) => {
    if (line === "") {
      if (data.length > 0 || event !== "") tell({ id, event: event || "message", data: data.join("\n") });
      event = "";
      data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    else if (field === "event") event = value;
    else if (field === "id" && !value.includes("\0")) id = value;
  };

  return (piece) => {
    rest += piece;
    // A final CR may be the first half of CR LF: it waits for the next piece.
    const whole = rest.endsWith("\r") ? rest.length - 1 : rest.length;
    const lines = rest.slice(0, whole).split(/\r\n|\n|\r/);
    rest = (lines.pop() ?? "") + rest.slice(whole);
    lines.forEach(take);
  };
}
