/** Runs the native tool, and llama.cpp by its Python package, on the workloads of the bench. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { figuresOf } from "../../src/bench/figures.ts";
import { nameOf } from "../../src/bench/plan.ts";
import type {
  PeerSeries,
  Plan,
  Measured,
  Run,
  Surroundings,
  WorkloadReport,
} from "../../src/bench/report.ts";

/** Room after the longest prefix, for drafts, candidates in line and consecutive rounds. */
const roomBehindPrefix = 256;

/** A program's standard output; its standard error goes to `tell`, line by line. */
async function outputOf(
  program: string,
  args: string[],
  tell: (line: string) => void,
): Promise<string> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const [out, said] = [[] as Buffer[], [] as string[]];
  child.stdout.on("data", (bytes: Buffer) => out.push(bytes));
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    for (const line of text.split("\n").filter(Boolean)) {
      said.push(line);
      tell(line);
    }
  });
  const code = await new Promise<number | null>((resolve, reject) =>
    child.on("error", reject).on("close", resolve),
  );
  if (code !== 0)
    throw new Error(`${program} failed: ${said.slice(-3).join(" ") || `it ended with ${code}`}`);
  return Buffer.concat(out).toString("utf8");
}

export class Native {
  readonly #tool: string;
  readonly #gguf: string;
  readonly #files: string;
  readonly #peer: { python: string; script: string } | undefined;

  /**
   * `gguf` holds the random models as `SHAPE-FORMAT-SEED.gguf`, `files` those that a plan names;
   * `peer`: a Python with llama.cpp's package, and the script that measures with it.
   */
  constructor(
    tool: string,
    gguf: string,
    files: string,
    peer?: { python: string; script: string },
  ) {
    this.#tool = tool;
    this.#gguf = gguf;
    this.#files = files;
    this.#peer = peer;
  }

  /** Path of member number `number` of a plan, from 0; undefined for the bundled members. */
  #file({ models: [models] }: Plan, number: number): string | undefined {
    if (models?.kind === "random")
      return join(this.#gguf, `${models.shape}-${models.format}-${number + 1}.gguf`);
    return models?.kind === "files"
      ? join(this.#files, models.names[number % models.names.length]!)
      : undefined;
  }

  /** Measures a plan of one workload. */
  async measure(plan: Plan, tell: (line: string) => void): Promise<Measured> {
    const most = Math.max(...plan.ensembles);
    const files = Array.from({ length: most }, (_, member) => this.#file(plan, member)).filter(
      (file) => file !== undefined,
    );
    const args = [
      "bench",
      "--json",
      "--device",
      plan.backend === "cpu" ? "cpu" : "gpu",
      "--threads",
      String(plan.threads),
      "--prefixes",
      plan.prefixes.join(","),
      "--ensembles",
      plan.ensembles.join(","),
      "--drafting",
      plan.drafting.join(","),
      "--segment-tokens",
      String(plan.segmentTokens),
      "--repeats",
      String(plan.repeats),
      "--limit-seconds",
      String(plan.limitSeconds),
      "--context",
      String(Math.max(...plan.prefixes) + roomBehindPrefix),
    ];
    // The page's bench draws greedily from random weights, too: all words are almost equally
    // probable.
    if (plan.models[0]?.kind === "random") args.push("--greedy");
    if (files.length > 0) args.push("--members", files.join(","));
    const made = new Date().toISOString();
    const { surroundings, workload } = JSON.parse(await outputOf(this.#tool, args, tell)) as {
      surroundings: Surroundings;
      workload: Omit<WorkloadReport, "figures">;
    };
    const [models] = plan.models;
    if (models) workload.models = models.kind === "random" ? models.shape : nameOf(models);
    return {
      made,
      plan,
      surroundings,
      workloads: [
        {
          ...workload,
          figures: figuresOf(workload, plan.segmentTokens, surroundings.copyBytesPerSecond),
        },
      ],
    };
  }

  /** The same prompts and drafts with llama.cpp; empty without a Python for it. */
  async measurePeer(plan: Plan): Promise<Run["theirs"]> {
    const file = this.#file(plan, 0);
    if (!this.#peer || file === undefined) return {};
    const args = [
      this.#peer.script,
      file,
      "--prefixes",
      plan.prefixes.join(","),
      "--segment-tokens",
      String(plan.segmentTokens),
      "--repeats",
      String(plan.repeats),
      "--threads",
      String(plan.threads),
      "--limit-seconds",
      String(plan.limitSeconds),
    ];
    return {
      "llama.cpp": JSON.parse(
        await outputOf(this.#peer.python, args, (line) => console.error(line)),
      ) as PeerSeries[],
    };
  }
}
