/**
 * Every fault the loopback hub knows, and what becomes of it: survived, or told. The table is the
 * tool's as well.
 */
import { readFileSync } from "node:fs";
import type { Fault } from "./hub.ts";

/** The model is of some sixteen chunks, in `owner/model/weights.gguf`. */
interface Case {
  name: string;
  faults: Fault[];
  /** The reference, if not that of the model. */
  what?: string;
  /** How often the whole file is fetched beyond once, where that is certain. */
  extra?: number;
  /** What the page says. */
  page?: string;
  /** A page can't see it of another origin. */
  hidden?: boolean;
}

const table = JSON.parse(
  readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}../tests/hub/faults.json`, "utf8"),
) as { survived: Case[]; told: Case[] };

export const survived = table.survived.map(({ page, ...rest }) => ({
  ...rest,
  note: page === undefined ? undefined : new RegExp(page),
}));
export const told = table.told.map(({ page = "", ...rest }) => ({
  ...rest,
  says: new RegExp(page),
}));
