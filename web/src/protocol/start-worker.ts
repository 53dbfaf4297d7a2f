/** Starts the engine's workers, from a page as from a worker. */

interface Policy {
  createScriptURL: (address: string) => string;
}

/**
 * Where pages demand that addresses of code come through a policy (`require-trusted-types-for
 * 'script'`).
 */
const { trustedTypes } = globalThis as {
  trustedTypes?: { createPolicy(name: string, rules: Policy): Policy };
};
let policy: Policy | undefined;

/**
 * The address as such a page takes it; pages that allow no policy of this name may still demand
 * none.
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

/** The address of a script of this origin: browsers start workers from no other. */
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

/** Starts a module worker; its name tells it which part it has. */
export const startWorker = (address: string, name: string): Worker =>
  new Worker(trusted(ofThisOrigin(address)), { type: "module", name });
