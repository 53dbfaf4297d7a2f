/**
 * The types that cross from Rust, from its structs and their comments. Written by
 * `CONCLAVE_WRITE=1 cargo test -p conclave-surface`: change those.
 */

/** One turn of a conversation. */
export interface Message {
  /** Who speaks: `system`, `user` or `assistant`. */
  role: "system" | "user" | "assistant";
  /** What is said. */
  content: string;
}

/** Settings of a member's draws. Defaults are the paper's: temperature 0.6, top-p 0.9. */
export interface Sampling {
  /** Divides the logits, 0 to 10; 0 is greedy. */
  temperature: number;
  /**
   * The smallest set of most probable tokens whose probability reaches this, 0 to 1; 1 keeps all.
   */
  topP: number;
  /** At most this many of the most probable tokens; 0 keeps all. */
  topK: number;
  /** Same seed, same text, on the same device. */
  seed: number;
}

/**
 * Whether members that can think aloud before they answer do so; `auto`: each model's chat template
 * decides.
 */
export type Thinking = "off" | "on" | "auto";

/** Model exit: members whose candidates the others keep scoring low leave the query. */
export interface ExitSettings {
  /** Rounds that have to be over before anyone leaves; 0 to 10 000. */
  warmup: number;
  /**
   * T0 of the softmax temperature T = T0·H (`exit.rs` has the equations); 0 to 1000. With the
   * default a member leaves once it lies about four standard errors behind the others; higher is
   * more patient. In simulated queries of 12 rounds among 3, 5 and 8 equals, a given member was
   * lost in 10, 8 and 3 % of them (with T0 = 4 in 16, 19 and 13 %), one that scored 30 % lower in
   * all.
   */
  temperature: number;
  /** A member leaves when its keep-probability falls below `threshold`/n; 0 to 1. */
  threshold: number;
}

/**
 * Leader drafts: one member drafts alone, all verify, and only what a verifier doubts is drafted by
 * all. The first leads until a round that all drafted has a winner; from then on its drafter does.
 */
export interface LeaderSettings {
  /**
   * A candidate that surprises a verifier by more than this many nats is doubted; 0 to 1000. A
   * segment of n tokens that are all expected has ln(1 + n), some 3 nats.
   */
  doubt: number;
}

/** Every switch of the method. */
export interface Settings {
  /**
   * L, the most tokens of its own that a member drafts in a round; 1 to 64. The paper uses 10 and
   * finds 5 to 15 good; small members are judged better by segments that come to a point.
   */
  segmentTokens: number;
  /**
   * What a score is: one over the candidate's surprise, its mean raw logit (the paper's), or its
   * mean log-probability.
   */
  scoring: "harmonic" | "logit" | "likelihood";
  /**
   * Whether a candidate that ends the answer is scored on what closes a turn as well: whether it
   * should end there. One without text is scored on that alone in any case.
   */
  scoreEnd: boolean;
  /**
   * How much a member's strength counts in the vote from the first round on: starting weights are
   * proportional to strength^trust (see `Query::trust`(crate::Query::trust)); 0 to 4. With 0 all
   * start equal, as in the paper.
   */
  trust: number;
  /**
   * What feedback rewards: the mean of the others' shares, or how often they prefer a candidate
   * (the paper's).
   */
  reward: "shares" | "counts";
  /** α of the learning rate; 0 (no feedback) to 100. */
  alpha: number;
  /**
   * The learning rate of round k among N members: α/(k√N) as the authors' code, α/(N√k) as the
   * paper prints it, or the first with a share of each weight spread evenly.
   */
  rate: "code" | "printed" | "fixed-share";
  /** λ, the share that `fixed-share` spreads; 0 to 1. The other rates ignore it. */
  fixedShare: number;
  /** Whether the weights change before or after the selection of the same round. */
  update: "before" | "after";
  /**
   * Whether a member's vote for its own candidate counts in the selection. Feedback never counts
   * it.
   */
  selfVotes: boolean;
  /**
   * Whether a verifier's shares are divided by its largest in the selection, so that all say as
   * much for what they like best, however sure they are of it. Of two members with equal weights it
   * changes no winner.
   */
  level: boolean;
  /**
   * How much more a verifier is heard that is sure of the finished answer it has drafted itself:
   * its weight is multiplied by (½ + u)^−confidence with u its surprise at that answer in nats, at
   * least 0.8, with 1 more for a base model, and 2 for who has not finished; 0 to 8, where 0 hears
   * all alike. While the strongest member's candidate is not at its end, nobody is heard the more
   * for having finished.
   */
  confidence: number;
  /**
   * Whether candidates that say the same in another form share their votes in the selection (see
   * `mod@crate::agreement`).
   */
  agree: boolean;
  /**
   * The total of a candidate that only repeats what was said (see `mod@crate::repetition`), or that
   * ends unsure of itself (`sure`(Self::sure)), is multiplied by this; 0 to 1, where 1 minds
   * neither.
   */
  discount: number;
  /**
   * A candidate that ends the answer, while a member at least as strong goes on, is to surprise its
   * own drafter by at most so many nats, or it is discounted; 0 to 1000. A short answer is known or
   * guessed: members that know it end sure of themselves, and one that is asked for an explanation
   * and has none ends unsure.
   */
  sure: number;
  /** Model exit; without it every member stays to the end. */
  exit: ExitSettings | null;
  /**
   * A member with more than this part of the vote, whose candidate has won and goes on, drafts the
   * next segments alone, while the members' weighted mean surprise at them is at most 4 nats; 0 to
   * 1, where 1 lets all draft in every round. Nobody could outvote it but where it is unsure.
   */
  lead: number;
  /** Leader drafts from the first round on; without them all draft, but for `lead`(Self::lead). */
  leader: LeaderSettings | null;
  /**
   * Fast mode: a candidate that ends the answer is accepted at once, unverified; of those that a
   * round begins with, so a leader's, but none that others draft once it is doubted.
   */
  fast: boolean;
  /** The most rounds of an answer; 1 to 10 000. */
  maxRounds: number;
  /**
   * The answer ends with the segment that brings it to this many characters (Unicode scalar
   * values); 1 to 1 000 000. Segments are never cut for it.
   */
  maxCharacters: number;
}

/** What a number may be, ends included. */
export interface SettingRange {
  /** The smallest value allowed. */
  low: number;
  /** The largest value allowed. */
  high: number;
}

/**
 * A preset of all switches: what does best where it was measured, the same with leader drafts, and
 * the method as its authors published it.
 */
export type Rule = "harmonic" | "leader" | "paper";

/** A segment that a member offers for this round. */
export interface Candidate {
  /**
   * The segment, as `cut` left it. Empty only if the drafter ended the answer at once (or had no
   * whole character to show).
   */
  text: string;
  /** The drafter produced an end-of-answer token after the text. */
  ended: boolean;
}

/** A drafted segment before it is cut to whole words. */
export interface Draft {
  /** Its text; an incomplete character at the end is held back. */
  text: string;
  /** The member ended the answer after it. */
  ended: boolean;
  /** Tokens drawn, without the end token. */
  tokens: number;
}

/**
 * What a verifier says of a candidate: means over the candidate's tokens in the verifier's own
 * tokenisation. Probabilities p need the whole vocabulary at every token: what is made of them is
 * there only where the scoring looks at it.
 */
export interface Score {
  /** Mean raw logit of the candidate's tokens; servers don't tell it. */
  meanLogit?: number;
  /** Mean log-probability (nats) of the candidate's tokens, where the scoring looks at it. */
  meanLogprob?: number;
  /** −ln(1 + Σ_t (1/p_t − 1)) over the candidate's tokens, likewise: 0 where all are sure. */
  harmonic?: number;
  /**
   * What a judge without logits prefers the candidate by: above 0, only its ratio to the row's
   * others counts.
   */
  preference?: number;
}

/** A verifier's score of one candidate. */
export interface VerifiedScore {
  /** Tokens of the candidate in the verifier's tokenisation. */
  tokens: number;
  /** Mean raw logit of the candidate's tokens; servers don't tell it. */
  meanLogit?: number;
  /** Mean log-probability (nats) of the candidate's tokens, where the scoring looks at it. */
  meanLogprob?: number;
  /** −ln(1 + Σ_t (1/p_t − 1)) over the candidate's tokens, likewise: 0 where all are sure. */
  harmonic?: number;
  /**
   * What a judge without logits prefers the candidate by: above 0, only its ratio to the row's
   * others counts.
   */
  preference?: number;
}

/** Report of one round. Rows and weights go by `active`, columns by `drafters`. */
export interface RoundReport {
  /** Its number, from 1. */
  round: number;
  /** Members that took part. */
  active: Array<number>;
  /** Members that drafted: all that can and were in time, or the leader alone. */
  drafters: Array<number>;
  /** Their segments; `tokens` in each drafter's own, as verified where it was. */
  candidates: Array<Draft>;
  /**
   * Raw scores, a row a verifier, empty where it abstained; empty as a whole if a fast end was
   * accepted unverified.
   */
  scores: Array<Array<VerifiedScore>>;
  /** Scores normalised to rows of sum 1; empty, as totals and counts, where there was no vote. */
  shares: Array<Array<number>>;
  /** Y of each candidate. */
  totals: Array<number>;
  /** Verifiers, by row, whose vote alone turned what all others agreed on. */
  turnedBy: Array<number>;
  /** c of each candidate. */
  counts: Array<number>;
  /** Weights after the feedback. */
  weights: Array<number>;
  /** Index into the candidates. */
  winner: number;
  /** Candidates of the winner's text that end alike, the winner among them. */
  writers: Array<number>;
  /** Members that leave by the rule. */
  exited: Array<number>;
  /** Text that is now certain to be in the answer, after that of earlier rounds. */
  text: string;
}

/** Options of loading a member. */
export interface LoadOptions {
  /** Room for the conversation, in the member's tokens. */
  contextTokens: number;
  /** Format to round unquantised weights to; if absent, they stay as they are. */
  quantise?: "Q8_0" | "Q4_0";
}

/** GPU format of matrices stored in a format. */
export interface FormatInMemory {
  /** Format in the file. */
  stored: string;
  /** Format in memory; null if no kernel reads it. */
  kept: string | null;
}

/** Bytes of memory, a GPU's or the machine's. */
export interface Memory {
  /** Matrices, norms, biases and rotary tables. */
  weights: number;
  /**
   * Keys and values of the whole context, rows of convolutions, and recurrent states for a round of
   * three candidates.
   */
  kv: number;
  /** Activations and logits of the largest pass. */
  scratch: number;
}

/** Description of a loaded member. */
export interface ModelAbout {
  /** Its name. */
  name: string;
  /** Its family's name in GGUF. */
  architecture: string;
  /** Number of weights in its files. */
  parameters: number;
  /** The format of most of the weights. */
  quantisation: string;
  /** Bytes of the weights in its files. */
  bytes: number;
  /** Room for the conversation, in its tokens. */
  context: number;
  /** Number of its tokens. */
  vocabulary: number;
  /** Number of its blocks. */
  layers: number;
  /** Width of a hidden state. */
  hidden: number;
  /**
   * It came with a chat template. A model without one is usually a base model: it is prompted with
   * questions and answers, and answers in one paragraph.
   */
  template: boolean;
  /** Its strength in a vote; only the ratio to other members' counts. Absent if unknown. */
  strength?: number;
  /** Format in memory of each format in its files. */
  formats: Array<FormatInMemory>;
  /** GPU memory it takes. */
  memory: Memory;
}

/** The device that runs the models. */
export interface Adapter {
  /** Its name. */
  name: string;
  /** Its maker. */
  vendor: string;
  /** Its architecture. */
  architecture: string;
  /** Its graphics API. */
  backend: string;
  /** It is a CPU emulating a GPU. */
  software: boolean;
}

/**
 * A GPU's choice of kernels where the faster is found by measuring; see
 * `conclave_kernels::Choices`.
 */
export interface Choices {
  /** Norms are fused into the products after them. */
  normInside: boolean;
  /**
   * Rows that a block computes while a tile computes its 32; absent where tiles have failed their
   * self-test.
   */
  asATile?: number;
}

/** The choices in use. */
export interface Chosen {
  /** They were measured, with the first model or at an earlier visit. */
  measured: boolean;
  /** Norms are fused into the products after them. */
  normInside: boolean;
  /**
   * Rows that a block computes while a tile computes its 32; absent where tiles have failed their
   * self-test.
   */
  asATile?: number;
}

/** Result of beginning a conversation. */
export interface Begun {
  /** Tokens in the prefix. */
  prefix: number;
  /** Tokens of it that were run: a follow-up runs only the new ones. */
  run: number;
  /** It was stopped before the conversation's end; the same call continues there. */
  stopped: boolean;
}

/** A member's thought. */
export interface Thought {
  /** The thought without its marks. */
  text: string;
  /** Its number of tokens, including its marks. */
  tokens: number;
  /** It was stopped, and the answer with it. */
  stopped: boolean;
}

/** Tokens that went through the model, since it was loaded. */
export interface Counters {
  /** Tokens in the prefix now. */
  prefix: number;
  /** Run as prompt. */
  prefillTokens: number;
  /** Run while drafting. */
  draftTokens: number;
  /** Run while verifying in line. */
  verifyTokens: number;
}

/** Reason why an answer is over. */
export type Stop =
  | "ended"
  | "rounds"
  | "length"
  | "silence"
  | "context"
  | "tokens"
  | "stop"
  | "stopped";
