/**
 * The protocol between the worker that runs the rounds and the members' workers, on the CPU and on
 * the open core (`member-threads.ts`, `member-host.ts`). Checked on arrival, on both sides, like
 * the library's.
 */
import {
  bytes,
  compiledModule,
  fileHandle,
  flag,
  list,
  messagePort,
  number,
  oneOf,
  optional,
  shape,
  sharedNumber,
  text,
  variant,
  whole,
  type Checked,
} from "../protocol/check.ts";
import {
  backend,
  contextTokens,
  failure,
  fileSize,
  message,
  modelAbout,
  scores,
  thinking,
  thought,
} from "../protocol/messages.ts";
import { sampling, settings } from "../protocol/generated-settings.ts";

const draft = { text, ended: flag, tokens: number };

const counters = shape({
  prefix: number,
  prefillTokens: number,
  draftTokens: number,
  verifyTokens: number,
});

/** `member`: a number assigned by the requesting side. Requests with an `id` are answered. */
const request = variant({
  /**
   * First message. `compiled`: the module of this worker's core. `worker`: address of its script.
   */
  start: shape({ compiled: compiledModule, worker: text, backend }),
  /** Number of other workers that are to be there, to help this one compute. */
  startHelpers: shape({ count: whole(1, 1024) }),
  load: shape({
    id: number,
    member: number,
    name: text,
    files: list(fileSize),
    /** Handles of the same files, for the thread to open them itself. */
    handles: optional(list(fileHandle)),
    /** Port through which ranges of the files are requested. */
    port: messagePort,
    options: shape({ contextTokens, quantise: optional(oneOf("Q8_0", "Q4_0")) }),
  }),
  measure: shape({ id: number, member: number, messages: list(message), thinking }),
  systemKey: shape({ id: number, member: number, messages: list(message) }),
  giveSystem: shape({ id: number, member: number }),
  takePrefix: shape({ id: number, member: number, prefix: bytes }),
  begin: shape({
    id: number,
    member: number,
    messages: list(message),
    sampling,
    stream: number,
    form: optional(shape({ compiled: compiledModule, schema: text })),
  }),
  think: shape({ id: number, member: number }),
  /** Answers `reading` or `thinking`: whether to continue. */
  goOn: shape({ id: number, goOn: flag }),
  draft: shape({ id: number, member: number, maxTokens: number, branch: number, novel: flag }),
  verify: shape({
    id: number,
    member: number,
    candidates: list(shape({ text, ended: flag })),
    settings,
  }),
  keep: shape({ id: number, member: number, winner: number }),
  release: shape({ member: number }),
  free: shape({ member: number }),
});

const reply = variant({
  /**
   * The module has started. Sent once, without a request. `wanted`, if helpers can use its memory:
   * the number of those that may help, which holds at once.
   */
  started: shape({ wanted: optional(sharedNumber) }),
  /** Bytes of the weights that are in place. */
  loading: shape({ id: number, loaded: number, total: number }),
  /** Tokens of the conversation that were read; waits for `goOn`. */
  reading: shape({ id: number, done: number, total: number }),
  /** New text of a member's thought; waits for `goOn`. */
  thinking: shape({ id: number, text }),
  /** `heap`: bytes of this thread's module. */
  loaded: shape({ id: number, about: modelAbout, heap: number }),
  measured: shape({ id: number, tokens: number }),
  /** Result of a member, if any. */
  given: shape({ id: number, given: optional(bytes) }),
  taken: shape({ id: number }),
  begun: shape({
    id: number,
    begun: shape({ prefix: number, run: number, stopped: flag }),
    counters,
  }),
  thought: shape({ id: number, thought, counters }),
  drafted: shape({
    id: number,
    draft: shape({ ...draft, second: optional(shape(draft)) }),
    counters,
  }),
  verified: shape({ id: number, scores: list(shape({ ...scores, tokens: number })), counters }),
  kept: shape({ id: number, counters }),
  /** `ended`: the thread's module has trapped, and is not used again. */
  failed: shape({ id: number, error: failure, ended: optional(flag) }),
});

export type ThreadRequest = Checked<typeof request>;
/** Start options of a thread's engine. */
export type ThreadStart = Omit<Extract<ThreadRequest, { type: "start" }>, "type">;
export type ThreadReply = Checked<typeof reply>;

/** Throws a TypeError that names the fault if `data` is no request. */
export const parseThreadRequest = (data: unknown): ThreadRequest => request(data, "request");
/** Throws a TypeError that names the fault if `data` is no reply. */
export const parseThreadReply = (data: unknown): ThreadReply => reply(data, "reply");
