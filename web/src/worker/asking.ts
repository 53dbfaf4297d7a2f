/** Answers one question with the present members. */
import type {
  Begun,
  Counters,
  EngineModule,
  Form,
  FusedEngine,
  Member,
  Message,
  Settings,
  Thinking,
} from "../protocol/engine.ts";
import { defaultRule, forAnswer } from "../protocol/engine.ts";
import {
  BadSettings,
  ConclaveError,
  ContextFull,
  EngineFailure,
  isAbort,
  toRecord,
  typed,
} from "../protocol/errors.ts";
import type { ConclaveEvent, Request, RoundCounters, StopReason } from "../protocol/messages.ts";
import type { Gate } from "./gate.ts";
import type { KeptPrompts } from "./kept-prompts.ts";
import { diagnosed } from "./lost-device.ts";
import { RemoteMember } from "./remote/remote-member.ts";
import { rounds } from "./round.ts";
import { nextTask, settled, together, type Failed } from "./together.ts";

type Asked = Extract<Request, { type: "ask" }>;

/** Value of the setting `maxRepeats` for answers that may repeat themselves. */
const mostRepeats = 10_000;

/** The engine and its members during an answer. */
interface Room {
  module: EngineModule;
  engine: FusedEngine;
  members: Member[];
  /** Form of the answer, once its schema is known to be supported. */
  form: () => Promise<Form | undefined>;
  /** Undefined if prompts are not to be kept. */
  prompts: KeptPrompts | undefined;
  /** Pauses the answer. */
  gate: Gate | undefined;
  emit: (event: ConclaveEvent) => void;
}

/**
 * Answers a question: members read it, think, and draft in rounds until a stop. Emits every event;
 * a failure keeps the text so far in `partial`.
 */
export async function answer(
  request: Asked,
  { module, engine, members, form: formOf, prompts, gate, emit }: Room,
  signal: AbortSignal,
): Promise<void> {
  const started = performance.now();
  if (request.messages.at(-1)?.role !== "user")
    throw new BadSettings("There is nothing to answer. Let the last message be the user's.");
  if (request.stop.includes(""))
    throw new BadSettings(
      "An empty text to stop before would end every answer at once. Leave it out.",
    );
  const { thinking, accepted } = request;
  const settings = request.settings ?? module.rules()[defaultRule];
  let promptTokens = 0;
  const strengths = members.map((member) => member.about().strength ?? Number.NaN);
  const chats = members.map((member) => member.about().template);
  const machine = new module.Rounds({
    // A document may repeat itself, and a document that is cut short is invalid.
    settings: request.schema === undefined ? settings : { ...settings, maxRepeats: mostRepeats },
    strengths,
    chats,
    turns: request.messages.map(({ content }) => content),
    limits: { tokens: request.maxTokens, stop: request.stop },
    onOneDevice: engine.backend === "webgpu",
  });
  const weights = [...machine.weights()];
  // Segments accepted by an earlier engine count towards every limit.
  let text = accepted.map((segment) => machine.resume(segment.text, segment.tokens)).join("");
  const end = (stop: StopReason): void => {
    text += machine.rest();
    emit({
      type: "end",
      stop,
      text,
      usage: { promptTokens, answerTokens: machine.tokens() },
      ms: performance.now() - started,
    });
  };
  try {
    let stop: StopReason = "stopped";
    const form = await formOf();
    // Whether it fits all members is known at once; reading may take minutes.
    const messages = signal.aborted ? request.messages : await fitting(members, request);
    await Promise.all(members.map((member) => prompts?.recall(member, messages)));
    if (!signal.aborted) {
      const { begun: prefixes, lost } = await beginning(members, (member, index) =>
        member.begin(
          messages,
          request.sampling,
          index,
          async (done, total) => {
            // the member itself is busy
            emit({ type: "reading", member: request.members[index]!, done, total });
            await nextTask(); // lets a stop in
            return !signal.aborted;
          },
          form,
        ),
      );
      promptTokens = Math.max(...prefixes.map(({ prefix }) => prefix));
      const dropped = request.messages.length - messages.length;
      if (!prefixes.some(({ stopped }) => stopped))
        emit({
          type: "begin",
          members: request.members,
          settings,
          sampling: request.sampling,
          thinking,
          prefixes,
          strengths: strengths.map((strength) => (Number.isNaN(strength) ? null : strength)),
          chats,
          weights,
          dropped,
        });
      const here = [...members.keys()].filter((index) => !lost.some((one) => one.index === index));
      const { failed } = await settled(members, here, (member) =>
        replay(member, accepted, settings, signal),
      );
      if (thinking !== "off" && accepted.length === 0 && !signal.aborted)
        failed.push(
          ...(await think(members, here, (index) => request.members[index]!, emit, signal)),
        );
      const counted = members.map((member) => member.counters());
      const onStep = request.drafts ? emit : undefined;
      const run = rounds(members, machine, settings, signal, [...lost, ...failed], onStep);
      let step = await run.next();
      for (; !step.done; await gate?.pass(signal), step = await run.next()) {
        // A lost device leaves stale results, not exceptions.
        if (engine.lost() !== undefined) break;
        const round = step.value;
        if ("left" in round) {
          emit({
            type: "left",
            round: round.round,
            member: request.members[round.left]!,
            error: toRecord(round.error),
          });
          continue;
        }
        text += round.text;
        const counters = round.active.map((index) => countersSince(members, counted, index));
        emit({ type: "round", ...round, counters });
      }
      if (engine.lost() !== undefined) throw new EngineFailure("The device was lost.");
      if (step.done) stop = step.value;
    }
    end(stop);
  } catch (thrown) {
    if (signal.aborted && isAbort(thrown)) return end("stopped");
    const error = diagnosed(thrown, engine.lost());
    // After an abort a ContextFull error is moot.
    if (signal.aborted && error.kind === "ContextFull") return end("stopped");
    error.partial = text + machine.rest();
    throw error;
  } finally {
    machine.free();
  }
}

/** Lets members read; those that find no memory for it are lost, unless no other is left. */
async function beginning(
  members: Member[],
  begin: (member: Member, index: number) => Promise<Begun>,
): Promise<{ begun: Begun[]; lost: Failed[] }> {
  const begun: Begun[] = members.map(() => ({ prefix: 0, run: 0, stopped: false }));
  const { failed: lost } = await settled(members, [...members.keys()], async (member, index) => {
    begun[index] = await begin(member, index);
  });
  const other = lost.find(({ error }) => error.kind !== "OutOfMemory");
  if (other) throw other.error;
  if (lost[0] && lost.length === members.length) throw lost[0].error;
  return { begun, lost };
}

/** Lets members think before the first round, in parallel; returns those that fail. */
async function think(
  members: Member[],
  indices: number[],
  nameOf: (index: number) => string, // the member itself is busy
  emit: (event: ConclaveEvent) => void,
  signal: AbortSignal,
): Promise<Failed[]> {
  const { results, failed } = await settled(members, indices, async (member, index) => ({
    member: nameOf(index),
    thought: await member.think(async (text) => {
      emit({ type: "thinking", member: nameOf(index), text });
      await nextTask(); // lets a stop in
      return !signal.aborted;
    }),
  }));
  for (const { member, thought } of results)
    if (thought.tokens > 0)
      emit({ type: "thought", member, text: thought.text, tokens: thought.tokens });
  return failed;
}

function countersSince(members: Member[], counted: Counters[], index: number): RoundCounters {
  const now = members[index]!.counters();
  const then = counted[index]!;
  counted[index] = now;
  return {
    prefix: now.prefix,
    prefilled: now.prefillTokens - then.prefillTokens,
    drafted: now.draftTokens - then.draftTokens,
    verified: now.verifyTokens - then.verifyTokens,
  };
}

/** Lets a member take segments accepted earlier: as its own candidates, which it keeps. */
async function replay(
  member: Member,
  accepted: readonly { text: string }[],
  settings: Settings,
  signal: AbortSignal,
): Promise<void> {
  for (const { text } of accepted) {
    if (signal.aborted) return;
    if (member instanceof RemoteMember) {
      member.take(text);
      continue;
    }
    await member.verify([{ text, ended: false }], settings);
    await member.keep(0);
  }
}

/**
 * Tokens of a conversation for each member; throws if it does not fit one, with that member's name
 * unless it fits none.
 */
async function fit(
  members: readonly Member[],
  messages: Message[],
  thinking: Thinking,
): Promise<number[]> {
  const measured = await together(members, (member) =>
    member.measure(messages, thinking).catch(typed),
  );
  const which = measured.findIndex((length) => length instanceof ConclaveError);
  const error = measured[which];
  if (!(error instanceof ConclaveError)) return measured.map(Number);
  if (!measured.every((other) => other instanceof ContextFull))
    error.member ??= members[which]!.name;
  throw error;
}

/**
 * Messages that fit every member: all of them, or without the oldest if those may be dropped. Then
 * an answer has room, too: a quarter of each context, or its maximum length.
 */
async function fitting(
  members: readonly Member[],
  { messages, thinking, overflow, maxTokens = Number.POSITIVE_INFINITY }: Asked,
): Promise<Message[]> {
  for (let kept = messages; ; ) {
    const lengths = await fit(members, kept, thinking).catch(typed);
    const oldest = kept.findIndex(({ role }) => role !== "system");
    // An answer is dropped with its question, so that the conversation still begins with the user.
    const next = kept.findIndex(({ role }, index) => index > oldest && role === "user");
    const last = overflow === "error" || next < 0;
    if (lengths instanceof ConclaveError) {
      if (last || !(lengths instanceof ContextFull)) throw lengths;
    } else {
      const roomy = members.every((member, index) => {
        const { context } = member.about(); // 0 if a server reports none
        return (
          context === 0 || lengths[index]! + Math.min(maxTokens, context * forAnswer) <= context
        );
      });
      if (last || roomy) return kept;
    }
    kept = kept.toSpliced(oldest, next - oldest);
  }
}
