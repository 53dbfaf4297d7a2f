/**
 * Times members and rounds through the same surface that answers use: `Member` for a member alone,
 * `rounds` for an ensemble. Repeats go around all prefixes in turn, so that a machine that grows warm
 * or busy does so for all of them.
 */
import type { EngineModule, Member, Message, Sampling, Settings } from "../engine.ts";
import { rounds } from "../round.ts";
import { together } from "../together.ts";
import { since, type GpuCounters, type GpuCounts } from "./gpu-counters.ts";
import type { MemberReport, RoundReport } from "./report.ts";
import { median, spread } from "./statistics.ts";
import { textOf } from "./words.ts";

/** What every measurement needs. */
export interface Bench {
  module: EngineModule;
  counters: GpuCounters | undefined;
  sampling: Sampling;
  segmentTokens: number;
  repeats: number;
  /** Hears of every step that is done. */
  tell: (what: string) => void;
}

/** Rounds of an ensemble that are run in a row; the first is not counted, as it may make what later ones use. */
const roundsInARow = 3;

/** A conversation of about `tokens` tokens for this member; exactly so many in the vocabularies of the bench. */
export type Conversation = (member: Member, tokens: number) => Promise<Message[]>;

const user = (content: string): Message[] => [{ role: "user", content }];

/** For vocabularies of the bench's own making. */
export const exact: Conversation = async (_, tokens) => user(textOf(tokens));

/** For other vocabularies: a text as long as it takes, found by trying. */
export const fitted = (sampling: Sampling): Conversation => {
  const sentence = "What is 347 plus 586? ";
  const found = new Map<string, Message[]>();
  return async (member, tokens) => {
    const known = found.get(`${member.name} ${tokens}`);
    if (known) return known;
    const short = await member.begin(user(sentence.repeat(2)), sampling, 0);
    const long = await member.begin(user(sentence.repeat(6)), sampling, 0);
    const each = (long.prefix - short.prefix) / 4;
    const messages = user(sentence.repeat(Math.max(1, Math.round((tokens - short.prefix) / each) + 2)));
    found.set(`${member.name} ${tokens}`, messages);
    return messages;
  };
};

async function timed<T>(task: () => Promise<T>): Promise<{ result: T; ms: number }> {
  const started = performance.now();
  const result = await task();
  return { result, ms: performance.now() - started };
}

/** One member at each of the prefixes: prompt, draft, verify, keep, over and over. */
export async function measureMember(bench: Bench, member: Member, prefixes: readonly number[], conversation: Conversation): Promise<MemberReport[]> {
  const { counters, sampling, segmentTokens, repeats } = bench;
  const { layers } = member.about();
  const series = prefixes.map(() => ({ prefix: 0, prefilled: 0, prefill: [] as number[], step: [] as number[], verify: [] as number[], verified: 0, counts: [] as GpuCounts[][] }));
  // The first time around makes pipelines and buffers, and is not counted.
  for (let repeat = -1; repeat < repeats; repeat++) {
    for (const [index, prefix] of prefixes.entries()) {
      const messages = await conversation(member, prefix);
      await forget(member, sampling);
      const prompt = await timed(() => member.begin(messages, sampling, 0));
      const reads = [counters?.read()];
      const before = member.counters();
      const draft = await timed(() => member.draft(segmentTokens));
      const after = member.counters();
      reads.push(counters?.read());
      // What two others would have drafted: as long as a draft, in other words.
      const others = Array.from({ length: 2 }, (_, other) => ({ text: textOf(segmentTokens * (other + 2)).split(" ").slice(-segmentTokens).map((word) => ` ${word}`).join(""), ended: false }));
      const verify = await timed(() => member.verify(others, bench.module.defaultSettings().scoring));
      reads.push(counters?.read());
      await member.keep(0);
      bench.tell(`${member.name}, prefix ${prefix}`);
      if (repeat < 0) continue;
      const steps = after.draftTokens - before.draftTokens;
      const at = series[index]!;
      at.prefix = prompt.result.prefix;
      at.prefilled = prompt.result.run;
      at.prefill.push(prompt.ms);
      if (steps > 0) at.step.push(draft.ms / steps);
      at.verify.push(verify.ms);
      at.verified = verify.result.reduce((sum, { tokens }) => sum + tokens, 0);
      const [begun, drafted, judged] = reads;
      if (begun && drafted && judged) at.counts.push([over(since(begun, drafted), steps), since(drafted, judged)]);
    }
  }
  return series.map((at) => {
    const step = at.counts.at(-1)?.[0] ?? null;
    return {
      name: member.name,
      prefix: at.prefix,
      prefill: { tokens: at.prefilled, ms: spread(at.prefill), tokensPerSecond: (1000 * at.prefilled) / median(at.prefill) },
      draftStep: { ms: spread(at.step), tokensPerSecond: 1000 / median(at.step), counts: step, dispatchesPerLayer: step && step.dispatches / layers },
      verify: { tokens: at.verified, ms: spread(at.verify), counts: at.counts.at(-1)?.[1] ?? null },
      verifyOverSteps: median(at.verify) / (at.verified * median(at.step)),
    };
  });
}

/** An ensemble at each of the prefixes. `steps`: each member's decode step alone, by prefix, in milliseconds. */
export async function measureRounds(
  bench: Bench, members: readonly Member[], prefixes: readonly number[], conversation: Conversation, steps: readonly (readonly number[])[],
): Promise<RoundReport[]> {
  const { module, counters, sampling, segmentTokens, repeats } = bench;
  const settings: Settings = { ...module.defaultSettings(), segmentTokens, maxRounds: roundsInARow };
  const series = prefixes.map(() => ({ prefix: 0, first: [] as number[], round: [] as number[], draft: [] as number[], verify: [] as number[], tokens: 0, counts: null as GpuCounts | null }));
  for (let repeat = -1; repeat < repeats; repeat++) {
    for (const [index, prefix] of prefixes.entries()) {
      const at = series[index]!;
      const messages = await conversation(members[0]!, prefix);
      await together(members, (member) => forget(member, sampling));
      const query = new module.Query(members.length, settings);
      try {
        let started = performance.now();
        const begun = await together(members, (member, stream) => member.begin(messages, sampling, stream));
        at.prefix = Math.max(...begun.map((member) => member.prefix));
        const run = rounds([...members], query, module.cut, settings, new AbortController().signal);
        let before = counters?.read();
        for (let step = await run.next(); !step.done; step = await run.next()) {
          const ms = performance.now() - started;
          const round = step.value;
          const now = counters?.read();
          if (repeat >= 0 && round.round === 1) at.first.push(ms);
          if (repeat >= 0 && round.round > 1) {
            at.round.push(ms);
            at.draft.push(round.ms.draft);
            at.verify.push(round.ms.verify);
            at.tokens += round.candidates[round.winner]!.tokens;
            if (before && now) at.counts = since(before, now);
          }
          before = now;
          started = performance.now();
        }
      } finally {
        query.free();
      }
      bench.tell(`${members.length} members, prefix ${prefix}`);
    }
  }
  return series.map((at, index) => ({
    members: members.length,
    prefix: at.prefix,
    ms: spread(at.round),
    draftMs: spread(at.draft),
    verifyMs: spread(at.verify),
    firstSegmentMs: median(at.first),
    overSteps: median(at.round) / (segmentTokens * steps.slice(0, members.length).reduce((sum, own) => sum + own[index]!, 0)),
    tokensPerSecond: (1000 * at.tokens) / at.round.reduce((sum, ms) => sum + ms, 0),
    counts: at.counts,
    gpuBytes: counters?.liveBytes ?? null,
  }));
}

/** Another conversation, so that of the next one all is run; what a member has of buffers stays. */
async function forget(member: Member, sampling: Sampling): Promise<void> {
  await member.begin(user("~"), sampling, 0);
}

/** Counts of one of `steps` equal steps. */
function over(counts: GpuCounts, steps: number): GpuCounts {
  const each = { ...counts };
  for (const key of Object.keys(each) as (keyof GpuCounts)[]) each[key] /= Math.max(steps, 1);
  return each;
}
