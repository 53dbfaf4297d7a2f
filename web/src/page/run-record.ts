/**
 * The run of one answer as a file: what `conclave replay` reads (members, settings, raw scores by
 * round), and beside it everything the page showed.
 */
import type { Adapter, Core, Message, Sampling, Settings, Thinking } from "../protocol/engine.ts";
import type { LeftEvent, RoundEvent, ThoughtEvent } from "../protocol/messages.ts";

/** What a member runs on: a core of this machine's, a server, or the browser's own. */
export type RunsOn = Core | "remote" | "built-in";

export interface RunRecord {
  format: "conclave run 1";
  members: string[];
  /** What each of them ran on, in their order. */
  cores: RunsOn[];
  /** How strong each was in the vote; null where nothing was known of it. */
  strengths: (number | null)[];
  /** Whether each chats; the others are base models. */
  chats: boolean[];
  settings: Settings;
  sampling: Sampling;
  thinking: Thinking;
  /** What members thought before the first round. */
  thoughts: Omit<ThoughtEvent, "type">[];
  /** Members that failed on the way, and why. */
  left: Omit<LeftEvent, "type">[];
  backend: string;
  adapter: string;
  messages: Message[];
  /**
   * `scores[i][j]`: verifier `active[i]` of candidate j. `verified` is false where fast mode took
   * one unscored.
   */
  rounds: (Omit<RoundEvent, "type"> & { verified: boolean })[];
  answer: string;
  stop: string;
}

export interface Run {
  members: string[];
  cores: RunsOn[];
  strengths: (number | null)[];
  /** Whether each chats; the others are base models. */
  chats: boolean[];
  settings: Settings;
  sampling: Sampling;
  thinking: Thinking;
  thoughts: ThoughtEvent[];
  left: LeftEvent[];
  backend: string;
  adapter: Adapter;
  messages: Message[];
  rounds: RoundEvent[];
  stop: string;
}

export function runRecord(run: Run): RunRecord {
  return {
    format: "conclave run 1",
    members: run.members,
    cores: run.cores,
    strengths: run.strengths,
    chats: run.chats,
    settings: run.settings,
    sampling: run.sampling,
    thinking: run.thinking,
    thoughts: run.thoughts.map(({ type: _, ...thought }) => thought),
    left: run.left.map(({ type: _, ...left }) => left),
    backend: run.backend,
    adapter: run.adapter.name,
    messages: run.messages,
    rounds: run.rounds.map(({ type: _, ...round }) => ({
      ...round,
      verified: round.scores.length > 0,
    })),
    answer: run.rounds.map((round) => round.text).join(""),
    stop: run.stop,
  };
}

/** Hands a file to the visitor. */
export function saveFile(name: string, contents: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([contents], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
