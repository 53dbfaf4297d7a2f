/** Form of a whole answer, and the schema that the engine gets for it. */
import { BadSettings } from "../protocol/errors.ts";

/**
 * Form of an answer: words, a JSON object, or a JSON document that conforms to a schema. All drafts
 * then begin such a document, on one line, so that an answer that ends by itself (`ended`) is
 * complete; one ended by a limit is a beginning. Members don't read the schema: say in the question
 * what is wanted.
 */
export type ResponseFormat =
  | { type: "text" }
  | { type: "json_object" }
  | { type: "json_schema"; schema: object | boolean };

/**
 * Schema of a format as JSON text; undefined for words, the default. Throws Settings for an invalid
 * format.
 */
export function schemaOf(format: ResponseFormat = { type: "text" }): string | undefined {
  const { type } = format;
  if (type === "text") return undefined;
  if (type === "json_object") return JSON.stringify({ type: "object" });
  if (type !== "json_schema")
    throw new BadSettings(
      `There is no response format ${JSON.stringify(type)}. Take text, json_object or json_schema.`,
    );
  const { schema } = format as { schema: unknown };
  if (
    typeof schema !== "boolean" &&
    (typeof schema !== "object" || schema === null || Array.isArray(schema))
  ) {
    throw new BadSettings(
      "A response format of the type json_schema has a `schema`, which is an object. Give one.",
    );
  }
  try {
    return JSON.stringify(schema);
  } catch (error) {
    throw new BadSettings(
      `The schema of the response format is no JSON (${String(error)}). Pass plain data.`,
      { cause: error },
    );
  }
}
