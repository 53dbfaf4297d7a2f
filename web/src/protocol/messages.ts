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
import { event, failure, scores, thinking } from "./events.ts";
import { sampling, settings } from "./generated-settings.ts";
import { capabilities } from "./remote.ts";

export * from "./events.ts";

export const message = shape({ role: oneOf("system", "user", "assistant"), content: text });
export const thought = shape({ text, tokens: number, stopped: flag });
const rules = shape({ harmonic: settings, leader: settings, paper: settings });
const ranges = record(shape({ low: number, high: number }));
/**
 * Minimum context in tokens: a smaller one has no room for a chat template's text around a
 * question.
 */
const leastContext = 32;
/** Context size in a member's tokens; at most the size that its model was trained for. */
export const contextTokens = whole(leastContext, 2 ** 32 - 1);
export const backend = oneOf("webgpu", "cpu");
export const core = oneOf("fused", "burn");
export const adapter = shape({
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
/** The engine's description of a member, without its core. */
export const modelAbout = shape(model);
const remote = shape({ host: text, model: text, can: oneOf(...capabilities), note: text });
const lives = shape({ ...model, core: optional(core), remote: optional(remote) });
/** Description of a loaded member. Without `remote`, it must name the core that it runs on. */
const about: Check<Checked<typeof lives>> = (data, path) => {
  const checked = lives(data, path);
  if (checked.remote === undefined) core(checked.core, `${path}.core`);
  return checked;
};
const source = exact({
  /** Name in events, unique among the members. */
  name: text,
  /**
   * `hf:owner/repo/file.gguf@revision`, `hf:owner/repo@revision`, or an address: downloaded once
   * and kept.
   */
  ref: optional(text),
  /**
   * Files chosen by the visitor: a GGUF file, all parts of a split one, or a folder's config.json,
   * tokenizer.json, *.safetensors.
   */
  files: optional(list(blob)),
  /** A small file beside the page, fetched into memory every time. */
  url: optional(text),
  /** Expected size and digest of the single file of `ref` or `url`. */
  bytes: optional(number),
  sha256: optional(text),
  /**
   * Format that unquantised weights (F32, F16, BF16) are converted to; kept as they are by default.
   */
  quantise: optional(oneOf("Q8_0", "Q4_0")),
  /** Core that it runs on, overriding the engine's. */
  core: optional(core),
  /**
   * Address of an OpenAI-compatible server that runs it, as `https://host/v1`; `http:` only for
   * this machine. Questions and answers are sent there.
   */
  remote: optional(text),
  /** The server's name for it; may be left out if the server has one model. */
  model: optional(text),
  /** The server's key: held in memory and only sent to that server. */
  key: optional(text),
  /**
   * Format of a turn, `<|im_start|>{role}\n{content}<|im_end|>\n`, if the server does not render
   * conversations.
   */
  turn: optional(text),
  /** Whether it only judges, by letters, even if its server can do more. */
  judge: optional(flag),
  /**
   * The browser's own language model, the `LanguageModel` that windows of some browsers have. It
   * only judges, by letters. If the browser has to download it first, that needs a user gesture.
   */
  builtIn: optional(flag),
  /**
   * Timeout in ms for a draft or scores of the server or the browser's model; 10,000 by default. A
   * late member abstains, and leaves an answer at its third late round.
   */
  timeout: optional(within(100, 600_000)),
});
const origins = ["ref", "files", "url", "remote", "builtIn"] as const;

/** Source of a member: one of `ref`, `files`, `url`, `remote`, `builtIn`. */
export const memberSource: typeof source = (data, path) => {
  const checked = source(data, path);
  if (checked.name === "") throw fault(`${path}.name`, "a name", checked.name);
  const present = origins.filter(
    (origin) => checked[origin] !== undefined && checked[origin] !== false,
  );
  if (present.length !== 1)
    throw new TypeError(
      `${path} must have one of ${origins.join(", ")}; ` +
        `${JSON.stringify(checked.name)} has ${present.join(" and ") || "none"}`,
    );
  return checked;
};

const progress = shape({
  /**
   * waiting: another tab downloads or deletes the same model; checking: stored files are looked up
   * and checked; downloading, or copying picked files; verifying: the whole is checked; core: the
   * open core is fetched, for the first member that needs it; loading: the member goes to the
   * engine.
   */
  phase: oneOf("waiting", "checking", "downloading", "verifying", "core", "loading"),
  /** Bytes so far. */
  loaded: number,
  /** Total bytes; 0 while unknown. */
  total: number,
  /** Bytes a second, smoothed; null while unknown. */
  rate: nullable(number),
  secondsLeft: nullable(number),
  /** Reason for a pause: "The host asks to wait 3 s." */
  note: optional(text),
});

export const fileSize = shape({ name: text, bytes: number });

/**
 * Bytes of storage that the model takes beyond those in use: a download reserves the sizes of its
 * files as it begins, so that the rest of one that was interrupted takes no more.
 */
const toReserve = number;

const plan = shape({
  /** The reference in its canonical spelling. */
  ref: text,
  /** Origin of the download. */
  from: text,
  /** The commit that the revision names; null for an address. */
  commit: nullable(text),
  files: list(fileSize),
  bytes: number,
  /** Bytes that are stored; if all are, no request will be made. */
  stored: number,
  toReserve,
  /** Free space for this page on this machine; null if unknown. */
  free: nullable(number),
});

const storedModel = shape({
  ref: text,
  /** Its host; of a copy of picked files, the name that they were given. */
  from: text,
  commit: nullable(text),
  files: list(fileSize),
  bytes: number,
  /** Bytes that are stored. */
  stored: number,
  toReserve,
  /** Whether it is complete and verified, and works offline. */
  complete: flag,
  /** Bytes of system prompts kept for it; deleted with it. */
  prompts: number,
});

const stored = shape({
  models: list(storedModel),
  /** Whether downloads outlive the page; without browser storage they stay in memory. */
  keeps: flag,
  /** Bytes that this page uses on this machine, and its limit; null if unknown. */
  used: nullable(number),
  free: nullable(number),
  /** Whether the browser will not evict the data under pressure. */
  persisted: flag,
  /** Bytes of all kept system prompts, including those of models that are not stored. */
  prompts: number,
});

/**
 * `heap`: bytes of memory of the module, in all threads; it shrinks only when a thread ends.
 * `threads`: threads of the members.
 */
const usage = shape({ heap: number, threads: number });

const measured = shape({ member: text, tokens: number, room: number });

/** Addresses of a core's worker script and its module. */
const place = shape({ worker: text, wasm: text });

const request = variant({
  open: shape({
    id: number,
    backend: oneOf("auto", "webgpu", "cpu"),
    /** `grammar`: the module that constrains answers; `remote`: that of members elsewhere. */
    places: shape({ engine: place, openCore: place, grammar: text, remote: text }),
    hub: optional(text),
    /** Limit on the members' threads on the CPU. */
    threads: optional(whole(1, 1024)),
    /**
     * Core of members that name none. By default members run on the fused core, and those that it
     * does not support on the open one.
     */
    core: optional(core),
    /** Whether to keep system prompts for later visits; true by default. */
    keepPrompts: optional(flag),
  }),
  /** `builtIn`: port to the browser's own language model, and its context size in tokens. */
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
    /** Segments accepted before: the answer continues after them. */
    accepted: list(shape({ text, tokens: number })),
    /** Whether drafts and votes are reported before their round. */
    drafts: optional(flag),
  }),
  measure: shape({ id: number, messages: list(message), members: list(text), thinking }),
  /** Begins a conversation with this `id`, whose rounds the caller drives until it ends it. */
  begin: shape({
    id: number,
    messages: list(message),
    members: list(text),
    sampling,
    schema: optional(text),
  }),
  /** `members`: indices into the conversation's members. */
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
  /** Copies picked files into the store. */
  keepFiles: shape({ id: number, ref: text, name: text, files: list(blob) }),
  deleteModel: shape({ id: number, ref: text }),
  deletePrompts: shape({ id: number }),
  latestCommit: shape({ id: number, ref: text }),
  /** Pauses or resumes the answer to question `id` between its rounds. */
  pause: shape({ id: number, paused: flag }),
  /** Aborts the request `id`. */
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
  /** Completes a request that has no result. */
  done: shape({ id: number }),
  aborted: shape({ id: number }),
  failed: shape({ id: number, error: failure }),
});

/**
 * Source of a member: one of `ref`, `files`, `url`, `remote`, `builtIn`.
 *
 * @interface
 */
export type MemberSource = Checked<typeof source>;
export type Place = Checked<typeof place>;
export type Places = Extract<Request, { type: "open" }>["places"];
/**
 * Progress of a member, in bytes; as a share of 1 for the browser's own model, whose size is
 * unknown.
 *
 * @interface
 */
export type Progress = Checked<typeof progress>;
export type Usage = Checked<typeof usage>;
/**
 * Sizes of a download.
 *
 * @interface
 */
export type Plan = Checked<typeof plan>;
/**
 * A model in the store.
 *
 * @interface
 */
export type StoredModel = Checked<typeof storedModel>;
/**
 * Stored models and space on this machine.
 *
 * @interface
 */
export type Stored = Checked<typeof stored>;
/**
 * Tokens of a conversation in a member, and its limit, which includes the answer.
 *
 * @interface
 */
export type Measured = Checked<typeof measured>;
export type Request = Checked<typeof request>;
export type Reply = Checked<typeof reply>;

/** Objects transferred with a request instead of copied. */
export const moved = ({
  builtIn,
}: {
  type: Request["type"];
  builtIn?: { port: MessagePort };
}): Transferable[] => (builtIn ? [builtIn.port] : []);

/** Throws a TypeError that names the fault if `data` is no request. */
export const parseRequest = (data: unknown): Request => request(data, "request");
/** Throws a TypeError that names the fault if `data` is no reply. */
export const parseReply = (data: unknown): Reply => reply(data, "reply");
