/**
 * The catalogue of real ensembles (web/catalogue.json): which models go together, their addresses
 * and their needs.
 */
import { list, optional, record, shape, text, whole, type Checked } from "../protocol/check.ts";
import type { Backend, Memory } from "../protocol/engine.ts";
import { Download } from "../protocol/errors.ts";

const count = whole(1, Number.MAX_SAFE_INTEGER);
const needed = shape({
  weights: count,
  kv: count,
  scratch: count,
  perToken: shape({ weights: count, kv: count }),
});

const model = shape({
  name: text,
  family: text,
  licence: text,
  ref: text,
  format: text,
  /** Approximate size of its file, replaced by the exact one once the hub was asked. */
  bytes: count,
  /**
   * Result of our own evaluation of this model (README.md). It names the format if a file of
   * another format was measured. Absent if the model was not measured.
   */
  measured: optional(text),
  /**
   * Memory while it runs; `perToken` is per token of context. The CPU's `scratch` is approximate.
   */
  memory: shape({ webgpu: needed, cpu: needed }),
  /** Input of its figures (crates/model/tests/catalogue.rs); only the field used here. */
  shape: shape({ context: count }),
});
const ensemble = shape({
  name: text,
  description: text,
  members: list(text),
  /** Result of our own evaluation. */
  measured: optional(text),
});

export type CatalogueModel = Checked<typeof model>;

export interface Ensemble {
  name: string;
  description: string;
  members: CatalogueModel[];
  measured?: string | undefined;
}

/** Memory for a context of `contextTokens`, or at most the model's own. */
export function memoryOf(
  { memory, shape }: CatalogueModel,
  context: number,
  backend: Backend,
): Memory {
  const { weights, kv, scratch, perToken } = memory[backend];
  const tokens = Math.min(context, shape.context);
  return { weights: weights + tokens * perToken.weights, kv: kv + tokens * perToken.kv, scratch };
}

/** Checks the catalogue and resolves its names. Throws a TypeError that names the fault. */
export function parseCatalogue(data: unknown): Ensemble[] {
  const { models, ensembles } = shape({ models: record(model), ensembles: list(ensemble) })(
    data,
    "catalogue",
  );
  return ensembles.map(({ name, description, members, measured }) => {
    const found = members.map((id) => {
      const member = Object.hasOwn(models, id) ? models[id] : undefined;
      if (!member)
        throw new TypeError(`catalogue: ${name} names ${id}, which is not among the models`);
      return member;
    });
    if (found.length < 2 || found.length > 8)
      throw new TypeError(
        `catalogue: ${name} has ${found.length} members; an ensemble has two to eight`,
      );
    return { name, description, members: found, measured };
  });
}

/** Reads the catalogue beside the page. Throws {@link Download}. */
export async function readCatalogue(url: URL): Promise<Ensemble[]> {
  try {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`the host answered ${response.status}`);
    return parseCatalogue(await response.json());
  } catch (error) {
    throw new Download(
      `The catalogue could not be read (${String(error)}). ` +
        "Check that catalogue.json lies beside the page; models can still be added by hand.",
      { cause: error },
    );
  }
}
