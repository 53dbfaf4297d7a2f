/**
 * The recorded answer of the page is no fiction: the engine's own method, given the recorded drafts
 * and scores, takes the recorded winners and writes the recorded answer.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { brotliCompressSync } from "node:zlib";
import type {
  EngineModule,
  RoundsEvent,
  Settings,
  VerifiedScore,
} from "../../src/protocol/engine.ts";
import { dist } from "./stage.ts";

interface Recording {
  question: string;
  members: string[];
  strengths: number[];
  chats: boolean[];
  settings: Settings;
  answer: string;
  stopped: string;
  rounds: {
    drafters: number[];
    candidates: { text: string; ended: boolean }[];
    scores: VerifiedScore[][];
    totals: number[];
    winner: number;
  }[];
}

const file = readFileSync(`${dist}recorded.json`);

async function engine(): Promise<EngineModule> {
  const glue = pathToFileURL(`${process.env["CONCLAVE_WEB"] ?? "./"}pkg/conclave.js`).href;
  const module = (await import(glue)) as EngineModule;
  await module.default({
    module_or_path: new WebAssembly.Module(readFileSync(`${dist}engine.wasm`)),
  });
  return module;
}

/** Winners and totals by the method, given a recording's drafts and scores. */
function replay(module: EngineModule, recording: Recording): { winners: number[]; text: string } {
  const rule = module.rules().harmonic;
  // Settings that this engine does not know were switched off when it was recorded.
  const known = Object.entries(recording.settings).filter(([name]) => name in rule);
  const machine = new module.Rounds({
    settings: { ...rule, ...Object.fromEntries(known) } as Settings,
    strengths: recording.strengths,
    chats: recording.chats,
    turns: [recording.question],
    limits: { stop: [] },
    onOneDevice: false,
  } as unknown as ConstructorParameters<EngineModule["Rounds"]>[0]);
  const winners: number[] = [];
  let text = "";
  let round = recording.rounds[0]!;
  let event: RoundsEvent = { begun: { drafts: recording.members.map(() => true), failed: [] } };
  for (;;) {
    const move = machine.next(event);
    switch (move.kind) {
      case "draft":
        round = recording.rounds[winners.length]!;
        assert.deepEqual(move.members, round.drafters, "the recorded members draft");
        event = {
          drafted: round.candidates.map((draft, place) => ({
            ended: draft.ended,
            // The method cuts a draft to whole words, as these were before.
            text: draft.ended ? draft.text : `${draft.text} and`,
            tokens: round.scores[round.drafters[place]!]![place]!.tokens,
          })),
        };
        break;
      case "verify":
        assert.deepEqual(move.candidates, round.candidates);
        event = { verified: round.scores };
        break;
      case "keep":
        event = "kept";
        break;
      case "round":
        winners.push(move.round.winner);
        text += move.round.text;
        move.round.totals.forEach((total, place) =>
          assert.ok(Math.abs(total - round.totals[place]!) < 1e-9, `round ${winners.length}`),
        );
        event = "next";
        break;
      case "done":
        assert.equal(move.stop, recording.stopped);
        return { winners, text };
      default:
        assert.fail(move.kind);
    }
  }
}

test("the recorded answer is what the method makes of its drafts and scores", async () => {
  const recording = JSON.parse(file.toString()) as Recording;
  const module = await engine();
  const { winners, text } = replay(module, recording);
  assert.deepEqual(
    winners,
    recording.rounds.map(({ winner }) => winner),
  );
  assert.equal(text.trim(), recording.answer.trim());
  const writers = recording.rounds.map(({ drafters, winner }) => drafters[winner]);
  assert.equal(new Set(writers).size, recording.members.length, "each member wrote of it");
  assert.ok(brotliCompressSync(file).length < 20e3, "small");

  // Another score, another winner.
  const forged = structuredClone(recording);
  for (const row of forged.rounds[0]!.scores) row.reverse();
  assert.throws(() => replay(module, forged), /round 1|recorded/);
});
