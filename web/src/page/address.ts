/** Options in the page's address. */
import { backendNamed, coreNamed, type BackendChoice } from "../protocol/backend.ts";
import { definedFields } from "../protocol/defined-fields.ts";
import { hubNamed } from "./named-hub.ts";

const query = new URLSearchParams(location.search);
export const debug = query.has("debug");
export const backend = backendNamed(query.get("backend"));
/** Kept in the address, whichever backend the engine is reopened on. */
export const core = coreNamed(query.get("core"));
export const hub = hubNamed(query);
export const engineOptions = definedFields({ hub, core });

/** Sets the backend in the address, for reloads. */
export function setBackend(choice: BackendChoice): void {
  const address = new URL(location.href);
  if (choice === "auto") address.searchParams.delete("backend");
  else address.searchParams.set("backend", choice);
  history.replaceState(null, "", address);
}
