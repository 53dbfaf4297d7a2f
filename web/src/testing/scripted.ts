/**
 * Scripted members for the unit tests of the round loop and the service; they keep a journal of
 * every call. They only test the loop's order; members' computations are tested in Rust.
 */
import type {
  Begun,
  Candidate,
  Constraint,
  Counters,
  Draft,
  Failure,
  ModuleMember,
  GrammarModule,
  RemoteModule,
  Message,
  ModelAbout,
  OnReading,
  OnThinking,
  Ranges,
  RoundReport,
  Rounds,
  RoundsEvent,
  RoundsMove,
  RoundsOptions,
  Rules,
  Sampling,
  Score,
  Settings,
  Stop,
  Thinking,
  Thought,
  VerifiedScore,
} from "../protocol/engine.ts";
import { harmonic, leader, paper } from "../protocol/generated-settings.ts";

export const settings: Settings = { ...harmonic, segmentTokens: 10, alone: 0, lead: 1 };

export const rules: Rules = {
  harmonic: settings,
  leader: { ...settings, leader: leader.leader },
  paper,
};
export const ranges: Ranges = { segmentTokens: { low: 1, high: 64 } };

export interface Script {
  /** Drafts, in order; the last one repeats. */
  drafts: Candidate[];
  /** The mean logit it gives to a candidate of this text. */
  taste: (text: string) => number;
  /** Failure thrown at the nth call (from 1) of a move. */
  failure?: {
    move: "measure" | "begin" | "think" | "draft" | "verify" | "keep";
    call: number;
    error: Error;
  };
  /** Pieces of its thought before it answers, if allowed. */
  thoughts?: string[];
  /** Whether it resolves without a turn of the event loop, as the CPU backend does. */
  instant?: boolean;
  /** Tokens of a conversation read in one step; all by default. */
  step?: number;
  /** Number of tokens that a conversation measures; five by default, at most 64. */
  tokens?: (messages: Message[]) => number;
  /**
   * Model name in the keys and bytes of its kept system prompts; absent if it keeps none. It
   * refuses the bytes of another model.
   */
  prompts?: { model: string };
  /** Whether the fused core refuses to load it. */
  noPlan?: boolean;
  /** Called before every move. */
  onMove?: (move: string, call: number) => void | Promise<void>;
}

/** Context size of a scripted member, in tokens. */
const room = 64;

export class ScriptedMember implements ModuleMember {
  readonly #name: string;
  readonly #script: Script;
  readonly #journal: string[];
  readonly #calls: Record<string, number> = {};
  readonly #counters: Counters = { prefix: 0, prefillTokens: 0, draftTokens: 0, verifyTokens: 0 };
  #busy = false;
  #verified: Candidate[] = [];
  #constraint: Constraint | undefined;
  messages: Message[] = [];
  sampling: Sampling | undefined;
  stream: number | undefined;
  thinking: Thinking | undefined;
  /** Settings of the last verification. */
  settings: Settings | undefined;

  constructor(name: string, journal: string[], script: Script) {
    this.#name = name;
    this.#journal = journal;
    this.#script = script;
  }

  get name(): string {
    this.#refuseBusy();
    return this.#name;
  }

  about(): ModelAbout {
    this.#refuseBusy();
    return {
      name: this.#name,
      architecture: "scripted",
      parameters: 0,
      quantisation: "",
      bytes: 0,
      context: room,
      vocabulary: 0,
      layers: 0,
      hidden: 0,
      template: true,
      formats: [],
      memory: { weights: 0, kv: 0, scratch: 0 },
    };
  }

  async measure(messages: Message[] = [], thinking: Thinking = "off"): Promise<number> {
    return this.#move("measure", () => {
      this.thinking = thinking;
      const tokens = this.#script.tokens?.(messages) ?? 5;
      if (tokens > room)
        throw Object.assign(
          new Error(`${tokens} tokens do not fit the context of ${room} tokens.`),
          { name: "ContextFull" },
        );
      return tokens;
    });
  }

  async systemKey(messages: Message[]): Promise<Uint8Array | undefined> {
    return this.#move("systemKey", () => this.#prefixOf(messages));
  }

  async giveSystem(): Promise<Uint8Array | undefined> {
    return this.#move("giveSystem", () => this.#prefixOf(this.messages));
  }

  async takePrefix(prefix: Uint8Array): Promise<void> {
    return this.#move("takePrefix", () => {
      const text = new TextDecoder().decode(prefix);
      if (!text.startsWith(`${this.#script.prompts?.model}: `))
        throw new Error("The saved prefix is of another model.");
      this.#journal.push(`${this.#name} has ${text}`);
    });
  }

  #prefixOf(messages: Message[]): Uint8Array | undefined {
    const { prompts } = this.#script;
    if (messages[0]?.role !== "system") return undefined; // its template begins with nothing
    return prompts && new TextEncoder().encode(`${prompts.model}: ${messages[0]?.content}`);
  }

  /** Reads five tokens for any conversation; continues a stopped one. */
  async begin(
    messages: Message[],
    sampling: Sampling,
    stream: number,
    onReading: OnReading = () => true,
  ): Promise<Begun> {
    return this.#move("begin", async () => {
      this.messages = messages;
      this.sampling = sampling;
      this.stream = stream;
      const total = 5;
      if (this.#counters.prefix >= total) this.#counters.prefix = 0;
      const before = this.#counters.prefix;
      for (let goOn = true; goOn && this.#counters.prefix < total; ) {
        const tokens = Math.min(this.#script.step ?? total, total - this.#counters.prefix);
        this.#counters.prefix += tokens;
        this.#counters.prefillTokens += tokens;
        goOn = await onReading(this.#counters.prefix, total);
      }
      const { prefix } = this.#counters;
      return { prefix, run: prefix - before, stopped: prefix < total };
    });
  }

  constrain(constraint?: Constraint): void {
    this.#constraint = constraint;
    this.#journal.push(`${this.#name} ${constraint ? "constrained" : "free to say anything"}`);
  }

  vocabulary(): Uint8Array {
    return new TextEncoder().encode(this.#name);
  }

  async think(onThinking: OnThinking): Promise<Thought> {
    return this.#move("think", async () => {
      let text = "";
      for (const piece of this.thinking === "off" ? [] : (this.#script.thoughts ?? [])) {
        text += piece;
        if (!(await onThinking(piece))) return { text, tokens: text.length, stopped: true };
      }
      return { text, tokens: text.length, stopped: false };
    });
  }

  async draft(maxTokens: number): Promise<Candidate & { tokens: number }> {
    return this.#move(`draft ${maxTokens}`, () => {
      this.#constraint?.mask(Uint32Array.of());
      const drafts = this.#script.drafts;
      const draft = drafts[Math.min((this.#calls["draft"] ?? 1) - 1, drafts.length - 1)]!;
      this.#counters.draftTokens += maxTokens - 1;
      return { ...draft, tokens: draft.text.length };
    });
  }

  async verify(
    candidates: Candidate[],
    settings: Settings,
  ): Promise<(Score & { tokens: number })[]> {
    return this.#move(
      `verify ${candidates.map(({ text }) => JSON.stringify(text)).join(",")}`,
      () => {
        this.#verified = candidates;
        this.settings = settings;
        this.#counters.verifyTokens += candidates.reduce((sum, { text }) => sum + text.length, 0);
        return candidates.map(({ text }) => ({
          meanLogit: this.#script.taste(text),
          meanLogprob: -1,
          harmonic: -2,
          tokens: text.length,
        }));
      },
    );
  }

  async keep(winner: number): Promise<void> {
    return this.#move(`keep ${winner}`, () => {
      this.#counters.prefix += this.#verified[winner]!.text.length;
      this.#constraint?.accept(this.#verified[winner]!.text);
    });
  }

  counters(): Counters {
    this.#refuseBusy();
    return { ...this.#counters };
  }

  release(): void {
    this.#journal.push(`${this.#name} release`);
  }

  free(): void {
    this.#journal.push(`${this.#name} free`);
  }

  /** Refuses calls during another, as wasm-bindgen does. */
  #refuseBusy(): void {
    if (this.#busy)
      throw new Error(
        "recursive use of an object detected which would lead to unsafe aliasing in rust",
      );
  }

  async #move<T>(move: string, work: () => T | Promise<T>): Promise<T> {
    this.#refuseBusy();
    this.#busy = true;
    try {
      const kind = move.split(" ")[0]!;
      const call = (this.#calls[kind] = (this.#calls[kind] ?? 0) + 1);
      this.#journal.push(`${this.#name} ${move}`);
      await this.#script.onMove?.(kind, call);
      if (!this.#script.instant) await new Promise((resolve) => setImmediate(resolve));
      const failure = this.#script.failure;
      if (failure?.move === kind && failure.call === call) throw failure.error;
      return await work();
    } finally {
      this.#busy = false;
    }
  }
}

/**
 * A grammar module that allows anything and records its calls. A schema that says `refused` is
 * unsupported.
 */
export function scriptedGrammar(journal: string[]): GrammarModule {
  const refuse = (message: string): never => {
    throw Object.assign(new Error(message), { name: "Settings" });
  };
  return {
    default: async () => undefined,
    check: (schema) =>
      void (schema.includes("refused") && refuse("The schema can't be honoured at #: refused.")),
    Vocabulary: class {
      readonly #vocabulary: string;

      constructor(written: Uint8Array) {
        this.#vocabulary = new TextDecoder().decode(written);
      }

      document(schema: string): Constraint & { free(): void } {
        journal.push(`document of ${this.#vocabulary}: ${schema}`);
        return {
          mask: () => (schema.includes("involved") ? unreachable() : Uint32Array.of(1)),
          accept: (text) =>
            void journal.push(`${this.#vocabulary} accepts ${JSON.stringify(text)}`),
          free: () => void journal.push(`no document of ${this.#vocabulary} any more`),
        };
      }

      free(): void {
        journal.push(`no vocabulary of ${this.#vocabulary} any more`);
      }
    },
  };
}

/** A module of remote members, each of which only judges, and likes the first candidate. */
export function scriptedRemote(journal: string[]): RemoteModule {
  return {
    default: async () => undefined,
    RemoteMember: {
      connect: async (options) => {
        const { name } = JSON.parse(options) as { name: string };
        journal.push(`${name} connected`);
        const found = { context: 512, parameters: 0, vocabulary: 0 };
        return {
          about: () => JSON.stringify({ model: "m", can: "judges only", note: "", ...found }),
          begin: () => void journal.push(`${name} begin`),
          read: async () => undefined,
          draft: async () => undefined,
          verify: async (candidates) => {
            if (name === "Broken") unreachable();
            const all = JSON.parse(candidates) as unknown[];
            return JSON.stringify(
              all.map((_, place) => ({ preference: 1 / (1 + place), tokens: 0 })),
            );
          },
          keep: (winner) => void journal.push(`${name} keep ${winner}`),
          take: (text) => void journal.push(`${name} take ${JSON.stringify(text)}`),
          release: () => undefined,
          free: () => void journal.push(`${name} freed`),
        };
      },
    },
  };
}

/** Throws a trap, as a wasm module does. */
function unreachable(): never {
  throw new WebAssembly.RuntimeError("unreachable");
}

/** A verifier's score of a candidate as one number. */
const taste = ({ meanLogit, preference, harmonic = 0 }: Score): number =>
  meanLogit ?? preference ?? 1 / (1 - harmonic);

/**
 * The rounds as the service and the library see them: all draft, the candidate of the largest mean
 * share wins, failures leave. The machine itself is tested in crates/ensemble, and the driver
 * against its recorded moves in round.test.ts.
 */
export class ScriptedRounds implements Rounds {
  readonly #journal: string[];
  readonly #options: RoundsOptions;
  #active: number[];
  #drafts: boolean[] = [];
  #round = 1;
  #tokens = 0;
  #withheld = "";
  #open: { drafters: number[]; candidates: Draft[]; scores: VerifiedScore[][] } | undefined;
  #failed: Failure[] = [];
  #stop: Stop | undefined;

  constructor(options: RoundsOptions, journal: string[] = []) {
    this.#active = [...options.strengths.keys()];
    this.#options = options;
    this.#journal = journal;
  }

  weights(): Float64Array {
    return Float64Array.from(this.#active, () => 1 / this.#active.length);
  }

  tokens(): number {
    return this.#tokens;
  }

  rest(): string {
    const rest = this.#withheld;
    this.#withheld = "";
    return rest;
  }

  resume(text: string, tokens: number): string {
    this.#round++;
    return this.#take({ text, tokens, ended: false });
  }

  free(): void {
    this.#journal.push("query free");
  }

  next(event: RoundsEvent): RoundsMove {
    if (event === "stopped") return { kind: "done", stop: "stopped" };
    if (event === "next") return this.#goOn();
    if (event === "kept") return this.#kept();
    if ("begun" in event) {
      this.#drafts = event.begun.drafts;
      this.#failed = event.begun.failed;
      return this.#goOn();
    }
    if ("failed" in event) {
      const kept = this.#open?.scores.length;
      if (!kept) return this.#leave(event.failed[0]!, this.#round);
      this.#failed = event.failed;
      return this.#kept();
    }
    const members = this.#active;
    if ("drafted" in event) {
      const drafters = members.filter((member) => this.#drafts[member]);
      const drafted = event.drafted.flatMap((draft, at) =>
        draft ? [{ drafter: drafters[at]!, draft }] : [],
      );
      const candidates = drafted.map(({ draft }) => draft);
      if (candidates.length === 0) return this.#goOn();
      this.#open = { drafters: drafted.map(({ drafter }) => drafter), candidates, scores: [] };
      return {
        kind: "verify",
        members,
        candidates: candidates.map(({ text, ended }) => ({ text, ended })),
        inTurn: false,
      };
    }
    this.#open!.scores = event.verified;
    return { kind: "keep", members, winner: this.#vote().winner };
  }

  #goOn(): RoundsMove {
    this.#open = undefined;
    const failure = this.#failed.shift();
    if (failure) return this.#leave(failure, this.#round);
    if (this.#stop) return { kind: "done", stop: this.#stop };
    const { settings, limits } = this.#options;
    const left = (limits.tokens ?? Number.POSITIVE_INFINITY) - this.#tokens;
    const members = this.#active.filter((member) => this.#drafts[member]);
    if (members.length === 0)
      throw Object.assign(
        new Error("the members that are left can't draft, they only judge: add one that drafts"),
        { name: "Remote" },
      );
    const tokens = Math.min(settings.segmentTokens, left);
    return { kind: "draft", members, tokens, branch: 0, novel: false, inTurn: false };
  }

  #leave({ member, kind }: Failure, round: number): RoundsMove {
    this.#open = undefined;
    if (this.#active.length === 1)
      return kind === "contextFull" && round > 1
        ? { kind: "done", stop: "context" }
        : { kind: "fail", member };
    this.#active = this.#active.filter((other) => other !== member);
    return { kind: "leave", member, round };
  }

  #vote(): { shares: number[][]; totals: number[]; winner: number } {
    const { candidates, scores } = this.#open!;
    const shares = scores.map((row) => {
      const sum = row.reduce((total, score) => total + taste(score), 0);
      return row.map((score) => taste(score) / sum);
    });
    const judged = shares.filter((row) => row.length > 0);
    const totals = candidates.map(
      (_, j) => judged.reduce((sum, row) => sum + row[j]!, 0) / Math.max(1, judged.length),
    );
    return { shares, totals, winner: totals.indexOf(Math.max(...totals)) };
  }

  #kept(): RoundsMove {
    const open = this.#open!;
    const { shares, totals, winner } = this.#vote();
    const kept = open.candidates[winner]!;
    const alike = (draft: Draft): boolean => draft.text === kept.text && draft.ended === kept.ended;
    const report: RoundReport = {
      round: this.#round,
      active: this.#active,
      ...open,
      shares,
      totals,
      turnedBy: [],
      counts: open.candidates.map(() => 1),
      weights: [...this.weights()],
      winner,
      writers: [...open.candidates.keys()].filter((j) => alike(open.candidates[j]!)),
      exited: [],
      text: this.#take(kept),
    };
    if (kept.ended && this.#stop !== "stop") this.#stop = "ended";
    if (this.#round++ >= this.#options.settings.maxRounds) this.#stop ??= "rounds";
    if (this.#stop) this.#failed = [];
    return { kind: "round", round: report };
  }

  /** Adds an accepted segment; returns the text that is now final. */
  #take({ text, tokens }: Draft): string {
    const { stop = [], tokens: most = Number.POSITIVE_INFINITY } = this.#options.limits;
    this.#tokens += tokens;
    if (this.#tokens >= most) this.#stop = "tokens";
    const all = this.#withheld + text;
    const found = stop.map((each) => all.indexOf(each)).filter((at) => at >= 0);
    const begins = [...all].findIndex((_, at) =>
      stop.some((each) => each.startsWith(all.slice(at))),
    );
    const certain = found.length > 0 ? Math.min(...found) : begins < 0 ? all.length : begins;
    this.#withheld = found.length > 0 ? "" : all.slice(certain);
    if (found.length > 0) this.#stop = "stop";
    return all.slice(0, certain);
  }
}
