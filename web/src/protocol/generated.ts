/**
 * The types that cross from Rust, from its structs and their comments. Written by
 * `CONCLAVE_WRITE=1 cargo test -p conclave-wasm`: change those.
 */

/** One turn of a conversation. */
export interface Message {
  /** Role of the speaker: `system`, `user`, `assistant` or `tool`. */
  role: "system" | "user" | "assistant";
  /** Its text. */
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
  /**
   * Tokens with at least this share of the most probable one's probability, 0 to 1; 0 keeps all.
   */
  minP: number;
  /** Seed of the draws. The same seed gives the same text on the same device. */
  seed: number;
}

/**
 * Whether members that can think aloud before they answer do so; `auto`: each model's chat template
 * decides.
 */
export type Thinking = "off" | "on" | "auto";

/** Model exit: members whose candidates the others keep scoring low leave the query. */
export interface ExitSettings {
  /** Rounds before any member may leave; 0 to 10 000. */
  warmup: number;
  /**
   * T0 of the softmax temperature T = T0·H (equations in `exit.rs`); 0 to 1000. With the default a
   * member leaves about four standard errors below the others; a higher value is more patient. In
   * simulated queries of 12 rounds among 3, 5 and 8 equals, a given member was lost in 10, 8 and 3
   * % of them (with T0 = 4 in 16, 19 and 13 %), one that scored 30 % lower in all.
   */
  temperature: number;
  /** A member leaves if its keep-probability falls below `threshold`/n; 0 to 1. */
  threshold: number;
}

/**
 * Leader drafts: one member drafts alone, all verify, and all draft only if a verifier doubts the
 * candidate. The first leads until a round that all drafted has a winner; from then on its drafter
 * does.
 */
export interface LeaderSettings {
  /**
   * Surprise in nats above which a verifier doubts a candidate; 0 to 1000. A segment of n tokens
   * that are all expected has ln(1 + n), some 3 nats.
   */
  doubt: number;
}

/** Settings of the method. */
export interface Settings {
  /**
   * L, the maximum tokens of its own that a member drafts in a round; 1 to 64. The paper uses 10
   * and finds 5 to 15 good. Small members are judged better by longer segments.
   */
  segmentTokens: number;
  /**
   * Score of a candidate: by its surprise, its mean raw logit (the paper's), or its mean
   * log-probability.
   */
  scoring: "harmonic" | "logit" | "likelihood";
  /**
   * Whether the score of a candidate that ends the answer includes the tokens that close its turn,
   * and so rates the end as well. A candidate without text is always scored on those tokens alone.
   */
  scoreEnd: boolean;
  /**
   * Exponent of a member's strength in its starting weight: weights begin proportional to
   * strength^trust (see `Query::trust`); 0 to 4. With 0 all start equal, as in the paper.
   */
  trust: number;
  /**
   * Reward of the feedback: the mean of the others' shares of a candidate, or the number of times
   * that they prefer it to another (the paper's).
   */
  reward: "shares" | "counts";
  /** α of the learning rate; 0 (no feedback) to 100. */
  alpha: number;
  /**
   * Learning rate of round k among N members: α/(k√N) as in the authors' code, α/(N√k) as printed
   * in the paper, or the first with a fraction of each weight spread evenly.
   */
  rate: "code" | "printed" | "fixed-share";
  /** λ, the fraction that `fixed-share` spreads; 0 to 1. The other rates ignore it. */
  fixedShare: number;
  /** Whether the weights change before or after the selection of the same round. */
  update: "before" | "after";
  /**
   * Whether a member's vote for its own candidate counts in the selection. Feedback never counts
   * it.
   */
  selfVotes: boolean;
  /**
   * Whether a verifier's shares are divided by its largest in the selection, so that every verifier
   * gives its favourite a share of 1. Between two members with equal weights it changes no winner.
   */
  level: boolean;
  /**
   * Exponent c by which a verifier counts more if it is sure of its own finished answer; 0 to 8,
   * where 0 treats all verifiers alike. Its weight is multiplied by (½ + u)^−c, where u is its
   * surprise at that answer in nats, plus 1 for a base model, and at least 0.8; 2 for an unfinished
   * answer. While a candidate of the strongest member does not end the answer, the factor is not
   * applied.
   */
  confidence: number;
  /**
   * Limit on the margin by which a member's drawn token is more probable than the best other token;
   * 0 to 1, where 0 turns second candidates off. It is applied in the first round, to drafts that
   * end the answer, at the least probable of the first tokens of their words. If the margin there
   * is smaller than the limit, the member drafts a second candidate: its draft up to that token,
   * then the other token (AdaFuse, arXiv 2601.06022).
   */
  branch: number;
  /**
   * Limit in nats on the surprise of the strongest member at its own draft, up to which it answers
   * without the others; 0 to 1000, where 0 always lets them draft and vote. The draft has to end
   * the answer, and the member must have no second candidate. It applies to the first round, if one
   * member is the strongest. In a conversation the draft must have a word that no turn has: a
   * member can be sure of something only because it stood in an earlier answer.
   */
  alone: number;
  /**
   * Whether a weaker member's unfinished draft is left out of the vote once the strongest member's
   * draft ends the answer, unless it agrees with a draft that ends (see `agreement`). Such a draft
   * almost never wins, and scoring it costs more than scoring all others.
   */
  endedOnly: boolean;
  /**
   * Whether candidates that say the same in another form share their votes in the selection (see
   * `agreement`).
   */
  agree: boolean;
  /**
   * Factor on the total of a discounted candidate; 0 to 1, where 1 turns discounts off. There are
   * three cases. The candidate only repeats (see `repetition`). Or it ends the answer while an
   * equally strong or stronger member continues, and its drafter is unsure of it (`sure`). Or it
   * ends the answer so after the first round, and the strongest member that continues is more
   * surprised by the end than by its own continuation.
   */
  discount: number;
  /**
   * Limit in nats on a drafter's surprise at its own candidate, for a candidate that ends the
   * answer while an equally strong or stronger member continues; above the limit the candidate is
   * discounted; 0 to 1000. Members that know a short answer are sure of its end. A member that is
   * asked for an explanation and has none ends unsure.
   */
  sure: number;
  /** Model exit; without it every member stays to the end. */
  exit: ExitSettings | null;
  /**
   * Share of the vote above which the winner's drafter drafts the next segments alone, if the
   * winner does not end the answer; 0 to 1, where 1 lets all draft in every round. It leads while
   * the members' weighted mean surprise at its segments is at most 4 nats. The others could outvote
   * such a member only where it is unsure.
   */
  lead: number;
  /** Leader drafts from the first round on; without them all draft, except under `lead`. */
  leader: LeaderSettings | null;
  /**
   * Fast mode: a candidate that ends the answer is accepted at once, unverified. It applies to the
   * first drafts of a round, including a leader's, but not to the drafts of others after it is
   * doubted.
   */
  fast: boolean;
  /** Maximum rounds of an answer; 1 to 10 000. */
  maxRounds: number;
  /**
   * The answer ends after this many rounds in a row in which every candidate only repeats (see
   * `repetition`); 1 to 10 000. In the last but one of these rounds the members draft again. From
   * then on their drafts must not repeat the answer. It needs a `discount` below 1.
   */
  maxRepeats: number;
  /**
   * The answer ends with the segment that brings it to this many characters (Unicode scalar
   * values); 1 to 1 000 000. Segments are never cut for it.
   */
  maxCharacters: number;
}

/** Range of a number, ends included. */
export interface SettingRange {
  /** Smallest allowed value. */
  low: number;
  /** Largest allowed value. */
  high: number;
}

/**
 * Preset of all settings: the best where it was measured, the same with leader drafts, and the
 * method as published.
 */
export type Rule = "harmonic" | "leader" | "paper";

/** Segment that a member offers in a round. */
export interface Candidate {
  /**
   * Text, cut by `cut`. Empty only if the drafter ended the answer at once, or had no complete
   * character yet.
   */
  text: string;
  /** The drafter produced an end-of-answer token after the text. */
  ended: boolean;
}

/** A drafted segment before it is cut to whole words. */
export interface Draft {
  /** Text; an incomplete character at the end is withheld. */
  text: string;
  /** The member ended the answer after it. */
  ended: boolean;
  /** Tokens drawn, without the end token. */
  tokens: number;
  /**
   * Another draft by the same member, where `Settings::branch` asks for one; it has no second
   * itself.
   */
  second?: Omit<Draft, 'second'>;
}

/**
 * A verifier's scores of a candidate: means over the candidate's tokens in the verifier's own
 * tokenisation. Probabilities p need the whole vocabulary at every token, so they are computed only
 * if the scoring uses them.
 */
export interface Score {
  /** Mean raw logit of the candidate's tokens; servers don't report it. */
  meanLogit?: number;
  /** Mean log-probability (nats) of the candidate's tokens, if the scoring uses it. */
  meanLogprob?: number;
  /**
   * −ln(1 + Σ_t (1/p_t − 1)) over the candidate's tokens, if the scoring uses it: 0 if the verifier
   * is sure of all of them.
   */
  harmonic?: number;
  /**
   * Preference of a judge without logits for the candidate: above 0; only its ratio to the others
   * in the row counts.
   */
  preference?: number;
}

/** A verifier's score of one candidate. */
export interface VerifiedScore {
  /** Tokens of the candidate in the verifier's tokenisation. */
  tokens: number;
  /** Mean raw logit of the candidate's tokens; servers don't report it. */
  meanLogit?: number;
  /** Mean log-probability (nats) of the candidate's tokens, if the scoring uses it. */
  meanLogprob?: number;
  /**
   * −ln(1 + Σ_t (1/p_t − 1)) over the candidate's tokens, if the scoring uses it: 0 if the verifier
   * is sure of all of them.
   */
  harmonic?: number;
  /**
   * Preference of a judge without logits for the candidate: above 0; only its ratio to the others
   * in the row counts.
   */
  preference?: number;
}

/** Report of one round. Rows and weights go by `active`, columns by `drafters`. */
export interface RoundReport {
  /** Its number, from 1. */
  round: number;
  /** Members that took part. */
  active: Array<number>;
  /**
   * Members that drafted: all that can and were in time, or the leader alone; twice where a member
   * drafted a second candidate.
   */
  drafters: Array<number>;
  /** Their segments; `tokens` in each drafter's own tokenisation, as verified if it was. */
  candidates: Array<Draft>;
  /**
   * Raw scores, a row per verifier, empty if it abstained; empty as a whole if a fast end was
   * accepted unverified.
   */
  scores: Array<Array<VerifiedScore>>;
  /** Scores normalised to rows of sum 1; empty, like totals and counts, if there was no vote. */
  shares: Array<Array<number>>;
  /** Y of each candidate. */
  totals: Array<number>;
  /** Verifiers, by row, whose vote alone overturned the choice of all others. */
  turnedBy: Array<number>;
  /** c of each candidate. */
  counts: Array<number>;
  /** Weights after the feedback. */
  weights: Array<number>;
  /** Index into the candidates. */
  winner: number;
  /** Candidates with the winner's text and end, the winner among them. */
  writers: Array<number>;
  /** Members that leave by the exit rule. */
  exited: Array<number>;
  /** Text that is now final, after that of earlier rounds. */
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
   * Whether it came with a chat template. A model without one is usually a base model: its prompt
   * is a list of questions and answers, and its answer ends with the paragraph.
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
  /** Whether it is a CPU emulating a GPU. */
  software: boolean;
}

/** A GPU's choice of kernels that depends on measurements; see `conclave_kernels::Choices`. */
export interface Choices {
  /** Whether norms are fused into the products after them. */
  normInside: boolean;
  /**
   * Number of rows that `product_block` computes in the time that a tile takes for up to 32; absent
   * if tiles have failed their self-test.
   */
  asATile?: number;
}

/** The choices in use. */
export interface Chosen {
  /** Whether they were measured, with the first model or at an earlier visit. */
  measured: boolean;
  /** Whether norms are fused into the products after them. */
  normInside: boolean;
  /**
   * Number of rows that `product_block` computes in the time that a tile takes for up to 32; absent
   * if tiles have failed their self-test.
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
export type Stop = "ended" | "rounds" | "length" | "silence" | "repetition" | "context" | "tokens" | "stop" | "stopped";
