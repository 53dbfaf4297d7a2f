/** Key by which tabs find each other's engine: all that they must have in common. */
import type { MemberSource } from "../library/conclave.ts";

/** Options that a tab's engine is started with, and the page's version. */
type EngineKey = (string | undefined)[];

export interface KeyedMember {
  source: MemberSource;
  contextTokens: number;
}

/**
 * Undefined if another tab could not load the members: picked files belong to this tab, and a
 * server's key stays private.
 */
export function ensembleKey(engine: EngineKey, members: KeyedMember[]): string | undefined {
  if (
    members.length === 0 ||
    members.some(({ source: { ref, url } }) => (ref ?? url) === undefined)
  )
    return undefined;
  const keyed = members.map(({ source: { name, ref, url, quantise, core }, contextTokens }) => [
    name,
    ref ?? url,
    quantise,
    core,
    contextTokens,
  ]);
  return `conclave engine ${JSON.stringify([engine, keyed])}`;
}
