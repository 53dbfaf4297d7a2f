/**
 * The protocol between the library and its worker. Every message is checked on arrival, on both
 * sides; the types below are derived from the checks.
 */
import { flag, list, blob, number, nullable, oneOf, optional, shape, text, variant, type Checked } from "./check.ts";
import { errorKinds } from "./errors.ts";

const message = shape({ role: oneOf("system", "user", "assistant"), content: text });
const sampling = shape({ temperature: number, topP: number, topK: number, seed: number });
const settings = shape({
  segmentTokens: number,
  scoring: oneOf("logit", "likelihood"),
  alpha: number,
  rate: oneOf("code", "printed", "fixed-share"),
  fixedShare: number,
  update: oneOf("before", "after"),
  selfVotes: flag,
  exit: nullable(shape({ warmup: number, temperature: number, threshold: number })),
  fast: flag,
  maxRounds: number,
  maxCharacters: number,
});
const adapter = shape({ name: text, vendor: text, architecture: text, backend: text, software: flag });
const about = shape({
  name: text,
  architecture: text,
  parameters: number,
  quantisation: text,
  bytes: number,
  context: number,
  vocabulary: number,
  layers: number,
  hidden: number,
});
const candidate = shape({ member: text, text, ended: flag, tokens: number });
const score = shape({ meanLogit: number, meanLogprob: number });

/** Where a member's file comes from: a URL with its size and SHA-256, or a file the visitor chose. */
const source = shape({
  name: text,
  url: optional(text),
  bytes: optional(number),
  sha256: optional(text),
  file: optional(blob),
});

/** Tokens one member ran in one round, and what it holds after it. */
const roundCounters = shape({ prefix: number, prefilled: number, drafted: number, verified: number });

const event = variant({
  begin: shape({
    members: list(text),
    settings,
    sampling,
    /** By member: tokens in the prefix, and how many of them had to be run. */
    prefixes: list(shape({ prefix: number, run: number })),
  }),
  round: shape({
    round: number,
    active: list(number),
    candidates: list(candidate),
    scores: list(list(score)),
    shares: list(list(number)),
    totals: list(number),
    counts: list(number),
    winner: number,
    weights: list(number),
    exited: list(number),
    text,
    ms: shape({ draft: number, verify: number }),
    /** By active member. */
    counters: list(roundCounters),
  }),
  end: shape({ stop: text, text, ms: number }),
});

const request = variant({
  open: shape({ id: number, backend: oneOf("auto", "webgpu", "cpu") }),
  add: shape({ id: number, source, contextTokens: number, replace: optional(text) }),
  remove: shape({ id: number, name: text }),
  ask: shape({
    id: number,
    messages: list(message),
    members: list(text),
    settings: optional(settings),
    sampling,
  }),
  /** Ends the request `id`, whatever it is. */
  stop: shape({ id: number }),
  loseDevice: shape({ id: number }),
});

const reply = variant({
  opened: shape({ id: number, backend: oneOf("webgpu", "cpu"), adapter, why: text, settings }),
  progress: shape({ id: number, loaded: number, total: number }),
  added: shape({ id: number, about }),
  event: shape({ id: number, event }),
  /** A request that has nothing to report is over. */
  done: shape({ id: number }),
  aborted: shape({ id: number }),
  failed: shape({
    id: number,
    error: shape({ kind: oneOf(...errorKinds), message: text, partial: optional(text), member: optional(text) }),
  }),
});

export type MemberSource = Checked<typeof source>;
export type RoundCounters = Checked<typeof roundCounters>;
export type ConclaveEvent = Checked<typeof event>;
export type BeginEvent = Extract<ConclaveEvent, { type: "begin" }>;
export type RoundEvent = Extract<ConclaveEvent, { type: "round" }>;
export type EndEvent = Extract<ConclaveEvent, { type: "end" }>;
export type Request = Checked<typeof request>;
export type Reply = Checked<typeof reply>;

/** Throws a TypeError that names the fault when `data` is no request. */
export const parseRequest = (data: unknown): Request => request(data, "request");
/** Throws a TypeError that names the fault when `data` is no reply. */
export const parseReply = (data: unknown): Reply => reply(data, "reply");
