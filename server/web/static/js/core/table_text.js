/**
 * The rows of a query as text for another program, and what of them can be drawn.
 */

/** @typedef {Record<string, unknown>} Row */

/** An id as `db.ids` makes it: Crockford's base 32, in lower case. */
const ID = /^[0-9abcdefghjkmnpqrstvwxyz]{37}$/;
const TEXT_OF_MONTH = /^\d{4}-\d\d/;

/** @param {unknown} value */
export function cellText(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/**
 * A number for a reader: a whole one exactly, another without the noise of its last digits.
 * @param {number} value
 */
export function numberText(value) {
  return String(Math.abs(value) < 1e9 ? Number(value.toPrecision(12)) : value);
}

/**
 * Rows as CSV of RFC 4180. A text that a spreadsheet would take for a formula is given an apostrophe.
 * @param {string[]} columns
 * @param {Row[]} rows
 */
export function csvText(columns, rows) {
  const line = (/** @type {unknown[]} */ values) => values.map(csvCell).join(",");
  return [line(columns), ...rows.map((row) => line(columns.map((column) => row[column])))].join("\r\n");
}

/** @param {unknown} value */
function csvCell(value) {
  const text = cellText(value);
  const safe = typeof value === "string" && /^(?!-\d+$)[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * The execution that a cell names; null if it names none.
 * @param {string} column
 * @param {unknown} value
 */
export function executionOf(column, value) {
  if (typeof value !== "string" || !ID.test(value)) return null;
  return column === "id" || column.endsWith("execution_id") ? value : null;
}

/** @param {unknown} value */
export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/**
 * The columns that hold numbers only, apart from empty cells.
 * @param {string[]} columns
 * @param {Row[]} rows
 */
export function numberColumns(columns, rows) {
  return columns.filter((column) => {
    const values = rows.map((row) => row[column]).filter((value) => value !== null && value !== undefined);
    return values.length > 0 && values.every(isNumber);
  });
}

/**
 * The two columns to draw first: a time, a name or else the first column across, the next number upwards; null if nothing
 * can be drawn.
 * @param {string[]} columns
 * @param {Row[]} rows
 * @returns {{x: string, y: string} | null}
 */
export function columnsToDraw(columns, rows) {
  const numbers = numberColumns(columns, rows);
  if (numbers.length === 0) return null;
  const named = columns.find(
    (column) => !numbers.includes(column) && rows.some((row) => TEXT_OF_MONTH.test(cellText(row[column]))),
  );
  const x = named ?? columns.find((column) => !numbers.includes(column)) ?? /** @type {string} */ (columns[0]);
  return { x, y: numbers.find((column) => column !== x) ?? x };
}
