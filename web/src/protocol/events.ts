/**
 * Events of an answer as they cross from the worker, checked on arrival; the types below are
 * derived from the checks.
 */
import {
  flag,
  list,
  nullable,
  number,
  oneOf,
  optional,
  shape,
  text,
  variant,
  type Check,
  type Checked,
} from "./check.ts";
import { errorKinds } from "./errors.ts";
import { defaultSampling, paper, sampling, settings } from "./generated-settings.ts";

export const thinking = oneOf("off", "on", "auto");
/**
 * A drafted segment. `ended`: the drafter ended the answer after it; `tokens`: its length in the
 * drafter's tokens.
 */
const candidate = shape({ member: text, text, ended: flag, tokens: number });
export const scores = {
  meanLogit: optional(number),
  meanLogprob: optional(number),
  harmonic: optional(number),
  preference: optional(number),
};
const score = shape(scores);

const roundCounters = shape({
  /** Number of tokens of the member's prefix after the round. */
  prefix: number,
  prefilled: number,
  drafted: number,
  verified: number,
});

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
  "repetition",
  "context",
  "tokens",
  "stop",
  "stopped",
);

/**
 * `promptTokens`: of the conversation, by the member that counts the most; `answerTokens`: each
 * segment by its writer's tokenizer.
 */
const answerUsage = shape({ promptTokens: number, answerTokens: number });

/**
 * A check that takes fields which are missing from defaults: answers kept by an earlier version
 * lack those that were added later.
 */
const completed =
  <T>(check: Check<T>, defaults: object): Check<T> =>
  (data, path) =>
    check(typeof data === "object" && data !== null ? { ...defaults, ...data } : data, path);

export const event = variant({
  reading: shape({ member: text, done: number, total: number }),
  begin: shape({
    /** Names of the participating members; rounds refer to their indices. */
    members: list(text),
    // In the paper's settings what was added later is off.
    settings: completed(settings, paper),
    sampling: completed(sampling, defaultSampling),
    thinking,
    /** By member: tokens in the prefix, and how many of them had to be run. */
    prefixes: list(shape({ prefix: number, run: number })),
    /** Strength of each member in a vote; null if unknown. */
    strengths: list(nullable(number)),
    /** Whether each is a chat model; the others are base models. */
    chats: list(flag),
    /** Weights before the first round, by member, summing to 1. */
    weights: list(number),
    /** Number of messages left out for lack of room: the oldest after the system message. */
    dropped: number,
  }),
  thinking: shape({ member: text, text }),
  thought: shape({ member: text, text, tokens: number }),
  draft: shape({ member: number, text, ended: flag, tokens: number }),
  vote: shape({ candidates: list(shape({ text, ended: flag })) }),
  round: shape({
    /** Number of the round, from 1. */
    round: number,
    /** Participating members, as indices. */
    active: list(number),
    /** Participating members on a server, or the browser's own, as indices. */
    remote: list(number),
    /**
     * Participating members without scores in a vote, as indices: late ones, or those whose server
     * reports none.
     */
    abstained: list(number),
    candidates: list(candidate),
    /**
     * Raw scores: `scores[i][j]` is verifier i's score of candidate j. A row is empty if the member
     * abstained, or was not asked because the strongest was sure of its answer. The list is empty
     * if fast mode accepted a candidate unverified.
     */
    scores: list(list(score)),
    /**
     * `scores`, normalised: every row sums to 1. Without a vote, the shares, totals and counts are
     * empty.
     */
    shares: list(list(number)),
    /**
     * Weighted sum of each candidate's shares; with level votes each row is first divided by its
     * largest.
     */
    totals: list(number),
    /**
     * Verifiers, as indices into `active`, whose vote alone overturned the choice of all others.
     */
    turnedBy: list(number),
    /** Times that another member preferred the candidate to some other one, at least 1. */
    counts: list(number),
    /** Index into `candidates`. */
    winner: number,
    /**
     * Drafter of each candidate, as an index into the members: all participants except judges and
     * late ones, or the leader alone.
     */
    drafters: list(number),
    /**
     * Drafters of the accepted segment, as indices into `candidates`: the winner, and all others
     * with the same draft and the same ending.
     */
    writers: list(number),
    /** Weights after this round's feedback, one for each active member. */
    weights: list(number),
    /** Members that leave the answer now, as indices. */
    exited: list(number),
    /**
     * Text that this round added to the answer: the accepted segment, without what may begin a
     * `stop` text.
     */
    text,
    ms: shape({ draft: number, verify: number }),
    /** Tokens run and prefix, one entry for each active member. */
    counters: list(roundCounters),
  }),
  reopened: shape({ error: failure }),
  left: shape({ round: number, member: text, error: failure }),
  end: shape({
    /**
     * Reason for the end. `ended`: the winner ended the answer; `rounds` or `length`: a limit of
     * the settings; `silence`: a round added no text; `repetition`: all members only repeat what is
     * there; `context`: the last member's context is full; `tokens` or `stop`: the caller's limits;
     * `stopped`: the caller stopped the answer.
     */
    stop: stopReason,
    /** The whole answer. */
    text,
    usage: answerUsage,
    ms: number,
  }),
});

/**
 * Tokens that one member ran in one round, and its prefix afterwards.
 *
 * @interface
 */
export type RoundCounters = Checked<typeof roundCounters>;
/** @useDeclaredType */
export type StopReason = Checked<typeof stopReason>;
type EventOf<T extends string> = Extract<Checked<typeof event>, { type: T }>;
/**
 * A member has read `done` of the conversation's `total` tokens, including those cached before.
 *
 * @interface
 */
export type ReadingEvent = EventOf<"reading">;
/**
 * All members have read the conversation.
 *
 * @interface
 */
export type BeginEvent = EventOf<"begin">;
/**
 * New text of a member's thought before it answers; continues its last one.
 *
 * @interface
 */
export type ThinkingEvent = EventOf<"thinking">;
/**
 * The complete thought. It is not part of the answer, and no other member sees it.
 *
 * @interface
 */
export type ThoughtEvent = EventOf<"thought">;
/**
 * A member's draft has arrived, if `drafts` were asked for: as drafted, not yet cut to whole words.
 * `member` is its index. A second draft of the same member is first reported in `vote`.
 *
 * @interface
 */
export type DraftEvent = EventOf<"draft">;
/**
 * All drafts have arrived, and the members score them as these candidates; only with `drafts`.
 *
 * @interface
 */
export type VoteEvent = EventOf<"vote">;
/**
 * One round. Rows are verifiers in the order of `active`, columns the `candidates`.
 *
 * @interface
 */
export type RoundEvent = EventOf<"round">;
/**
 * The engine failed and was reopened with all its members: they read the conversation again and
 * continue from the text so far.
 *
 * @interface
 */
export type ReopenedEvent = EventOf<"reopened">;
/**
 * A member failed in this round and left the answer; the others begin the round again.
 *
 * @interface
 */
export type LeftEvent = EventOf<"left">;
/**
 * The answer is over.
 *
 * @interface
 */
export type EndEvent = EventOf<"end">;

/** The end of an answer that was stopped with this text, and counted nothing. */
export const stoppedEnd = (text = ""): EndEvent => ({
  type: "end",
  stop: "stopped",
  text,
  usage: { promptTokens: 0, answerTokens: 0 },
  ms: 0,
});
/** Events of an answer, told apart by `type`. */
export type ConclaveEvent =
  | ReadingEvent
  | BeginEvent
  | ThinkingEvent
  | ThoughtEvent
  | DraftEvent
  | VoteEvent
  | RoundEvent
  | ReopenedEvent
  | LeftEvent
  | EndEvent;

/** Throws a TypeError that names the fault if `data` is no event. */
export const parseEvent = (data: unknown): ConclaveEvent => event(data, "event");
