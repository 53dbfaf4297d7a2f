/**
 * Scripted members for the unit tests of the round loop and the service; they keep a journal of
 * every call. They only test the loop's order; members' computations are tested in Rust.
 */
import type {
  Begun,
  Candidate,
  Constraint,
  Counters,
  ModuleMember,
  GrammarModule,
  Message,
  ModelAbout,
  OnReading,
  OnThinking,
  Query,
  Ranges,
  Rules,
  Sampling,
  Selection,
  Score,
  Settings,
  Thinking,
  Thought,
} from "../protocol/engine.ts";

export const settings: Settings = {
  segmentTokens: 10,
  scoring: "harmonic",
  scoreEnd: true,
  trust: 0.75,
  reward: "shares",
  alpha: 1,
  rate: "code",
  fixedShare: 0.05,
  update: "before",
  selfVotes: true,
  level: true,
  confidence: 0.5,
  agree: true,
  discount: 0.5,
  sure: 2.6,
  lead: 1,
  exit: null,
  leader: null,
  fast: false,
  maxRounds: 64,
  maxCharacters: 4096,
};

export const rules: Rules = {
  harmonic: settings,
  leader: { ...settings, leader: { doubt: 5 } },
  paper: {
    ...settings,
    scoring: "logit",
    scoreEnd: false,
    trust: 0,
    reward: "counts",
    level: false,
    confidence: 0,
    agree: false,
    discount: 1,
    sure: 1000,
  },
};
export const ranges: Ranges = { segmentTokens: { low: 1, high: 64 } };

export interface Script {
  /** Drafts, in order; the last one repeats. */
  drafts: Candidate[];
  /** The mean logit it gives to a candidate of this text. */
  taste: (text: string) => number;
  /** Thrown at the nth call (from 1) of a move. */
  failure?: {
    move: "measure" | "begin" | "think" | "draft" | "verify" | "keep";
    call: number;
    error: Error;
  };
  /** Pieces of its thought before it answers, if allowed. */
  thoughts?: string[];
  /** Resolves without a turn of the event loop, as the CPU backend does. */
  instant?: boolean;
  /** Tokens of a conversation read in one step; all by default. */
  step?: number;
  /** Number of tokens that a conversation measures; five by default, at most 64. */
  tokens?: (messages: Message[]) => number;
  /** Key and content of its system prompts; none by default. It refuses bytes of another model. */
  prompts?: { model: string };
  /** The fused core can't load it. */
  noPlan?: boolean;
  /** Called before every move. */
  onMove?: (move: string, call: number) => void | Promise<void>;
}

/** Its context size in tokens. */
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
    if (messages[0]?.role !== "system") return undefined; // Its template begins with nothing.
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

/** A trap, as of a wasm module. */
function unreachable(): never {
  throw new WebAssembly.RuntimeError("unreachable");
}

/** A verifier's score of a candidate, by whichever number it gives. */
const taste = ({ meanLogit, preference, harmonic = 0 }: Score): number =>
  meanLogit ?? preference ?? 1 / (1 - harmonic);

/** A query whose shares are the raw scores over their row sum, with equal weights. */
export class ScriptedQuery implements Query {
  readonly #journal: string[];
  readonly #settings: Settings;
  /** Members that leave after round n. */
  readonly #exits: Record<number, number[]>;
  #active: number[];
  #round = 1;
  #leader = 0;
  /** Indices of the drafters of this round, if not all drafted. */
  #drafters: number[] | undefined;

  constructor(
    members: number,
    settings: Settings,
    journal: string[] = [],
    exits: Record<number, number[]> = {},
  ) {
    this.#active = [...Array(members).keys()];
    this.#settings = settings;
    this.#journal = journal;
    this.#exits = exits;
  }

  active(): Uint32Array {
    return Uint32Array.from(this.#active);
  }

  /** The last winner. */
  leader(): number | undefined {
    return this.#settings.leader && this.#active.length > 1
      ? Math.max(0, this.#active.indexOf(this.#leader))
      : undefined;
  }

  trust(): void {}

  ask(): void {}

  drafted(places: Uint32Array, candidates: Candidate[]): void {
    if (candidates.length !== places.length) throw new Error("a candidate each");
    if (
      places.length === 0 ||
      places.some((place, j) => place >= this.#active.length || (j > 0 && place <= places[j - 1]!))
    )
      throw new Error("these can't be the drafters");
    this.#drafters = [...places];
  }

  trusts(scores: Score[][]): boolean {
    this.#journal.push("trusts");
    return scores.flat().every((score) => taste(score) >= (this.#settings.leader?.doubt ?? 0));
  }

  fastWinner(candidates: Candidate[]): number | undefined {
    const ended = candidates.findIndex((candidate) => candidate.ended);
    return this.#settings.fast && ended >= 0 ? ended : undefined;
  }

  normalise(scores: Score[][]): number[][] {
    this.#journal.push("normalise");
    return scores.map((row) => {
      const sum = row.reduce((total, score) => total + taste(score), 0);
      return row.map((score) => taste(score) / sum);
    });
  }

  feedback(_shares: number[][]): {
    counts: number[];
    rewards: number[];
    rate: number;
    weights: number[];
  } {
    this.#journal.push("feedback");
    const weights = [...this.weights()];
    return {
      counts: this.#columns().map(() => 1),
      rewards: weights.map(() => 1),
      rate: 1,
      weights,
    };
  }

  select(shares: number[][]): Selection {
    this.#journal.push("select");
    const judged = shares.filter((row) => row.length > 0);
    const totals = this.#columns().map(
      (_, j) => judged.reduce((sum, row) => sum + row[j]!, 0) / Math.max(1, judged.length),
    );
    const winner = totals.indexOf(Math.max(...totals));
    this.#leader = this.#active[this.#columns()[winner]!]!;
    return { totals, winner, turnedBy: [] };
  }

  exit(): Uint32Array {
    this.#journal.push("exit");
    const leaving = this.#exits[this.#round] ?? [];
    this.#active = this.#active.filter((member) => !leaving.includes(member));
    this.#drafters = undefined;
    return Uint32Array.from(leaving);
  }

  leave(member: number): void {
    this.#journal.push(`leave ${member}`);
    if (this.#active.length === 1) throw new Error("nobody would be left");
    this.#active = this.#active.filter((other) => other !== member);
    this.#drafters = undefined;
  }

  stop(winner: Candidate): ReturnType<Query["stop"]> {
    this.#journal.push("stop");
    this.#drafters = undefined;
    if (winner.ended) return "ended";
    return this.#round++ >= this.#settings.maxRounds ? "rounds" : undefined;
  }

  #columns(): number[] {
    return this.#drafters ?? [...this.#active.keys()];
  }

  weights(): Float64Array {
    return Float64Array.from(this.#active, () => 1 / this.#active.length);
  }

  free(): void {
    this.#journal.push("query free");
  }
}
