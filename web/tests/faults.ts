/**
 * Every fault of the loopback hub, and the expected result: survived, or reported. The tool uses
 * the same table.
 */
import { readFileSync } from "node:fs";
import type { Fault } from "./hub.ts";

/** The model has some sixteen chunks, in `owner/model/weights.gguf`. */
interface Case {
  name: string;
  faults: Fault[];
  /** The reference, if not that of the model. */
  what?: string;
  /** How often the whole file is fetched again, if that is certain. */
  extra?: number;
  /** The page's message. */
  page?: string;
  /** Invisible to a page of another origin. */
  hidden?: boolean;
}

const table = JSON.parse(
  readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}../tests/hub/faults.json`, "utf8"),
) as { survived: Case[]; told: Case[] };

export const survived = table.survived.map(({ page, ...rest }) => ({
  ...rest,
  note: page === undefined ? undefined : new RegExp(page),
}));
export const reported = table.told.map(({ page = "", ...rest }) => ({
  ...rest,
  says: new RegExp(page),
}));
