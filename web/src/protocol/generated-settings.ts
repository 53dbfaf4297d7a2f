/**
 * The checks of the method's settings and of sampling, the settings of each rule, and the default
 * sampling, from `crates/ensemble/src/settings.rs` and `crates/model/src/sampling.rs`. Written by
 * `CONCLAVE_WRITE=1 cargo test -p conclave-wasm`.
 */
import { count, exact, flag, nullable, number, oneOf, whole, within } from "./check.ts";

/** The engine knows and checks the ranges. */
export const settings = exact({
  agree: flag,
  alone: number,
  alpha: number,
  branch: number,
  confidence: number,
  discount: number,
  endedOnly: flag,
  exit: nullable(exact({
    temperature: number,
    threshold: number,
    warmup: count,
  })),
  fast: flag,
  fixedShare: number,
  lead: number,
  leader: nullable(exact({
    doubt: number,
  })),
  level: flag,
  maxCharacters: count,
  maxRepeats: count,
  maxRounds: count,
  rate: oneOf("code", "printed", "fixed-share"),
  reward: oneOf("shares", "counts"),
  scoreEnd: flag,
  scoring: oneOf("harmonic", "logit", "likelihood"),
  segmentTokens: count,
  selfVotes: flag,
  sure: number,
  trust: number,
  update: oneOf("before", "after"),
});

/** The checks of all sampling options but the seed. */
export const samplingChecks = {
  temperature: within(0, 10),
  topP: within(0, 1),
  topK: whole(0, 4294967295),
  minP: within(0, 1),
};

export const sampling = exact({
  ...samplingChecks,
  // The largest that is exact.
  seed: whole(0, Number.MAX_SAFE_INTEGER),
});

/** Sampling of an answer that asks for none. */
export const defaultSampling = {
  temperature: 0.6,
  topP: 0.9,
  topK: 0,
  minP: 0,
};

/** Highest temperature. */
export const maxTemperature = 10;

/** Names in OpenAI's requests. */
export const requestNames = {
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  minP: "min_p",
} as const;

/** Sampling options by their names in OpenAI's requests; `null` stands for the default. */
export interface SamplingParams {
  /** 0 always takes the most probable token; higher is more varied. */
  temperature?: number | null;
  /** Draw only from the most probable tokens that hold this much probability; 1: all. */
  top_p?: number | null;
  /** Draw only from this many of the most probable tokens; 0: all. */
  top_k?: number | null;
  /** Leave out tokens less than this share as probable as the most probable one; 0: none. */
  min_p?: number | null;
}

/** Controls of the page. */
export const samplingControls = {
  temperature: {
    label: "Temperature",
    help: "0 always takes the most probable token; higher is more varied.",
    min: 0,
    max: 2,
    step: 0.05,
  },
  topP: {
    label: "Top-p",
    help: "Draw only from the most probable tokens that hold this much probability; 1: all.",
    min: 0,
    max: 1,
    step: 0.01,
  },
  topK: {
    label: "Top-k",
    help: "Draw only from this many of the most probable tokens; 0: all.",
    min: 0,
    step: 1,
  },
  minP: {
    label: "Min-p",
    help: "Leave out tokens less than this share as probable as the most probable one; 0: none.",
    min: 0,
    max: 1,
    step: 0.01,
  },
};

export const harmonic = {
  "segmentTokens": 32,
  "scoring": "harmonic",
  "scoreEnd": true,
  "trust": 0.75,
  "reward": "shares",
  "alpha": 1.0,
  "rate": "code",
  "fixedShare": 0.05,
  "update": "before",
  "selfVotes": true,
  "level": true,
  "confidence": 0.5,
  "branch": 0.2,
  "alone": 1.5,
  "endedOnly": true,
  "agree": true,
  "discount": 0.5,
  "sure": 2.6,
  "exit": null,
  "lead": 0.53,
  "leader": null,
  "fast": false,
  "maxRounds": 64,
  "maxRepeats": 3,
  "maxCharacters": 4096
} as const;
export const leader = {
  "segmentTokens": 32,
  "scoring": "harmonic",
  "scoreEnd": true,
  "trust": 0.75,
  "reward": "shares",
  "alpha": 1.0,
  "rate": "code",
  "fixedShare": 0.05,
  "update": "before",
  "selfVotes": true,
  "level": true,
  "confidence": 0.5,
  "branch": 0.2,
  "alone": 1.5,
  "endedOnly": true,
  "agree": true,
  "discount": 0.5,
  "sure": 2.6,
  "exit": null,
  "lead": 0.53,
  "leader": {
    "doubt": 5.0
  },
  "fast": false,
  "maxRounds": 64,
  "maxRepeats": 3,
  "maxCharacters": 4096
} as const;
export const paper = {
  "segmentTokens": 10,
  "scoring": "logit",
  "scoreEnd": false,
  "trust": 0.0,
  "reward": "counts",
  "alpha": 1.0,
  "rate": "code",
  "fixedShare": 0.05,
  "update": "before",
  "selfVotes": true,
  "level": false,
  "confidence": 0.0,
  "branch": 0.0,
  "alone": 0.0,
  "endedOnly": false,
  "agree": false,
  "discount": 1.0,
  "sure": 1000.0,
  "exit": null,
  "lead": 1.0,
  "leader": null,
  "fast": false,
  "maxRounds": 64,
  "maxRepeats": 3,
  "maxCharacters": 4096
} as const;
