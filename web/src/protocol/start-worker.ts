/** Starts the engine's workers, from a page or from a worker. */
import { EngineFailure } from "./errors.ts";

/** The part of a Worker's interface that is used here; tests substitute a service. */
export interface Port {
  postMessage(data: unknown, moved?: Transferable[]): void;
  terminate(): void;
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
  onmessageerror: ((event: MessageEvent<unknown>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
}

interface Policy {
  createScriptURL: (address: string) => string;
}

/** For pages that require Trusted Types (`require-trusted-types-for 'script'`). */
const { trustedTypes } = globalThis as {
  trustedTypes?: { createPolicy(name: string, rules: Policy): Policy };
};
let policy: Policy | undefined;

/**
 * The address as a trusted URL. A page that forbids this policy's name may accept the plain
 * address.
 */
function trusted(address: string): string {
  try {
    policy ??= trustedTypes?.createPolicy("conclave", { createScriptURL: (each) => each });
  } catch {
    return address;
  }
  return policy?.createScriptURL(address) ?? address;
}

/** Scripts of this origin that import one of another, by its address. */
const importers = new Map<string, string>();

/** Address of a script of this origin, since browsers start no other workers. */
function ofThisOrigin(address: string): string {
  // Unlike its location, the origin of a page in `srcdoc` is its creator's.
  if (new URL(address).origin === self.origin) return address;
  const importer =
    importers.get(address) ??
    URL.createObjectURL(
      new Blob([`import ${JSON.stringify(address)};`], { type: "text/javascript" }),
    );
  importers.set(address, importer);
  return importer;
}

/** Starts a module worker; its name says which part it plays. Throws Engine. */
export function startWorker(address: string, name: string): Worker {
  const url = trusted(ofThisOrigin(address));
  try {
    return new Worker(url, { type: "module", name });
  } catch (error) {
    throw new EngineFailure(
      `A worker could not be started from ${address} (${String(error)}). Check the page's ` +
        "policy: its worker-src, and for Trusted Types `trusted-types conclave 'allow-duplicates'`.",
      { cause: error },
    );
  }
}
