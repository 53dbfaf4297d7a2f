/**
 * The protocol between the library and its worker. Every message is checked on arrival, on both
 * sides; the types below are derived from the checks.
 */
import {
  exact,
  fault,
  flag,
  list,
  blob,
  messagePort,
  number,
  nullable,
  oneOf,
  optional,
  record,
  shape,
  text,
  variant,
  whole,
  within,
  type Check,
  type Checked,
} from "./check.ts";
import { errorKinds } from "./errors.ts";
import { capabilities } from "./remote.ts";

export const message = shape({ role: oneOf("system", "user", "assistant"), content: text });
export const sampling = exact({
  temperature: within(0, 10),
  topP: within(0, 1),
  topK: whole(0, 2 ** 32 - 1),
  seed: whole(0, Number.MAX_SAFE_INTEGER),
});
export const thinking = oneOf("off", "on", "auto");
export const thought = shape({ text, tokens: number, stopped: flag });
/** In which ranges numbers are, the engine knows and checks. */
export const settings = exact({
  segmentTokens: number,
  scoring: oneOf("harmonic", "logit", "likelihood"),
  scoreEnd: flag,
  trust: number,
  reward: oneOf("shares", "counts"),
  alpha: number,
  rate: oneOf("code", "printed", "fixed-share"),
  fixedShare: number,
  update: oneOf("before", "after"),
  selfVotes: flag,
  level: flag,
  confidence: number,
  agree: flag,
  discount: number,
  sure: number,
  lead: number,
  exit: nullable(exact({ warmup: number, temperature: number, threshold: number })),
  leader: nullable(exact({ doubt: number })),
  fast: flag,
  maxRounds: number,
  maxCharacters: number,
});
const rules = shape({ harmonic: settings, leader: settings, paper: settings });
const ranges = record(shape({ low: number, high: number }));
/** In less there is no room for what a chat template writes around a question. */
const leastContext = 32;
/**
 * Room for a conversation, in a member's tokens; what is more than its model was trained for is cut
 * to that.
 */
export const contextTokens = whole(leastContext, 2 ** 32 - 1);
export const backend = oneOf("webgpu", "cpu");
export const core = oneOf("fused", "burn");
const adapter = shape({
  name: text,
  vendor: text,
  architecture: text,
  backend: text,
  software: flag,
});
const model = {
  name: text,
  architecture: text,
  parameters: number,
  quantisation: text,
  bytes: number,
  context: number,
  vocabulary: number,
  layers: number,
  hidden: number,
  template: flag,
  strength: optional(number),
  formats: list(shape({ stored: text, kept: nullable(text) })),
  memory: shape({ weights: number, kv: number, scratch: number }),
};
/** What an engine says of a member; which core that engine is, it does not say. */
export const modelAbout = shape(model);
const remote = shape({ host: text, model: text, can: oneOf(...capabilities), note: text });
const lives = shape({ ...model, core: optional(core), remote: optional(remote) });
/** On a core of this machine, or behind a server. */
const about: Check<Checked<typeof lives>> = (data, path) => {
  const told = lives(data, path);
  if (told.remote === undefined) core(told.core, `${path}.core`);
  return told;
};
/**
 * A drafted segment. `ended`: the drafter closed the answer behind it; `tokens`: its length in its
 * drafter's own.
 */
const candidate = shape({ member: text, text, ended: flag, tokens: number });
export const scores = {
  meanLogit: optional(number),
  meanLogprob: optional(number),
  harmonic: optional(number),
  preference: optional(number),
};
const score = shape(scores);

const source = exact({
  /** What it is called in events; no two members share a name. */
  name: text,
  /**
   * `hf:owner/repo/file.gguf@revision`, `hf:owner/repo@revision`, or an address: downloaded once
   * and kept.
   */
  ref: optional(text),
  /**
   * Files the visitor chose: a GGUF file, all parts of a split one, or a folder's config.json,
   * tokenizer.json, *.safetensors.
   */
  files: optional(list(blob)),
  /** A small file beside the page, fetched into memory every time. */
  url: optional(text),
  /** What the one file of `ref` or `url` must be. */
  bytes: optional(number),
  sha256: optional(text),
  /**
   * What weights that come unquantised (F32, F16, BF16) become; left out, they stay as they are.
   */
  quantise: optional(oneOf("Q8_0", "Q4_0")),
  /** The core that it runs on, whatever the engine was opened with. */
  core: optional(core),
  /**
   * The address of an OpenAI-compatible server that it lives behind, as `https://host/v1`; `http:`
   * for this machine alone. What is asked and answered goes there.
   */
  remote: optional(text),
  /** What that server calls it; its first model, if left out. */
  model: optional(text),
  /** The server's key: held in memory, sent to that server, and told to nobody. */
  key: optional(text),
  /**
   * How a turn is written, `<|im_start|>{role}\n{content}<|im_end|>\n`, where the server renders no
   * conversations.
   */
  turn: optional(text),
  /** It only judges, by letters, whatever else its server can. */
  judge: optional(flag),
  /**
   * It is the browser's own language model, the `LanguageModel` that windows of some browsers have,
   * and only judges, by letters. Where the browser has to download it first, that takes a visitor's
   * press.
   */
  builtIn: optional(flag),
  /**
   * Ms that the server, or the browser's model, may take for a draft, or for scores; 10,000 if left
   * out. A member that is late abstains, and leaves an answer with its third late round.
   */
  timeout: optional(within(100, 600_000)),
});
const origins = ["ref", "files", "url", "remote", "builtIn"] as const;

/** Where a member comes from: one of `ref`, `files`, `url`, `remote`, `builtIn`. */
export const memberSource: typeof source = (data, path) => {
  const told = source(data, path);
  if (told.name === "") throw fault(`${path}.name`, "a name", told.name);
  const given = origins.filter((origin) => told[origin] !== undefined && told[origin] !== false);
  if (given.length !== 1)
    throw new TypeError(
      `${path} must have one of ${origins.join(", ")}; ${JSON.stringify(told.name)} has ${given.join(" and ") || "none"}`,
    );
  return told;
};

/**
 * How far a member is, in bytes; as a share of 1 where the browser downloads its own model, of
 * which it tells no more.
 */
const progress = shape({
  /**
   * waiting: another tab downloads or deletes the same model; checking: what is stored is asked for
   * and checked; downloading; verifying: the whole is checked; core: the open core is fetched, for
   * the first member that needs it; loading: the member goes to the engine.
   */
  phase: oneOf("waiting", "checking", "downloading", "verifying", "core", "loading"),
  /** Bytes so far. */
  loaded: number,
  /** 0 while it is unknown. */
  total: number,
  /** Bytes a second, smoothed; null while it is unknown. */
  rate: nullable(number),
  secondsLeft: nullable(number),
  /** Why it does not go on just now: "The host asks to wait 3 s." */
  note: optional(text),
});

export const fileSize = shape({ name: text, bytes: number });

/** What a download would take. */
const plan = shape({
  /** The reference in its one spelling. */
  ref: text,
  /** The origin it is fetched from. */
  from: text,
  /** The commit the revision stands for; null for an address. */
  commit: nullable(text),
  files: list(fileSize),
  bytes: number,
  /** How many of `bytes` are here already; all of them: no request will be made. */
  stored: number,
  /** Room left for this page on this machine; null where the browser does not tell. */
  free: nullable(number),
});

/** A model in the store. */
const storedModel = shape({
  ref: text,
  from: text,
  commit: nullable(text),
  files: list(fileSize),
  bytes: number,
  /** How many of `bytes` are here. */
  stored: number,
  /** It is whole and checked, and can be used with the network off. */
  complete: flag,
  /** Bytes of the system prompts that are kept as it has read them; they go with it. */
  prompts: number,
});

/** What is stored on this machine. */
const stored = shape({
  models: list(storedModel),
  /**
   * What is downloaded outlives the page; where the browser gives it no place, it stays in memory.
   */
  keeps: flag,
  /**
   * What this page uses on this machine, and what it may use at most; null where the browser does
   * not tell.
   */
  used: nullable(number),
  free: nullable(number),
  /** The browser will not evict it under pressure. */
  persisted: flag,
  /**
   * Bytes of all system prompts that are kept as members have read them, those of models that are
   * not stored among them.
   */
  prompts: number,
});

/** Tokens one member ran in one round, and what it holds after it. */
const roundCounters = shape({
  /** What it holds now. */
  prefix: number,
  prefilled: number,
  drafted: number,
  verified: number,
});

/**
 * `heap`: bytes of memory of the module, in all threads; it shrinks only where a thread ends.
 * `threads`: what members run on.
 */
const usage = shape({ heap: number, threads: number });

/** An error as it crosses. */
export const failure = shape({
  kind: oneOf(...errorKinds),
  message: text,
  partial: optional(text),
  member: optional(text),
});

export const stopReason = oneOf(
  "ended",
  "rounds",
  "length",
  "silence",
  "context",
  "tokens",
  "stop",
  "stopped",
);

/**
 * `promptTokens`: of the conversation, in the member that has the most; `answerTokens`: each
 * segment's in its writer's own.
 */
const answerUsage = shape({ promptTokens: number, answerTokens: number });

/** Tokens of a conversation in a member, and how many it has room for, the answer's included. */
const measured = shape({ member: text, tokens: number, room: number });

const event = variant({
  /** A member has read `done` of the conversation's `total` tokens; those it had before count. */
  reading: shape({ member: text, done: number, total: number }),
  /** All have read the conversation. */
  begin: shape({
    /** Names of those that take part, which the indices of rounds point into. */
    members: list(text),
    settings,
    sampling,
    thinking,
    /** By member: tokens in the prefix, and how many of them had to be run. */
    prefixes: list(shape({ prefix: number, run: number })),
    /** How strong each member is in a vote, by member; null where nothing is known of it. */
    strengths: list(nullable(number)),
    /** Whether each member chats; the others are base models. */
    chats: list(flag),
    /** Weights before the first round, by member, summing to 1. */
    weights: list(number),
    /** How many messages were left out for want of room, the oldest but for the system's. */
    dropped: number,
  }),
  /**
   * What a member thinks before it answers, as it comes: `text` goes on where the last one ended.
   */
  thinking: shape({ member: text, text }),
  /** All that it has thought. No part of the answer, and nothing that another member sees. */
  thought: shape({ member: text, text, tokens: number }),
  /** What one round did. Rows are verifiers in the order of `active`, columns the `candidates`. */
  round: shape({
    /** From 1. */
    round: number,
    /** Who took part, as indices into the members. */
    active: list(number),
    /** Those of them that live behind a server, or are the browser's own. */
    remote: list(number),
    /**
     * Those of them that gave no scores where there was a vote: late, or their server tells none.
     */
    abstained: list(number),
    candidates: list(candidate),
    /**
     * `scores[i][j]`: verifier i's raw score of candidate j; an empty row of one that abstained.
     * Empty where fast mode took a candidate unverified.
     */
    scores: list(list(score)),
    /**
     * `scores`, normalised: every row sums to 1. Empty, as totals and counts, where there was no
     * vote.
     */
    shares: list(list(number)),
    /**
     * The weighted sum of each candidate's shares; with level votes each row's are first divided by
     * their largest.
     */
    totals: list(number),
    /**
     * Verifiers, as indices into `active`, whose vote alone turned a round that all others agreed
     * on.
     */
    turnedBy: list(number),
    /** How often another member preferred the candidate to some other one, at least 1. */
    counts: list(number),
    /** Index into `candidates`. */
    winner: number,
    /**
     * Who drafted each candidate, as indices into the members: all who took part but for judges and
     * those that were late, or the leader alone.
     */
    drafters: list(number),
    /**
     * Who drafted the accepted segment, as indices into `candidates`: the winner, and every other
     * whose draft is the same and ends alike.
     */
    writers: list(number),
    /** After this round's feedback, by active member. */
    weights: list(number),
    /** Members that leave the answer now, as indices into the members. */
    exited: list(number),
    /**
     * What this round added to the answer: the accepted segment; with `stop`, but for what may
     * begin such a text.
     */
    text,
    ms: shape({ draft: number, verify: number }),
    /** By active member. */
    counters: list(roundCounters),
  }),
  /**
   * The engine failed and was opened anew, with all its members: they read the conversation again
   * and go on from the text so far.
   */
  reopened: shape({ error: failure }),
  /** A member failed in this round and left the answer to the others, who begin the round anew. */
  left: shape({ round: number, member: text, error: failure }),
  /** The answer is over. */
  end: shape({
    /**
     * Why: `ended`, the winner closed the answer; `rounds` or `length`, a limit of the settings;
     * `silence`, a round added no text; `context`, the last member's is full; `tokens` or `stop`,
     * what the caller asked for; `stopped`, by the caller.
     */
    stop: stopReason,
    /** The whole answer. */
    text,
    usage: answerUsage,
    ms: number,
  }),
});

/** Where the script of a core's worker lies, and the module that it starts. */
const place = shape({ worker: text, wasm: text });

const request = variant({
  open: shape({
    id: number,
    backend: oneOf("auto", "webgpu", "cpu"),
    /** `grammar`: the module that holds answers to a form. */
    places: shape({ engine: place, openCore: place, grammar: text }),
    hub: optional(text),
    /** The most threads that members run on, on the CPU. */
    threads: optional(whole(1, 1024)),
    /**
     * Left out, members run on the fused core, and those that it has no plan for on the open one.
     */
    core: optional(core),
    /**
     * Whether system prompts are kept as members have read them, for later visits; left out, they
     * are.
     */
    keepPrompts: optional(flag),
  }),
  /** `builtIn`: where the browser's own language model is asked, and its room in tokens. */
  add: shape({
    id: number,
    source: memberSource,
    contextTokens,
    replace: optional(text),
    builtIn: optional(shape({ port: messagePort, context: number })),
  }),
  remove: shape({ id: number, name: text }),
  ask: shape({
    id: number,
    messages: list(message),
    members: list(text),
    settings: optional(settings),
    sampling,
    thinking,
    maxTokens: optional(whole(1, 2 ** 32 - 1)),
    stop: list(text),
    overflow: oneOf("error", "drop-oldest"),
    /** JSON text: the answer is a document of this schema. */
    schema: optional(text),
    /** Segments that an earlier engine has accepted: the answer goes on behind them. */
    accepted: list(shape({ text, tokens: number })),
  }),
  measure: shape({ id: number, messages: list(message), members: list(text), thinking }),
  /**
   * Begins a conversation of this number (`id`), whose rounds the caller drives until it ends it.
   */
  begin: shape({
    id: number,
    messages: list(message),
    members: list(text),
    sampling,
    schema: optional(text),
  }),
  /** `members`: places in the conversation. */
  draft: shape({
    id: number,
    conversation: number,
    members: list(whole(0, 7)),
    maxTokens: whole(1, 256),
  }),
  verify: shape({
    id: number,
    conversation: number,
    candidates: list(shape({ text, ended: flag })),
    settings,
  }),
  keep: shape({ id: number, conversation: number, winner: whole(0, 1024) }),
  end: shape({ id: number, conversation: number }),
  plan: shape({ id: number, ref: text }),
  models: shape({ id: number }),
  deleteModel: shape({ id: number, ref: text }),
  deletePrompts: shape({ id: number }),
  latestCommit: shape({ id: number, ref: text }),
  /** The answer to the question `id` waits between its rounds, or goes on. */
  pause: shape({ id: number, paused: flag }),
  /** Ends the request `id`, whatever it is. */
  stop: shape({ id: number }),
  loseDevice: shape({ id: number }),
});

const reply = variant({
  opened: shape({ id: number, backend, adapter, why: text, settings, rules, ranges }),
  progress: shape({ id: number, progress }),
  added: shape({ id: number, about, usage }),
  removed: shape({ id: number, usage }),
  event: shape({ id: number, event }),
  measured: shape({ id: number, measured: list(measured) }),
  /** Tokens of each member's prefix. */
  begun: shape({ id: number, prefixes: list(number) }),
  drafted: shape({ id: number, drafts: list(shape({ text, ended: flag, tokens: number })) }),
  verified: shape({ id: number, scores: list(list(shape({ ...scores, tokens: number }))) }),
  planned: shape({ id: number, plan }),
  models: shape({ id: number, stored }),
  latestCommit: shape({ id: number, commit: nullable(text) }),
  /** A request that has nothing to report is over. */
  done: shape({ id: number }),
  aborted: shape({ id: number }),
  failed: shape({ id: number, error: failure }),
});

export type MemberSource = Checked<typeof source>;
export type Place = Checked<typeof place>;
export type Places = Extract<Request, { type: "open" }>["places"];
export type Progress = Checked<typeof progress>;
export type Usage = Checked<typeof usage>;
export type Plan = Checked<typeof plan>;
export type StoredModel = Checked<typeof storedModel>;
export type Stored = Checked<typeof stored>;
export type RoundCounters = Checked<typeof roundCounters>;
export type ConclaveEvent = Checked<typeof event>;
export type ReadingEvent = Extract<ConclaveEvent, { type: "reading" }>;
export type BeginEvent = Extract<ConclaveEvent, { type: "begin" }>;
export type RoundEvent = Extract<ConclaveEvent, { type: "round" }>;
export type ThinkingEvent = Extract<ConclaveEvent, { type: "thinking" }>;
export type ThoughtEvent = Extract<ConclaveEvent, { type: "thought" }>;
export type ReopenedEvent = Extract<ConclaveEvent, { type: "reopened" }>;
export type LeftEvent = Extract<ConclaveEvent, { type: "left" }>;
export type StopReason = Checked<typeof stopReason>;
export type Measured = Checked<typeof measured>;
export type EndEvent = Extract<ConclaveEvent, { type: "end" }>;
export type Request = Checked<typeof request>;
export type Reply = Checked<typeof reply>;

/** What moves to the worker with a request, and is not copied. */
export const moved = ({
  builtIn,
}: {
  type: Request["type"];
  builtIn?: { port: MessagePort };
}): Transferable[] => (builtIn ? [builtIn.port] : []);

/** Throws a TypeError that names the fault when `data` is no request. */
export const parseRequest = (data: unknown): Request => request(data, "request");
/** Throws a TypeError that names the fault when `data` is no reply. */
export const parseReply = (data: unknown): Reply => reply(data, "reply");
