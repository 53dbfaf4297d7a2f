/** The hook in React itself, in a small document, over scripted members. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { transformSync } from "esbuild";
import { parseHTML } from "linkedom";
import {
  act,
  createElement,
  Fragment,
  StrictMode,
  useEffect,
  type ComponentProps,
  type ReactNode,
} from "react";
import { renderToString } from "react-dom/server";
import type { Script } from "../testing/scripted.ts";
import { endless, file, stage, talker, type Stage, type Surroundings } from "../testing/staged.ts";
import { Conclave, Download, type ConclaveEvent, type LoadOptions } from "./conclave.ts";
import type { ConclaveChat as ElementEvents } from "./element.ts";
import { ConclaveChat, useConclave, type UseConclave, type UseConclaveOptions } from "./react.ts";

const { window, document } = parseHTML("<!doctype html><html><body></body></html>");
Object.assign(window, { location: new URL("https://page.example/") });
Object.assign(globalThis, {
  window,
  document,
  IS_REACT_ACT_ENVIRONMENT: true,
  ...(!("navigator" in globalThis) && { navigator: window.navigator }),
});
// React looks for a document when it is loaded.
const { createRoot, hydrateRoot } = await import("react-dom/client");

/** Compiles: the element's listeners receive its own events. */
export const listen = (chat: ElementEvents): void => {
  chat.addEventListener("end", ({ detail }) => assert.ok(detail.stop));
  chat.addEventListener("progress", ({ detail }) => assert.ok(detail.share >= 0));
  chat.addEventListener("error", ({ detail }) => assert.ok(detail.kind));
  chat.addEventListener("click", ({ clientX }) => assert.ok(clientX));
};

/** Runs `task` and all work that React does for it. */
const inAct = <T>(task: () => Promise<T>): Promise<T> => act(task);

interface Mounted {
  /** Latest value of the hook. */
  hook: () => UseConclave;
  stages: Stage[];
  /** All its values, as `status text`. */
  seen: string[];
  unmount: () => Promise<void>;
}

/** Mounts a component with the hook; `Child` is rendered below it. */
async function mounted({
  script = talker,
  surroundings,
  strict = false,
  Child,
  ...options
}: UseConclaveOptions & {
  script?: Script;
  surroundings?: Surroundings;
  strict?: boolean;
  Child?: (hook: UseConclave) => ReactNode;
} = {}): Promise<Mounted> {
  const stages: Stage[] = [];
  const seen: string[] = [];
  let hook: UseConclave | undefined;
  const load = (options: LoadOptions): Promise<Conclave> => {
    const scripted = stage({ Ada: script }, 1, surroundings);
    stages.push(scripted);
    return Conclave.load(
      { ...options, backend: "cpu", members: [{ name: "Ada", files: [file] }] },
      scripted.port,
    );
  };
  function Component(): ReactNode {
    hook = useConclave({ load, ...options });
    seen.push(`${hook.status} ${hook.text}`);
    return Child ? createElement(Child, hook) : hook.text;
  }
  const root = createRoot(document.body.appendChild(document.createElement("div")));
  const component = createElement(Component);
  await inAct(async () =>
    root.render(strict ? createElement(StrictMode, undefined, component) : component),
  );
  const unmount = async (): Promise<void> => inAct(async () => root.unmount());
  return { hook: () => hook!, stages, seen, unmount };
}

/** Lets the engine and React finish pending work. */
const settle = (): Promise<void> => inAct(async () => new Promise((done) => setTimeout(done, 30)));
const ended = ({ journal }: Stage): boolean => journal.includes("terminate");

test("it renders on a server as before the first question, and the element's tag with it", () => {
  const Component = (): ReactNode => {
    const { status, text, messages, error, conclave } = useConclave({ backend: "cpu" });
    const attributes: ComponentProps<"conclave-chat"> = {
      members: "hf:owner/repo/model.gguf",
      rule: "leader",
      title: "Ask",
      onend: ({ detail }) => assert.ok(detail.stop),
      "onconclave-event": ({ detail }) => assert.ok(detail.type),
    };
    return createElement(
      "p",
      undefined,
      JSON.stringify({
        status,
        text,
        messages,
        failed: error !== undefined,
        loaded: conclave !== undefined,
      }),
      createElement("conclave-chat", attributes),
    );
  };
  const html = renderToString(createElement(Component)).replaceAll("&quot;", '"');
  assert.equal(
    html,
    '<p>{"status":"idle","text":"","messages":[],"failed":false,"loaded":false}' +
      '<conclave-chat members="hf:owner/repo/model.gguf" rule="leader" title="Ask">' +
      "</conclave-chat></p>",
  );
});

test("the first question loads the members, answers come by segments and continue", async () => {
  const { hook, stages, seen, unmount } = await mounted();
  const { ask, load, stop, reset } = hook();
  assert.equal(stages.length, 0, "nothing is loaded before");
  const events: ConclaveEvent[] = [];
  assert.equal(
    await inAct(() =>
      ask("hello", { sampling: { seed: 7 }, onEvent: (event) => void events.push(event) }),
    ),
    "Hello there.",
  );
  const states = seen.filter((state, index) => state !== seen[index - 1]);
  assert.deepEqual(
    [states[0], states[1], states.at(-1)],
    ["idle ", "loading ", "ready Hello there."],
  );
  assert.ok(events.some(({ type }) => type === "begin") && events.at(-1)?.type === "end");
  const { status, progress, error, messages, segments, conclave } = hook();
  assert.deepEqual([status, progress, error, conclave?.members.length], ["ready", 1, undefined, 1]);
  assert.deepEqual(
    segments.map(({ text, writers }) => [text, writers]),
    [
      ["Hello", ["Ada"]],
      [" there.", ["Ada"]],
    ],
  );
  assert.equal(stages[0]?.members.get("Ada")?.sampling?.seed, 7);
  await assert.rejects(ask({ type: "click" } as unknown as string), {
    name: "Settings",
    message: "The question must be a string; it was an object.",
  });
  await assert.rejects(ask("x", { maxTokens: null } as object), {
    name: "Settings",
    message: /^ask\.maxTokens must be/,
  });
  await inAct(() => ask("again"));
  assert.deepEqual(stages[0]?.members.get("Ada")?.messages, [
    ...messages,
    { role: "user", content: "again" },
  ]);
  assert.equal(hook().messages.length, 4);
  assert.equal(stages.length, 1);
  assert.ok(
    hook().ask === ask && hook().load === load && hook().stop === stop && hook().reset === reset,
    "the functions stay the same",
  );
  await inAct(async () => reset());
  assert.deepEqual(
    [hook().messages, hook().text, hook().segments, hook().status],
    [[], "", [], "ready"],
  );
  await unmount();
  await settle();
  assert.ok(ended(stages[0]!), "the engine goes with the component");
  assert.equal(await ask("still there?"), "");
  assert.equal(stages.length, 1, "and none comes after it");
});

test("a stopped answer keeps its text; while one is under way others are refused", async () => {
  const { hook, unmount } = await mounted({ script: endless });
  let answered: Promise<string> | undefined;
  const stopping = {
    onEvent: (event: ConclaveEvent) =>
      void (event.type === "round" && event.round === 2 && hook().stop()),
  };
  await inAct(async () => {
    answered = hook().ask("sing", stopping);
    await assert.rejects(hook().ask("and again"), { name: "Settings", message: /being answered/ });
    await answered;
  });
  assert.match((await answered) ?? "", /^(la )+$/);
  assert.deepEqual(hook().messages, [
    { role: "user", content: "sing" },
    { role: "assistant", content: await answered },
  ]);
  assert.deepEqual([hook().status, hook().error], ["ready", undefined]);
  // A new conversation begins at once, whatever is under way.
  await inAct(async () => {
    const left = hook().ask("sing");
    await new Promise(setImmediate);
    hook().reset();
    const next = hook().ask("sing anew", stopping);
    await Promise.all([left, next]);
  });
  assert.equal(hook().messages[0]?.content, "sing anew");
  assert.equal(hook().messages.length, 2);
  await unmount();
});

test("a stop while members load ends that, and the question is to be asked again", async () => {
  const { hook, stages, unmount } = await mounted({
    surroundings: { building: new Promise(() => {}) },
  });
  await inAct(async () => {
    const answered = hook().ask("hello");
    await new Promise((done) => setTimeout(done, 20));
    hook().stop();
    assert.equal(await answered, "");
  });
  await settle();
  assert.deepEqual([hook().status, hook().messages, hook().error], ["idle", [], undefined]);
  assert.ok(ended(stages[0]!));
  await unmount();
});

test("a loading ended by the caller's own signal is no failure of the engine", async () => {
  const reasons = [new DOMException("It took too long.", "TimeoutError"), "my own"];
  for (const reason of [...reasons, undefined]) {
    const controller = new AbortController();
    const { hook, unmount } = await mounted({
      signal: controller.signal,
      surroundings: { building: new Promise(() => {}) },
    });
    await inAct(async () => {
      const answered = hook().ask("hello");
      await new Promise((done) => setTimeout(done, 20));
      controller.abort(reason);
      assert.equal(await answered, "");
    });
    assert.deepEqual([hook().status, hook().messages, hook().error], ["idle", [], undefined]);
    await unmount();
  }
});

test("the guide's component stops what it loads", async () => {
  const guide = readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}../docs/embedding.md`, "utf8");
  const [, code = ""] = /^import \{ useConclave \}.*?$(.*?)^```$/ms.exec(guide) ?? [];
  const jsx = { loader: "jsx", jsxFactory: "createElement", jsxFragment: "Fragment" } as const;
  const script = `${transformSync(code, jsx).code}\nreturn Chat;`;
  let hook: UseConclave | undefined;
  const Guide = new Function("createElement", "Fragment", "useConclave", script)(
    createElement,
    Fragment,
    () => hook,
  ) as () => ReactNode;
  const Child = (current: UseConclave): ReactNode => {
    hook = current;
    return createElement(Guide);
  };
  const { unmount } = await mounted({
    surroundings: { building: new Promise(() => {}) },
    Child,
  });
  const button = (): string => [...document.querySelectorAll("button")].at(-1)?.textContent ?? "";
  assert.equal(button(), "Ask");
  await inAct(async () => {
    void hook!.ask("hello");
    await new Promise((done) => setTimeout(done, 20));
  });
  assert.deepEqual([hook!.status, button()], ["loading", "Stop"]);
  await inAct(async () => hook!.stop());
  assert.equal(button(), "Ask");
  await unmount();
});

test("a failure is told; what was accepted stays, and the next question starts anew", async () => {
  const { hook, stages, unmount } = await mounted({
    script: {
      ...talker,
      failure: {
        move: "draft",
        call: 2,
        error: Object.assign(new Error("It fell over."), { name: "Engine" }),
      },
    },
  });
  assert.equal(await inAct(() => hook().ask("hello")), "Hello");
  assert.deepEqual(
    [hook().status, hook().error?.kind, hook().messages.at(-1)?.content],
    ["idle", "Engine", "Hello"],
  );
  await inAct(() => hook().ask("again"));
  assert.equal(stages.length, 2);
  await unmount();
  const away = await mounted({ load: () => Promise.reject(new Download("The host is away.")) });
  await inAct(() => away.hook().load());
  assert.deepEqual([away.hook().status, away.hook().error?.kind], ["idle", "Download"]);
  await inAct(() => away.hook().ask("hello"));
  assert.deepEqual([away.hook().messages, away.hook().error?.kind], [[], "Download"]);
  await away.unmount();
});

test("a strict component has one engine in the end, whichever effect asked for it", async () => {
  const Child = ({ load, ask }: UseConclave): ReactNode => {
    useEffect(() => {
      void load();
      void ask("hello");
    }, [load, ask]);
    return null;
  };
  const { hook, stages, unmount } = await mounted({ strict: true, Child });
  // Polls long enough for a busy machine, where the engines of both mounts open slowly.
  for (let turn = 0; turn < 100 && (hook().status !== "ready" || hook().text === ""); turn++)
    await settle();
  assert.deepEqual([hook().status, hook().text], ["ready", "Hello there."]);
  assert.deepEqual(stages.map(ended), [...stages.slice(1).map(() => true), false]);
  assert.equal(hook().messages.length, 2, "asked once");
  await unmount();
  await settle();
  assert.ok(stages.every(ended));
});

test("the element as a component is heard by its last handlers, also after SSR", async () => {
  const heard: string[] = [];
  const at = (when: string) => ({
    onEnd: ({ stop }: { stop: string }) => void heard.push(`${when} ${stop}`),
    onProgress: ({ share }: { share: number }) => void heard.push(`${when} ${share}`),
  });
  const host = document.body.appendChild(document.createElement("div"));
  host.innerHTML = renderToString(createElement(ConclaveChat, { rule: "leader" }));
  const element = host.querySelector("conclave-chat") as unknown as HTMLElement & {
    members?: unknown;
  };
  assert.equal(element.getAttribute("rule"), "leader");
  const members = [{ name: "Ada", files: [file] }];
  const root = await inAct(async () =>
    hydrateRoot(
      host as unknown as Element,
      createElement(ConclaveChat, { rule: "leader", members, ...at("first") }),
    ),
  );
  const dispatch = (name: string, detail: object): boolean =>
    element.dispatchEvent(new window.CustomEvent(name, { detail }));
  dispatch("progress", { share: 0.5 });
  await inAct(async () =>
    root.render(createElement(ConclaveChat, { rule: "leader", members, ...at("second") })),
  );
  dispatch("end", { stop: "ended" });
  assert.deepEqual([heard, element.members], [["first 0.5", "second ended"], members]);
  await inAct(async () => root.unmount());
  dispatch("end", { stop: "ended" });
  assert.equal(heard.length, 2);
});

test("the component's members replace each other, and its class is the element's", async () => {
  const attributes: Record<string, unknown>[] = [];
  type Props = ComponentProps<typeof ConclaveChat>;
  const Seen = (props: Props): ReactNode => {
    const made = ConclaveChat(props);
    attributes.push(made.props as Record<string, unknown>);
    return made;
  };
  const host = document.body.appendChild(document.createElement("div"));
  const root = createRoot(host as unknown as Element);
  const seen: unknown[] = [];
  for (const members of [
    "hf:a/b/c.gguf",
    "hf:a/b/d.gguf",
    [{ name: "Ada", files: [file] }],
    "hf:e",
  ]) {
    const props = { className: "chat", assets: "/files/", members };
    await inAct(async () => root.render(createElement(Seen, props)));
    const element = host.querySelector("conclave-chat") as unknown as { members: unknown };
    assert.equal(element.members, members);
    seen.push(host.querySelector("conclave-chat")?.getAttribute("members"));
  }
  assert.equal(seen[2], null, "a list leaves no reference of before");
  assert.deepEqual([attributes[0]?.["class"], attributes[0]?.["className"]], ["chat", undefined]);
  assert.equal(host.querySelector("conclave-chat")?.getAttribute("assets"), "/files/");
  await inAct(async () => root.unmount());
});

test("a component that unmounts while its members load leaves no engine running", async () => {
  let loaded: () => void = () => {};
  const { hook, stages, unmount } = await mounted({
    surroundings: { starting: new Promise((resolve) => (loaded = resolve)) },
  });
  await inAct(async () => {
    void hook().load();
    await new Promise((done) => setTimeout(done, 20));
  });
  assert.equal(hook().status, "loading");
  await unmount();
  loaded();
  await settle();
  assert.deepEqual(stages.map(ended), [true]);
});
