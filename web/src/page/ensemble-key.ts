/** The name by which tabs find each other's engine: it says all that such tabs have in common. */
import type { MemberSource } from "../library/conclave.ts";

/** How a tab's engine is started, and by which version of the page. */
export type EngineKey = (string | undefined)[];

export interface KeyedMember {
  source: MemberSource;
  contextTokens: number;
}

/**
 * Undefined where another tab could not find the members: picked files are this tab's, and a
 * server's key is told to nobody.
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
