/** The plan of a run: ticked by a visitor, or in the page's address (`?models=…&start`). */
import type { Backend } from "../protocol/engine.ts";
import type { Drafting, Models, Plan } from "./report.ts";
import { shapes, weightBytes, type BlockFormat } from "./shapes.ts";

export const formats: readonly BlockFormat[] = ["Q4_0", "Q8_0"];
export const ensembleSizes = [1, 2, 3, 5] as const;
export const draftings: readonly Drafting[] = ["all", "leader"];
export const prefixLengths = [128, 1024, 4096] as const;

export const defaultPlan: Plan = {
  backend: "webgpu",
  models: [{ kind: "bundled" }],
  ensembles: [1, 3],
  drafting: ["all"],
  prefixes: [128],
  segmentTokens: 10,
  repeats: 5,
  limitSeconds: 300,
  threads: 1,
};

/**
 * Plan that a visitor measures with one press: one member of the smallest published shape; on a GPU
 * also an ensemble of three, which takes minutes on a CPU.
 */
export const planHere = (backend: Backend, threads: number): Plan => ({
  ...defaultPlan,
  backend,
  models: [{ kind: "random", shape: "SmolLM2-135M", format: "Q4_0" }],
  ensembles: backend === "cpu" ? [1] : [1, 3],
  repeats: 3,
  limitSeconds: 20,
  threads: Math.min(threads, 64),
});

/**
 * A workload's name in addresses and tables: `bundled`, `SmolLM2-135M:Q4_0`, or
 * `files:one.gguf:other.gguf`.
 */
export function nameOf(models: Models): string {
  switch (models.kind) {
    case "bundled":
      return "bundled";
    case "random":
      return `${models.shape}:${models.format}`;
    case "files":
      return `files:${models.names.join(":")}`;
  }
}

function modelsNamed(name: string): Models {
  if (name === "bundled") return { kind: "bundled" };
  if (name.startsWith("files:")) {
    const names = name.slice("files:".length).split(":");
    // They are fetched from one folder beside the page.
    const strange = names.find((file) => !/^\w[\w.-]*\.gguf$/.test(file));
    if (strange !== undefined)
      throw new RangeError(
        `There is no file ${strange}. Name GGUF files of the folder files beside the page, ` +
          "with a colon between.",
      );
    return { kind: "files", names };
  }
  const [shape, format] = name.split(":");
  const known = formats.find((candidate) => candidate === format);
  if (!known || !shapes.some((candidate) => candidate.name === shape)) {
    const named = shapes.map((candidate) => candidate.name).join(", ");
    throw new RangeError(
      `There is no model ${name}. Take "bundled", "files:NAME.gguf", or one of ${named} ` +
        'with ":Q4_0" or ":Q8_0" after it.',
    );
  }
  return { kind: "random", shape: shape!, format: known };
}

function draftingNamed(name: string): Drafting {
  const known = draftings.find((candidate) => candidate === name);
  if (!known)
    throw new RangeError(`There is no kind of drafting ${name}. Take ${draftings.join(" or ")}.`);
  return known;
}

/**
 * Parses a plan in an address; what it leaves out is as in `otherwise`. Throws a RangeError that
 * says what is wrong.
 */
export function planFrom(query: URLSearchParams, otherwise = defaultPlan): Plan {
  const whole = (name: string, text: string, least: number, most: number): number => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < least || value > most)
      throw new RangeError(
        `${name} is ${text}. It must be a whole number from ${least} to ${most}.`,
      );
    return value;
  };
  const list = <T>(name: string, known: T[], item: (text: string) => T): T[] => {
    const text = query.get(name);
    return text === null ? known : text.split(",").map(item);
  };
  const backend = query.get("backend") ?? otherwise.backend;
  if (backend !== "cpu" && backend !== "webgpu")
    throw new RangeError(`There is no backend ${backend}. Take cpu or webgpu.`);
  return {
    backend: backend satisfies Backend,
    models: list("models", otherwise.models, modelsNamed),
    ensembles: list("ensembles", otherwise.ensembles, (text) => whole("ensembles", text, 1, 8)),
    drafting: list("drafting", otherwise.drafting, draftingNamed),
    prefixes: list("prefixes", otherwise.prefixes, (text) => whole("prefixes", text, 16, 7_900)),
    segmentTokens: whole(
      "segmentTokens",
      query.get("segmentTokens") ?? String(otherwise.segmentTokens),
      1,
      32,
    ),
    repeats: whole("repeats", query.get("repeats") ?? String(otherwise.repeats), 1, 1_000),
    limitSeconds: whole(
      "limitSeconds",
      query.get("limitSeconds") ?? String(otherwise.limitSeconds),
      0,
      1_000_000,
    ),
    threads: whole("threads", query.get("threads") ?? String(otherwise.threads), 1, 64),
  };
}

/** The address that {@link planFrom} parses as this plan. */
export function queryOf({
  backend,
  models,
  ensembles,
  drafting,
  prefixes,
  segmentTokens,
  repeats,
  limitSeconds,
  threads,
}: Plan): string {
  const values = {
    backend,
    models: models.map(nameOf),
    ensembles,
    drafting,
    prefixes,
    segmentTokens,
    repeats,
    limitSeconds,
    threads,
  };
  return Object.entries(values)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join("&");
}

/**
 * Maximum bytes of weights loaded at a time; excludes the small bundled members, and files, whose
 * size is not known yet.
 */
export function largestLoad({ models, ensembles }: Plan): number {
  const sizes = models.map((each) => {
    const shape = each.kind === "random" && shapes.find(({ name }) => name === each.shape);
    return shape ? weightBytes(shape, each.format) : 0;
  });
  return Math.max(0, ...sizes) * Math.max(1, ...ensembles);
}
