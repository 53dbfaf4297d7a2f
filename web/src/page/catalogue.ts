/** The catalogue of real ensembles (web/catalogue.json): which models go together, where each lies, and its shape. */
import { flag, list, oneOf, optional, shape, text, whole, type Check, type Checked } from "../protocol/check.ts";
import { Download } from "../protocol/errors.ts";

/** What a file holds its matrices in; `Q4_K_M` is llama.cpp's mixture of Q4_K and Q6_K. */
export const fileFormats = ["F16", "Q8_0", "Q4_0", "Q4_K_M"] as const;
export type FileFormat = (typeof fileFormats)[number];

const count = whole(1, Number.MAX_SAFE_INTEGER);

const modelShape = shape({
  layers: count,
  hidden: count,
  heads: count,
  kvHeads: count,
  headDim: count,
  feedForward: count,
  vocabulary: count,
  /** The file holds one matrix for embedding and head. Some files of tied models hold two all the same. */
  tied: flag,
  /** Query, key and value are one matrix, gate and up another. */
  fused: optional(flag),
  /** Queries and keys have norms of their own. */
  context: count,
});

const model = shape({ name: text, family: text, licence: text, ref: text, format: oneOf(...fileFormats), shape: modelShape });
const ensemble = shape({ name: text, description: text, members: list(text) });

export type ModelShape = Checked<typeof modelShape>;
export type CatalogueModel = Checked<typeof model>;

export interface Ensemble {
  name: string;
  description: string;
  members: CatalogueModel[];
}

/** Checks the catalogue and resolves its names. Throws a TypeError that names the fault. */
export function parseCatalogue(data: unknown): Ensemble[] {
  const { models, ensembles } = shape({ models: record(model), ensembles: list(ensemble) })(data, "catalogue");
  return ensembles.map(({ name, description, members }) => {
    const found = members.map((id) => {
      const member = models.get(id);
      if (!member) throw new TypeError(`catalogue: ${name} names ${id}, which is not among the models`);
      return member;
    });
    if (found.length < 2 || found.length > 8) throw new TypeError(`catalogue: ${name} has ${found.length} members; an ensemble has two to eight`);
    return { name, description, members: found };
  });
}

/** Reads the catalogue beside the page. Throws {@link Download}. */
export async function readCatalogue(url: URL): Promise<Ensemble[]> {
  try {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`the host answered ${response.status}`);
    return parseCatalogue(await response.json());
  } catch (error) {
    throw new Download(`The catalogue could not be read (${String(error)}). Check that catalogue.json lies beside the page; models can still be added by hand.`, { cause: error });
  }
}

function record<T>(item: Check<T>): Check<Map<string, T>> {
  return (data, path) => {
    if (typeof data !== "object" || data === null || Array.isArray(data)) throw new TypeError(`${path}: expected an object`);
    return new Map(Object.entries(data).map(([key, value]) => [key, item(value, `${path}.${key}`)]));
  };
}
