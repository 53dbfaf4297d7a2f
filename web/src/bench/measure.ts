/**
 * Times members and rounds through the interfaces that answers use: `Member` for a member alone,
 * `rounds` for an ensemble. Each repeat visits all prefixes, so that heat and load of the machine
 * affect all of them.
 */
import {
  defaultRule,
  type EngineModule,
  type Member,
  type Message,
  type Sampling,
  type Score,
  type Settings,
} from "../protocol/engine.ts";
import { rounds } from "../worker/round.ts";
import { together } from "../worker/together.ts";
import { ensembleOf, ownMicroseconds } from "./figures.ts";
import { since, type GpuCounters, type GpuCounts } from "./gpu-counters.ts";
import type { Drafting, MemberReport, RoundReport } from "./report.ts";
import { Repeats } from "./repeats.ts";
import { median, spread } from "./statistics.ts";
import { othersTexts, textOf } from "./words.ts";

/** Context of every measurement. */
export interface Bench {
  module: EngineModule;
  counters: GpuCounters | undefined;
  sampling: Sampling;
  segmentTokens: number;
  repeats: number;
  limitSeconds: number;
  /** Called after every step. */
  tell: (what: string) => void;
}

/**
 * Consecutive rounds of an ensemble; the first is not counted, as it may allocate what later ones
 * use.
 */
const roundsInARow = 3;

/**
 * Makes a conversation of about `tokens` tokens for this member, exactly so many in the bench's
 * vocabularies. Each begins with other words than the last ones: members would only run the new
 * part after a common prefix.
 */
type Conversation = (member: Member, tokens: number) => Promise<Message[]>;

const user = (content: string): Message[] => [{ role: "user", content }];

/** Conversations for the bench's own vocabularies. */
export const exact = (): Conversation => {
  let asked = 0;
  return async (_, tokens) => user(textOf(tokens, asked++));
};

/** Conversations for other vocabularies: finds the length of a text by trial. */
export const fitted = (sampling: Sampling): Conversation => {
  let asked = 0;
  const text = (sentences: number): string =>
    `What is ${100 + (asked++ % 900)} plus 586? ${"What is 347 plus 586? ".repeat(sentences - 1)}`;
  const found = new Map<string, number>();
  return async (member, tokens) => {
    const known = found.get(`${member.name} ${tokens}`);
    if (known !== undefined) return user(text(known));
    const short = await member.begin(user(text(2)), sampling, 0);
    const long = await member.begin(user(text(6)), sampling, 0);
    const each = (long.prefix - short.prefix) / 4;
    const sentences = Math.max(1, Math.round((tokens - short.prefix) / each) + 2);
    found.set(`${member.name} ${tokens}`, sentences);
    return user(text(sentences));
  };
};

async function timed<T>(task: () => Promise<T>): Promise<{ result: T; ms: number }> {
  const started = performance.now();
  const result = await task();
  return { result, ms: performance.now() - started };
}

/** Measures one member at each prefix: prompt, draft, verify, keep, repeatedly. */
export async function measureMember(
  bench: Bench,
  member: Member,
  prefixes: readonly number[],
  conversation: Conversation,
): Promise<MemberReport[]> {
  const { counters, sampling, segmentTokens } = bench;
  const { layers } = member.about();
  const others = othersTexts.map((text) => ({ text, ended: false }));
  const series = prefixes.map((prefix) => ({
    asked: prefix,
    repeats: new Repeats(bench.repeats, bench.limitSeconds),
    prefix: 0,
    prefilled: 0,
    verified: 0,
    prefill: [] as number[],
    firstToken: [] as number[],
    step: [] as number[],
    verify: [] as number[],
    launch: [] as number[],
    counts: null as { step: GpuCounts; verify: GpuCounts } | null,
  }));
  while (series.some((at) => at.repeats.due)) {
    for (const at of series.filter(({ repeats }) => repeats.due)) {
      const messages = await conversation(member, at.asked);
      const whole = performance.now();
      const prompt = await timed(() => member.begin(messages, sampling, 0));
      // This draft only times the first token; the draft below replaces it.
      await member.draft(1);
      const firstToken = performance.now() - whole;
      const reads = [counters?.read()];
      const before = member.counters();
      const draft = await timed(() => member.draft(segmentTokens));
      const drafted = member.counters();
      reads.push(counters?.read());
      const verify = await timed(() => member.verify(others, bench.module.rules()[defaultRule]));
      const verified = member.counters();
      reads.push(counters?.read());
      await member.keep(0);
      bench.tell(`${member.name}, prefix ${at.asked}`);
      if (!at.repeats.counts(performance.now() - whole)) continue;
      const steps = drafted.draftTokens - before.draftTokens;
      at.prefix = prompt.result.prefix;
      at.prefilled = prompt.result.run;
      at.prefill.push(prompt.ms);
      at.firstToken.push(firstToken);
      // A short draft overstates the time of a step, since it draws one token more than it runs
      // steps. Drafts of fewer than L / 2 steps are left out.
      if (2 * steps >= segmentTokens) at.step.push(draft.ms / steps);
      at.verify.push(verify.ms);
      at.verified = verified.verifyTokens - drafted.verifyTokens;
      const [begun, said, judged] = reads;
      if (!begun || !said || !judged) continue;
      const asked = since(begun, said);
      if (asked.dispatches > 0) at.launch.push(ownMicroseconds(asked));
      at.counts = { step: over(asked, steps), verify: since(said, judged) };
    }
  }
  return series.map((at) => ({
    name: member.name,
    prefix: at.prefix,
    cold: at.repeats.cold,
    prefill: {
      tokens: at.prefilled,
      ms: spread(at.prefill),
      tokensPerSecond: (1000 * at.prefilled) / median(at.prefill),
    },
    firstTokenMs: spread(at.firstToken),
    draftStep: {
      ms: spread(at.step),
      tokensPerSecond: 1000 / median(at.step),
      counts: at.counts?.step ?? null,
      dispatchesPerLayer: at.counts && at.counts.step.dispatches / layers,
      microsecondsPerDispatch: spread(at.launch),
    },
    verify: { tokens: at.verified, ms: spread(at.verify), counts: at.counts?.verify ?? null },
  }));
}

/**
 * Settings of a leader that no member doubts. Its drafts then cost as much as if members agreed,
 * whatever they write.
 */
const undoubted = { doubt: 1000 };

/** Measures an ensemble at each prefix. */
export async function measureRounds(
  bench: Bench,
  members: readonly Member[],
  drafting: Drafting,
  prefixes: readonly number[],
  conversation: Conversation,
): Promise<RoundReport[]> {
  const { module, counters, sampling, segmentTokens } = bench;
  const settings: Settings = {
    ...module.rules()[defaultRule],
    leader: drafting === "leader" ? undoubted : null,
    segmentTokens,
    // A second candidate is a first round's, and random weights would always draft one.
    branch: 0,
    alone: 0,
    maxRounds: roundsInARow,
    maxRepeats: roundsInARow,
  };
  const series = prefixes.map((prefix) => ({
    asked: prefix,
    repeats: new Repeats(bench.repeats, bench.limitSeconds),
    prefix: 0,
    gpuBytes: null as number | null,
    first: [] as number[],
    later: [] as RoundTimes[],
    counts: null as GpuCounts | null,
  }));
  while (series.some((at) => at.repeats.due)) {
    for (const at of series.filter(({ repeats }) => repeats.due)) {
      const messages = await conversation(members[0]!, at.asked);
      const whole = performance.now();
      const machine = new module.Rounds({
        settings,
        strengths: members.map(() => Number.NaN),
        chats: members.map(() => true),
        turns: [],
        limits: {},
        onOneDevice: false,
      });
      const [times, counts] = [[] as RoundTimes[], [] as GpuCounts[]];
      try {
        let started = performance.now();
        const begun = await together(members, (member, stream) =>
          member.begin(messages, sampling, stream),
        );
        at.prefix = Math.max(...begun.map((member) => member.prefix));
        const run = rounds(members, machine, settings, new AbortController().signal);
        let [before, ran] = [counters?.read(), runSoFar(members)];
        for (let step = await run.next(); !step.done; step = await run.next()) {
          const round = step.value;
          if ("left" in round) throw round.error;
          const [now, running] = [counters?.read(), runSoFar(members)];
          times.push({
            ms: performance.now() - started,
            draft: round.ms.draft,
            verify: round.ms.verify,
            written: round.candidates[round.winner]!.tokens,
            run: running - ran,
            due: tokensDue(
              round.drafters.map((drafter) => round.active.indexOf(drafter)),
              round.scores as Verified[][],
              segmentTokens,
            ),
          });
          if (before && now) counts.push(since(before, now));
          [before, ran] = [now, running];
          started = performance.now();
        }
      } finally {
        machine.free();
      }
      bench.tell(`${ensembleOf({ members: members.length, drafting })}, prefix ${at.asked}`);
      if (!at.repeats.counts(performance.now() - whole)) continue;
      at.first.push(...times.slice(0, 1).map(({ ms }) => ms));
      at.later.push(...times.slice(1));
      at.counts = counts.slice(1).at(-1) ?? at.counts;
      at.gpuBytes = counters?.liveBytes ?? null;
    }
  }
  return series.map((at) => {
    const all = (what: keyof RoundTimes): number[] => at.later.map((round) => round[what]);
    const sum = (what: keyof RoundTimes): number =>
      all(what).reduce((total, each) => total + each, 0);
    return {
      members: members.length,
      drafting,
      prefix: at.prefix,
      cold: at.repeats.cold,
      ms: spread(all("ms")),
      draftMs: spread(all("draft")),
      verifyMs: spread(all("verify")),
      firstSegmentMs: spread(at.first),
      tokensPerSecond: (1000 * sum("written")) / sum("ms"),
      tokensRun: sum("run") / (at.later.length * members.length),
      tokensDue: sum("due") / (at.later.length * members.length),
      counts: at.counts,
      gpuBytes: at.gpuBytes,
    };
  });
}

/** A verifier's score, with the candidate's length in its own tokens. */
type Verified = Score & { tokens: number };

/** Measurements of one round; `run` and `due` are tokens of all members. */
interface RoundTimes {
  ms: number;
  draft: number;
  verify: number;
  written: number;
  run: number;
  due: number;
}

/** Tokens run by these members since they were loaded. */
function runSoFar(members: readonly Member[]): number {
  return members.reduce((sum, member) => {
    const { prefillTokens, draftTokens, verifyTokens } = member.counters();
    return sum + prefillTokens + draftTokens + verifyTokens;
  }, 0);
}

/**
 * Minimum number of tokens that the members of a round must run. Each drafter runs L − 1 tokens
 * of its draft, and each member runs the candidates of all others in its own tokens. `drafters[j]`
 * is the drafter of candidate j, `scores[i][j]` is verifier i's score of candidate j.
 */
export function tokensDue(
  drafters: readonly number[],
  scores: readonly (readonly Pick<Verified, "tokens">[])[],
  segmentTokens: number,
): number {
  const verified = scores.map((row, verifier) =>
    row.reduce((sum, { tokens }, j) => sum + (drafters[j] === verifier ? 0 : tokens), 0),
  );
  return verified.reduce((sum, tokens) => sum + tokens, drafters.length * (segmentTokens - 1));
}

/** Mean counts of one step: the `counts` of `steps` steps, divided by their number. */
function over(counts: GpuCounts, steps: number): GpuCounts {
  const each = { ...counts };
  for (const key of Object.keys(each) as (keyof GpuCounts)[]) each[key] /= Math.max(steps, 1);
  return each;
}
