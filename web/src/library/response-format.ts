/** What an answer is to be as a whole, and which schema that is to the engine. */
import { BadSettings } from "../protocol/errors.ts";

/**
 * What an answer is to be: words, a JSON object, or a JSON document of a schema. Whatever members
 * draft then begins such a document, on one line, so that an answer which ends by itself (`ended`)
 * is one. One that a limit ends is the beginning of one. Members don't read the schema: say in the
 * question what is wanted.
 */
export type ResponseFormat =
  | { type: "text" }
  | { type: "json_object" }
  | { type: "json_schema"; schema: object | boolean };

/**
 * The schema of a format as JSON text; undefined for words, which are what is asked for if it is
 * left out. Throws Settings for what is no format.
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
