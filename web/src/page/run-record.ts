/**
 * One answer as a file: the input of `conclave replay` (members, settings, raw scores by round),
 * and everything else that the page showed.
 */
import type { Adapter, Core, Message, Sampling, Settings, Thinking } from "../protocol/engine.ts";
import type { LeftEvent, RoundEvent, ThoughtEvent } from "../protocol/messages.ts";

/** Core of a member on this machine; otherwise a server or the browser's own model. */
export type RunsOn = Core | "remote" | "built-in";

/** An answer, by the engine's own events. */
export interface Run {
  members: string[];
  /** Core of each member, in order. */
  cores: RunsOn[];
  /** Strength of each member in the vote; null if unknown. */
  strengths: (number | null)[];
  /** Whether each is a chat model; the others are base models. */
  chats: boolean[];
  settings: Settings;
  sampling: Sampling;
  thinking: Thinking;
  /** Thoughts of the members before the first round. */
  thoughts: ThoughtEvent[];
  /** Members that failed, and why. */
  left: LeftEvent[];
  backend: string;
  adapter: Adapter;
  messages: Message[];
  rounds: RoundEvent[];
  stop: string;
}

/** The answer as it is in the file. */
interface RunRecord extends Omit<Run, "thoughts" | "left" | "adapter" | "rounds"> {
  format: "conclave run 1";
  thoughts: Omit<ThoughtEvent, "type">[];
  left: Omit<LeftEvent, "type">[];
  adapter: string;
  /**
   * `scores[i][j]`: verifier `active[i]` of candidate j. `verified` is false if fast mode accepted
   * one unscored.
   */
  rounds: (Omit<RoundEvent, "type"> & { verified: boolean })[];
  answer: string;
}

export function runRecord({ stop, ...run }: Run): RunRecord {
  return {
    format: "conclave run 1",
    ...run,
    thoughts: run.thoughts.map(({ type: _, ...thought }) => thought),
    left: run.left.map(({ type: _, ...left }) => left),
    adapter: run.adapter.name,
    rounds: run.rounds.map(({ type: _, ...round }) => ({
      ...round,
      verified: round.scores.length > 0,
    })),
    answer: run.rounds.map((round) => round.text).join(""),
    stop,
  };
}

/** Offers a file for download. */
export function saveFile(name: string, contents: string, type: string): void {
  saveBlob(name, new Blob([contents], { type }));
}

export function saveBlob(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
