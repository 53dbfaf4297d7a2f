/** Starts the engine's workers, from a page or from a worker. */

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
  if (new URL(address).origin === location.origin) return address;
  const importer =
    importers.get(address) ??
    URL.createObjectURL(
      new Blob([`import ${JSON.stringify(address)};`], { type: "text/javascript" }),
    );
  importers.set(address, importer);
  return importer;
}

/** Starts a module worker; its name says which part it plays. */
export const startWorker = (address: string, name: string): Worker =>
  new Worker(trusted(ofThisOrigin(address)), { type: "module", name });
