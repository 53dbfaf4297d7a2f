/** Forms of answers by a schema; the module that follows them is fetched for the first one. */
import type { Form, Member } from "../protocol/engine.ts";
import { BadSettings } from "../protocol/errors.ts";
import { unlessAborted } from "../protocol/unless-aborted.ts";
import { notOpen } from "./engine-module.ts";
import type { Grammars } from "./grammars.ts";

export class Forms {
  readonly #fetch: (address: string) => Promise<WebAssembly.Module>;
  readonly #grammars: Grammars;
  /** Address of the grammars' module, known once the engine opens. */
  address: string | undefined;
  #compiled: Promise<WebAssembly.Module> | undefined;

  constructor(fetch: (address: string) => Promise<WebAssembly.Module>, grammars: Grammars) {
    this.#fetch = fetch;
    this.#grammars = grammars;
  }

  /**
   * Form of an answer by this schema, once the schema is known to be supported; an abort does not
   * wait for a fetch. Throws Settings, Download, the signal's reason.
   */
  async by(
    schema: string | undefined,
    members: readonly Member[],
    signal: AbortSignal,
  ): Promise<Form | undefined> {
    if (schema === undefined) return undefined;
    if (members.every(({ remote }) => remote))
      throw new BadSettings(
        "Members behind servers can't be held to a schema: they only judge such an answer. " +
          "Add a member that runs here, or ask for words.",
      );
    if (this.address === undefined) throw notOpen();
    this.#compiled ??= this.#fetch(this.address);
    this.#compiled.catch(() => (this.#compiled = undefined)); // the next answer tries again
    const form = { compiled: await unlessAborted(this.#compiled, signal), schema };
    await this.#grammars.check(form);
    return form;
  }
}
