/**
 * Description of a member and its needs: before it is loaded as far as known, then as the engine
 * reports.
 */
import type { Conclave } from "../library/conclave.ts";
import type { About, Backend, Core, Memory } from "../protocol/engine.ts";
import type { ManifestEntry } from "../store/load.ts";
import type { MemberSource } from "../protocol/messages.ts";
import type { CatalogueModel } from "./catalogue.ts";
import { bytes, parameters, plural, sentence } from "./figures.ts";

export interface Known {
  source: MemberSource;
  entry?: ManifestEntry | undefined;
  model?: CatalogueModel | undefined;
  /** Set once it is loaded. */
  about?: About | undefined;
  backend?: Backend | undefined;
  /** Expected core before it is loaded, if known. */
  core?: Core | undefined;
}

/** Names of the engine's architectures, as the catalogue and docs/models.md spell them. */
const families: Record<string, string> = {
  ernie4_5: "ERNIE 4.5",
  exaone4: "EXAONE 4",
  gemma: "Gemma",
  gemma2: "Gemma 2",
  gemma3: "Gemma 3",
  gemma4: "Gemma 4",
  glm4: "GLM-4",
  granite: "Granite",
  granitehybrid: "Granite 4",
  "hunyuan-dense": "Hunyuan",
  lfm2: "LFM2",
  lfm2moe: "LFM2-MoE",
  llama: "Llama",
  mistral: "Mistral",
  mistral3: "Ministral 3",
  olmo2: "OLMo 2",
  olmoe: "OLMoE",
  phi3: "Phi-3",
  qwen2: "Qwen2",
  qwen3: "Qwen3",
  qwen35: "Qwen3.5",
  smollm3: "SmolLM3",
};

/** Name of an architecture; one that has no name here is shown as it is. */
export const familyName = (architecture: string): string => families[architecture] ?? architecture;

/** Host of a member that is not on this machine. */
const elsewhere = ({ source }: Pick<Known, "source">): string | undefined =>
  source.remote === undefined ? undefined : URL.parse(source.remote)?.host;

/**
 * Where an ensemble answers, and which host receives the questions, if any; `short`: below the
 * page's name.
 */
export function whereabouts(members: Pick<Known, "source">[], short = false): string {
  const hosts = [...new Set(members.flatMap((member) => elsewhere(member) ?? []))];
  const here = members.some((member) => elsewhere(member) === undefined);
  if (hosts.length > 0)
    return (
      `${here ? "here and " : ""}at ${sentence(hosts)}: ` +
      "what you ask and what is answered goes there"
    );
  if (!short) return "here, on this machine. Nothing you type leaves it";
  return members.some(({ source }) => source.builtIn) ? "inside this browser" : "inside this tab";
}

/**
 * Size, family, formats, and an unusual core. `openCore`: bytes of its module, if still to be
 * fetched.
 */
export function facts(known: Known, openCore?: number): string {
  const { source, entry, model, about, core } = known;
  const host = elsewhere(known);
  if (source.builtIn)
    return ["the browser's own model", about?.remote?.can].filter(Boolean).join(" · ");
  if (host !== undefined)
    return [`at ${host}`, about?.remote?.model ?? source.model, about?.remote?.can]
      .filter(Boolean)
      .join(" · ");
  const family = entry?.architecture ?? model?.family;
  const named =
    (about?.core ?? core) === "burn"
      ? `runs on the open core${openCore === undefined ? "" : `, + ${bytes(openCore)}`}`
      : undefined;
  if (about)
    return [
      `${parameters(about.parameters)}\u00a0parameters`,
      bytes(about.bytes),
      `${family ?? familyName(about.architecture)} model, its numbers in ${formats(about)}`,
      named,
    ]
      .filter(Boolean)
      .join(" · ");
  const size = source.files?.reduce((sum, file) => sum + file.size, 0) ?? source.bytes;
  return [
    family,
    entry?.tokenizer,
    model?.format,
    size === undefined ? undefined : bytes(size),
    named,
  ]
    .filter(Boolean)
    .join(" · ");
}

/** Stated abilities, and what to expect of a base model. */
export function description(known: Known): string {
  const { source, entry, about } = known;
  const host = elsewhere(known);
  if (source.builtIn) return "The browser runs it on this machine; your questions stay here.";
  if (host !== undefined) {
    const note = about?.remote?.note;
    const limits = note ? ` It can no more, since ${note}.` : "";
    return `${host} hears what is asked and answered.${limits}`;
  }
  const base =
    about?.template === false
      ? "Base model, no chat template: " +
        "it reads questions with examples and answers in one paragraph."
      : undefined;
  return [entry?.description, base].filter(Boolean).join(" ");
}

/** Formats of a member's matrices, and the engine's formats for those it converts. */
export function formats({
  formats,
  quantisation,
}: Pick<About, "formats" | "quantisation">): string {
  const changed = formats.filter(({ stored, kept }) => kept !== null && kept !== stored);
  const asStored = formats
    .filter((format) => !changed.includes(format))
    .map(({ stored }) => stored);
  const parts = [...new Set(asStored)].join(", ");
  const others = [...new Set(changed.map(({ kept }) => kept))].map(
    (kept) =>
      `${changed
        .filter((format) => format.kept === kept)
        .map(({ stored }) => stored)
        .join(", ")} kept as ${kept}`,
  );
  return [parts, ...others].filter(Boolean).join("; ") || quantisation;
}

/** Graphics memory of a loaded member; empty on the CPU, where only the total is known. */
export function graphicsMemory({ about, backend }: Known): string {
  return about && !about.remote && backend === "webgpu"
    ? `${bytes(total(about.memory))} of graphics memory`
    : "";
}

/** Memory of all loaded members. `heapBytes`: the wasm module's memory. */
export function memoryTogether(members: Known[], heapBytes: number): string {
  const loaded = members.filter(({ about }) => about && !about.remote);
  const [first] = loaded;
  if (!first) return "";
  if (first.backend !== "webgpu") return `Loaded, they hold ${bytes(heapBytes)} of memory.`;
  const parts = sumOf(loaded.flatMap(({ about }) => about?.memory ?? []));
  const all = `${loaded.length === 1 ? "In all" : "Together"} ${bytes(total(parts))}`;
  return `${all} of graphics memory: ${memoryParts(parts)}.`;
}

/** Memory of several models together. */
export function sumOf(memories: Memory[]): Memory {
  const sum = (part: keyof Memory): number =>
    memories.reduce((all, memory) => all + memory[part], 0);
  return { weights: sum("weights"), kv: sum("kv"), scratch: sum("scratch") };
}

export const total = ({ weights, kv, scratch }: Memory): number => weights + kv + scratch;

export const memoryParts = ({ weights, kv, scratch }: Memory): string =>
  `weights ${bytes(weights)}, keys and values ${bytes(kv)}, working room ${bytes(scratch)}`;

/** Engine and device of the members; `elsewhere`: in another tab. */
export function engineText(
  { backend, adapter, why, threads }: Pick<Conclave, "backend" | "adapter" | "why" | "threads">,
  elsewhere: boolean,
): string {
  const where = backend === "webgpu" ? `GPU: ${adapter.name}` : `CPU, ${plural(threads, "thread")}`;
  return `${where} (${why})${elsewhere ? ", in another tab" : ""}`;
}
