/** Kept turns for the unit tests. */
import { defaultSampling } from "../protocol/generated-settings.ts";
import type { KeptTurn } from "../kept/records.ts";
import type { RoundEvent } from "../protocol/messages.ts";
import { rules } from "./scripted.ts";

/** A round in which the first of two members wrote a text of one token. */
export const roundOf = (text: string, round: number): RoundEvent => ({
  type: "round",
  round,
  active: [0, 1],
  remote: [],
  abstained: [],
  candidates: [{ member: "Ada", text, ended: false, tokens: 1 }],
  scores: [[{ harmonic: 1 }], [{ harmonic: 2 }]],
  shares: [[1], [1]],
  totals: [1],
  turnedBy: [],
  counts: [1],
  winner: 0,
  drafters: [0],
  writers: [0],
  weights: [0.5, 0.5],
  exited: [],
  text,
  ms: { draft: 1, verify: 1 },
  counters: [],
});

/** A turn of two members, complete or broken off. */
export function turnOf(question: string, segments: string[], over = true): KeptTurn {
  return {
    id: `turn of ${question}`,
    conversation: "one",
    at: 1,
    question,
    members: ["Ada", "Quill"],
    cores: ["fused", "fused"],
    voices: [0, 1],
    backend: "cpu",
    adapter: { name: "CPU", vendor: "", architecture: "", backend: "cpu", software: false },
    answer: segments.join(""),
    events: [
      {
        type: "begin",
        members: ["Ada", "Quill"],
        settings: rules.harmonic,
        sampling: { ...defaultSampling, temperature: 0, seed: 1 },
        thinking: "off",
        prefixes: [
          { prefix: 9, run: 9 },
          { prefix: 8, run: 8 },
        ],
        strengths: [1, null],
        chats: [true, true],
        weights: [0.5, 0.5],
        dropped: 0,
      },
      ...segments.map((text, index) => roundOf(text, index + 1)),
      ...(over
        ? [
            {
              type: "end" as const,
              stop: "ended" as const,
              text: segments.join(""),
              usage: { promptTokens: 9, answerTokens: segments.length },
              ms: 1,
            },
          ]
        : []),
    ],
  };
}
