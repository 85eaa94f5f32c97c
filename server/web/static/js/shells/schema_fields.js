/**
 * The fields of a form for the input that an agent declares by a JSON schema, and the input that a filled form says.
 */

/**
 * @typedef {object} SchemaField
 * @property {string} name
 * @property {"text" | "long" | "number" | "integer" | "boolean" | "choice" | "json"} kind
 * @property {string} label
 * @property {string} note
 * @property {boolean} required
 * @property {string[]} choices
 * @property {string} initial the default as text
 */

/** @typedef {Record<string, any>} JsonSchema */

/**
 * A field for each property; null if the input is no object with named properties, and has to be written as JSON.
 * @param {JsonSchema | null | undefined} schema
 * @returns {SchemaField[] | null}
 */
export function fieldsOf(schema) {
  if (!schema || typeof schema.properties !== "object" || schema.properties === null) return null;
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return Object.entries(schema.properties).map(([name, property]) => {
    const about = /** @type {JsonSchema} */ (property ?? {});
    const kind = kindOf(about);
    return {
      name,
      kind,
      label: typeof about.title === "string" ? about.title : name,
      note: typeof about.description === "string" ? about.description : "",
      required: required.has(name),
      choices: kind === "choice" ? about.enum.map(String) : [],
      initial: about.default === undefined ? "" : textOf(about.default, kind),
    };
  });
}

/**
 * @param {JsonSchema} property
 * @returns {SchemaField["kind"]}
 */
function kindOf(property) {
  if (Array.isArray(property.enum) && property.enum.every((each) => typeof each === "string")) return "choice";
  if (property.type === "boolean" || property.type === "number" || property.type === "integer") return property.type;
  if (property.type !== "string") return "json";
  return (property.maxLength ?? 0) > 200 || property.format === "textarea" ? "long" : "text";
}

/**
 * @param {unknown} value
 * @param {SchemaField["kind"]} kind
 */
function textOf(value, kind) {
  return kind === "json" ? JSON.stringify(value) : String(value);
}

/**
 * The input that the texts of a form say: what is empty is left out, unless the schema requires it. A box that is not
 * ticked says false where leaving it out would mean something else.
 * @param {SchemaField[]} fields
 * @param {Record<string, string>} texts by name; a ticked box is `true`
 * @returns {{input: Record<string, unknown>, errors: Record<string, string>}}
 */
export function inputOf(fields, texts) {
  /** @type {Record<string, unknown>} */
  const input = {};
  /** @type {Record<string, string>} */
  const errors = {};
  for (const field of fields) {
    const text = (texts[field.name] ?? "").trim();
    if (field.kind === "boolean" && text === "") {
      if (field.required || field.initial === "true") input[field.name] = false;
      continue;
    }
    if (text === "") {
      if (field.required) errors[field.name] = "is required";
      continue;
    }
    try {
      input[field.name] = valueFrom(field.kind, text);
    } catch (failure) {
      errors[field.name] = failure instanceof Error ? failure.message : String(failure);
    }
  }
  return { input, errors };
}

/**
 * @param {SchemaField["kind"]} kind
 * @param {string} text
 * @returns {unknown}
 */
export function valueFrom(kind, text) {
  if (kind === "boolean") return text === "true";
  if (kind === "number" || kind === "integer") {
    const number = Number(text);
    if (!Number.isFinite(number)) throw new Error("is no number");
    if (kind === "integer" && !Number.isInteger(number)) throw new Error("is no whole number");
    return number;
  }
  if (kind !== "json") return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("is no JSON");
  }
}
