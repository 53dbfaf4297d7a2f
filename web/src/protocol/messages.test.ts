import { defaultSampling } from "./generated-settings.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  errorKinds,
  ConclaveError,
  DeviceLost,
  fromRecord,
  isFatal,
  OutOfMemory,
  toRecord,
  typed,
} from "./errors.ts";
import type * as Rust from "./generated.ts";
import type { About, Ranges, Rules } from "./engine.ts";
import {
  type modelAbout,
  parseReply,
  parseRequest,
  type Reply,
  type Request,
  type RoundEvent,
} from "./messages.ts";
import type { Checked } from "./check.ts";
import { settings } from "../testing/scripted.ts";
import type { ThreadReply, ThreadRequest } from "../worker/thread-messages.ts";

type Flat<T> = T extends object ? { [K in keyof T]: Flat<T[K]> } : T;
type Same<A, B> =
  (<T>() => T extends Flat<A> ? 1 : 2) extends <T>() => T extends Flat<B> ? 1 : 2 ? true : false;
type Of<M, Type> = Extract<M, { type: Type }>;
type Ask = Of<Request, "ask">;
type Opened = Of<Reply, "opened">;
/** The checked types equal those of Rust; a difference does not compile. */
const same: [
  Same<Ask["messages"][number], Rust.Message>,
  Same<NonNullable<Ask["settings"]>, Rust.Settings>,
  Same<Ask["sampling"], Rust.Sampling>,
  Same<Ask["thinking"], Rust.Thinking>,
  Same<Opened["adapter"], Rust.Adapter>,
  Same<Opened["rules"], Rules>,
  Same<Opened["ranges"], Ranges>,
  Same<Checked<typeof modelAbout>, Rust.ModelAbout>,
  Same<Of<Reply, "added">["about"], About>,
  Same<RoundEvent["scores"][number][number], Rust.Score>,
  Same<Of<ThreadRequest, "load">["options"], Rust.LoadOptions>,
  Same<Of<ThreadRequest, "verify">["candidates"][number], Rust.Candidate>,
  Same<Of<ThreadReply, "begun">["begun"], Rust.Begun>,
  Same<Of<ThreadReply, "begun">["counters"], Rust.Counters>,
  Same<Of<ThreadReply, "thought">["thought"], Rust.Thought>,
  Same<Of<ThreadReply, "drafted">["draft"], Rust.Draft>,
  Same<Of<ThreadReply, "verified">["scores"][number], Rust.VerifiedScore>,
] = [
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
];
void same;

const ask = {
  type: "ask",
  id: 3,
  messages: [{ role: "user", content: "hello" }],
  members: ["Ada"],
  settings,
  sampling: { ...defaultSampling, seed: 1 },
  thinking: "off",
  stop: [],
  overflow: "error",
  accepted: [],
};
const round = {
  type: "round",
  round: 1,
  active: [0],
  remote: [],
  abstained: [],
  candidates: [{ member: "Ada", text: "a", ended: false, tokens: 1 }],
  scores: [[{ meanLogit: 1, meanLogprob: -1, harmonic: -2 }]],
  shares: [[1]],
  totals: [1],
  turnedBy: [],
  counts: [1],
  winner: 0,
  drafters: [0],
  writers: [0],
  weights: [1],
  exited: [],
  text: "a",
  ms: { draft: 1, verify: 1 },
  counters: [{ prefix: 1, prefilled: 0, drafted: 1, verified: 1 }],
};

const place = { worker: "https://host/engine.js", wasm: "https://host/engine.wasm" };
const places = {
  engine: place,
  openCore: place,
  grammar: "https://host/grammar.wasm",
  remote: "https://host/remote.wasm",
};

test("requests pass as they are", () => {
  assert.deepEqual(parseRequest(ask), ask);
  assert.deepEqual(parseRequest({ type: "stop", id: 3 }), { type: "stop", id: 3 });
  assert.deepEqual(
    parseRequest({
      ...ask,
      settings: { ...settings, exit: { warmup: 3, temperature: 6, threshold: 0.5 } },
    }).type,
    "ask",
  );
});

test("what is wrong in a request is named by its path", () => {
  const wrong: [unknown, RegExp][] = [
    [null, /request\.type/],
    [{ type: "toString", id: 1 }, /request\.type/],
    [
      { ...ask, messages: [{ role: "tool", content: "" }] },
      /^request\.messages\[0\]\.role must be "system" or "user" or "assistant"; it was "tool"$/,
    ],
    [{ ...ask, settings: { ...settings, rate: "fast" } }, /request\.settings\.rate/],
    [
      { ...ask, settings: { ...settings, scoring: "mean" } },
      /^request\.settings\.scoring must be "harmonic" or "logit" or "likelihood"; it was "mean"$/,
    ],
    [
      { ...ask, settings: { ...settings, reward: undefined } },
      /^request\.settings\.reward must be "shares" or "counts"; it was missing$/,
    ],
    [
      { ...ask, settings: { ...settings, scoreEnd: 1 } },
      /^request\.settings\.scoreEnd must be true or false; it was 1$/,
    ],
    [
      { ...ask, thinking: true },
      /^request\.thinking must be "off" or "on" or "auto"; it was true$/,
    ],
    [{ ...ask, members: "Ada" }, /^request\.members must be a list; it was "Ada"$/],
    [
      { ...ask, members: ["x".repeat(1000), 7] },
      /^request\.members\[1\] must be a string; it was 7$/,
    ],
    [{ ...ask, messages: undefined }, /^request\.messages must be a list; it was missing$/],
    [
      { type: "open", id: 1, backend: "auto", places, core: "candle" },
      /^request\.core must be "fused" or "burn"; it was "candle"$/,
    ],
    [
      { type: "add", id: 1, contextTokens: 10, source: { name: "x", core: true } },
      /^request\.source\.core must be "fused" or "burn"; it was true$/,
    ],
    [
      {
        type: "add",
        id: 1,
        contextTokens: 10,
        source: { name: "x", files: ["not a file".repeat(1000)] },
      },
      /^request\.source\.files\[0\] must be a file; it was "not a file.{50}…"$/,
    ],
    [
      {
        type: "add",
        id: 1,
        contextTokens: 40,
        source: { name: "x", ref: "hf:a/b", builtIn: true },
      },
      /^request\.source must have one of .*"x" has ref and builtIn$/,
    ],
  ];
  for (const [data, message] of wrong)
    assert.throws(() => parseRequest(data), { name: "TypeError", message });
});

test("a setting out of its range is named, with the range and what was given", () => {
  const asked = (given: object, exit: object = {}) => ({
    ...ask,
    settings: {
      ...settings,
      exit: { warmup: 3, temperature: 6, threshold: 0.5, ...exit },
      ...given,
    },
  });
  const sampled = (given: object) => ({ ...ask, sampling: { ...ask.sampling, ...given } });
  const add = (contextTokens: number) => ({
    type: "add",
    id: 1,
    contextTokens,
    source: { name: "x", url: "x.gguf" },
  });
  for (const sound of [
    asked({ segmentTokens: 64, alpha: 0, fixedShare: 1, maxRounds: 10_000, maxCharacters: 1 }),
    sampled({ temperature: 0, topP: 1, topK: 0, seed: 2 ** 53 - 1 }),
    add(32),
    { type: "open", id: 1, backend: "cpu", places, threads: 8 },
    { type: "open", id: 1, backend: "auto", places, core: "burn" },
  ]) {
    assert.deepEqual(parseRequest(sound), sound);
  }
  const wrong: [unknown, string][] = [
    [
      sampled({ temperature: Number.NaN }),
      "sampling.temperature must be a number from 0 to 10; it was NaN",
    ],
    [sampled({ temperature: -1 }), "sampling.temperature must be a number from 0 to 10; it was -1"],
    [sampled({ topP: 1.5 }), "sampling.topP must be a number from 0 to 1; it was 1.5"],
    [
      sampled({ topK: 1e12 }),
      "sampling.topK must be a whole number from 0 to 4294967295; it was 1000000000000",
    ],
    [
      sampled({ topK: 2.5 }),
      "sampling.topK must be a whole number from 0 to 4294967295; it was 2.5",
    ],
    [
      sampled({ seed: Infinity }),
      "sampling.seed must be a whole number from 0 to 9007199254740991; it was Infinity",
    ],
    [asked({ alpha: "1" }), 'settings.alpha must be a finite number; it was "1"'],
    [asked({ leader: true }), "settings.leader must be an object; it was true"],
    [
      asked({}, { warmUp: 3 }),
      'settings.exit knows no "warmUp". It knows temperature, threshold, warmup',
    ],
    [asked({ level: "on" }), 'settings.level must be true or false; it was "on"'],
    [
      asked({}, { threshold: null }),
      "settings.exit.threshold must be a finite number; it was null",
    ],
    [add(40.5), "contextTokens must be a whole number from 32 to 4294967295; it was 40.5"],
    [add(1), "contextTokens must be a whole number from 32 to 4294967295; it was 1"],
    [
      { type: "open", id: 1, backend: "cpu", places, threads: 0 },
      "threads must be a whole number from 1 to 1024; it was 0",
    ],
  ];
  for (const [data, says] of wrong)
    assert.throws(() => parseRequest(data), { name: "TypeError", message: `request.${says}` });
});

test("a reply with a score that is no number does not pass for a vote", () => {
  const reply = { type: "event", id: 3, event: round };
  assert.deepEqual(parseReply(reply), reply);
  const broken = { ...round, scores: [[{ meanLogit: Number.NaN, meanLogprob: -1 }]] };
  assert.throws(
    () => parseReply({ ...reply, event: broken }),
    /reply\.event\.scores\[0\]\[0\]\.meanLogit/,
  );
});

test("a member that has joined says which core it runs on", () => {
  const about = {
    name: "Ada",
    architecture: "llama",
    parameters: 1,
    quantisation: "F32",
    bytes: 4,
    context: 64,
    vocabulary: 1,
    layers: 1,
    hidden: 1,
    template: true,
    formats: [],
    memory: { weights: 4, kv: 1, scratch: 1 },
    core: "burn",
  };
  const added = { type: "added", id: 1, about, usage: { heap: 1, threads: 1 } };
  assert.deepEqual(parseReply(added), added);
  assert.throws(
    () => parseReply({ ...added, about: { ...about, core: undefined } }),
    /reply\.about\.core must be "fused" or "burn"; it was missing/,
  );
});

test("every kind of error crosses the boundary with its text so far", () => {
  for (const kind of errorKinds) {
    const thrown = Object.assign(new Error("Do this next."), { name: kind });
    const error = typed(thrown);
    assert.equal(error.kind, kind);
    assert.equal(error.name, kind);
    error.partial = "so far";
    error.member = "Ada";
    const back = fromRecord(structuredClone(toRecord(error)));
    assert.equal(back.constructor, error.constructor);
    assert.deepEqual(toRecord(back), {
      kind,
      message: "Do this next.",
      partial: "so far",
      member: "Ada",
    });
  }
});

test("traps and failed allocations of the wasm module are typed", () => {
  const trap = typed(new WebAssembly.RuntimeError("unreachable"));
  assert.equal(trap.kind, "Engine");
  assert.match(trap.message, /fault of its own \(unreachable\)\. Reload/);
  assert.ok(isFatal(trap));
  assert.ok(
    typed(new RangeError("WebAssembly.Memory.grow(): Maximum memory size exceeded")) instanceof
      OutOfMemory,
  );
  assert.equal(typed("a string").kind, "Engine");
  const lost = new DeviceLost("gone");
  assert.equal(typed(lost), lost);
  assert.ok(lost instanceof ConclaveError);
});
