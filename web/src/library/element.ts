/**
 * `<conclave-chat>`: a question box and its answer for any page.
 *
 * ```html
 * <script type="module" src="conclave/element.js"></script>
 * <conclave-chat></conclave-chat>
 * <conclave-chat members="hf:owner/repo/file.gguf hf:other/repo/file.gguf"></conclave-chat>
 * ```
 *
 * Attributes, all optional: `members`, references of models (`hf:…`, or the address of a `.gguf`
 * file) or the address of one list of members; `backend`: auto, webgpu, cpu; `core`: fused, burn;
 * `hub`, used for `hf:` references instead of huggingface.co; `assets`, the address of a folder
 * with the package's files, if they are not beside the script; `rule`: harmonic, leader, paper, and
 * `thinking`: off, on, auto, both read at each question. Members are loaded at the first question,
 * and again at the next one if another of the attributes changes, which stops an answer; the size
 * of any download is shown first and needs consent.
 *
 * Dispatches `conclave-event` for every event of an answer (`detail` is the event), and the
 * separate events `round`, `end`, `progress` (`detail`: `share` of the load from 0 to 1, and
 * `loaded` of `total` bytes of downloads) and `error` (`detail` is the {@link ConclaveError}).
 * Style it through `::part(…)`: log, question, answer, earlier (both, above the last), segment,
 * writers, thought, status, progress, consent, box, ask, reset; and the custom properties
 * `--conclave-gap` and `--conclave-rule`.
 */
import { text as words } from "../protocol/check.ts";
import { definedFields } from "../protocol/defined-fields.ts";
import { unlessAborted } from "../protocol/unless-aborted.ts";
import {
  Conclave,
  isFatal,
  parseReference,
  referenceName,
  typed,
  type ConclaveError,
  type ConclaveEvent,
  type LoadOptions,
  type MemberSource,
  type Message,
  type Progress,
  type Rule,
  type Thinking,
} from "./conclave.ts";
import { WrittenAnswer } from "./answering.ts";
import { copyText } from "./markdown/copy.ts";
import { copiedCode, showMarkdown, type Written } from "./markdown/show.ts";
import type { ChatEvents, LoadProgress } from "./element-events.ts";
import { checked, namesModel, stillAnswering } from "./options.ts";
import { Share } from "./share.ts";

export type { ChatEvents, ConclaveChatEventMap, LoadProgress } from "./element-events.ts";

const style = `
  :host { display: block; font: inherit; max-width: 40rem;
    --conclave-gap: .75em; --conclave-rule: 1px; }
  [hidden] { display: none !important; }
  [part~=question] { font-weight: 600; overflow-wrap: anywhere;
    margin: 0 0 calc(var(--conclave-gap) / 3); }
  [part~=answer] { overflow-wrap: anywhere; min-height: 1.5em; margin: 0 0 var(--conclave-gap); }
  [part~=answer] > * { margin: .75em 0 0; } [part~=answer] > :first-child { margin-block-start: 0; }
  p, li, td, th { white-space: pre-line; }
  li > * { margin: 0; } ul, ol { padding-inline-start: 1.5em; }
  h2, h3, h4, h5, h6 { font-size: 1.05em; line-height: 1.3; } h2 { font-size: 1.2em; }
  blockquote { border-inline-start: 2px solid; padding-inline-start: .9em; }
  blockquote > * { margin: 0; }
  pre { margin: 0; overflow-x: auto; padding: .6em .8em; }
  code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .875em; }
  .code { border: 1px solid color-mix(in srgb, currentColor 25%, transparent);
    border-radius: .35em; }
  .code-head { display: flex; justify-content: space-between; align-items: center;
    padding: .2em .3em .2em .9em; font-size: .8em; }
  .code-keyword { font-weight: 600; } .code-comment { font-style: italic; opacity: .8; }
  .wide { overflow-x: auto; } table { border-collapse: collapse; }
  th, td { text-align: start; padding: .3em .9em .3em 0;
    border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
  [data-align=right] { text-align: end; } [data-align=center] { text-align: center; }
  a { color: inherit; }
  [part~=answer]:empty { min-height: 0; margin: 0; }
  [part=writers] { font-size: .875em; opacity: .8; margin: 0 0 var(--conclave-gap); }
  [part=thought] { margin: 0 0 var(--conclave-gap); opacity: .8; white-space: pre-wrap; }
  [part=status], [part=consent] { margin: 0 0 var(--conclave-gap); }
  [part=consent] { display: flex; flex-wrap: wrap; gap: .5em; }
  [part=consent] span { flex-basis: 100%; }
  [part=progress] { display: block; width: 100%; margin: 0 0 var(--conclave-gap); }
  form { display: flex; flex-wrap: wrap; gap: .5em; }
  [part=box], button { font: inherit; color: inherit; background: transparent;
    border: 1px solid color-mix(in srgb, currentColor 55%, transparent); border-radius: .35em; }
  [part=box] { flex: 1 1 8em; min-width: 0; padding: .4em .6em; }
  [part=box]::placeholder { color: inherit; opacity: .7; }
  button { padding: .4em .9em; cursor: pointer; }
  button:hover { border-color: currentColor; }
  [part=segment], [part=writers] > span { text-decoration-line: underline;
    text-underline-offset: .25em; text-decoration-thickness: var(--conclave-rule); }
  .s2 { text-decoration-style: dashed; }
  .s3 { text-decoration-style: dotted;
    text-decoration-thickness: calc(2 * var(--conclave-rule)); }
  .s0 { text-decoration-style: double; }
`;

/** Lets the class be imported on a server, which has no elements. */
const Base = (globalThis.HTMLElement ?? class {}) as unknown as { new (): ChatEvents };
/** Attributes that the members are loaded with. */
const loadAttributes = ["backend", "core", "hub", "assets"] as const;
let sheet: CSSStyleSheet | undefined;

/** Thrown when the visitor declines the download. */
class Declined extends Error {}

/**
 * The element `<conclave-chat>`: attributes `members`, `backend`, `core`, `hub`, `assets`, `rule`
 * and `thinking`, the property `members`, the events `conclave-event`, `round`, `end`, `progress`
 * and `error`, the parts `log`, `question`, `answer`, `earlier`, `segment`, `writers`, `thought`,
 * `status`, `progress`, `consent`, `box`, `ask` and `reset`.
 */
export class ConclaveChat extends Base {
  static readonly observedAttributes: readonly string[] = ["members", ...loadAttributes];
  /** Earlier questions with their answers. */
  readonly #log = made("div", "log");
  readonly #question = made("p", "question");
  readonly #answer = made("div", "answer");
  /** Texts of the answer's rounds. */
  #written: Written[] = [];
  /** Legend of the writers' underlines. */
  readonly #writers = made("p", "writers", "Written by ");
  readonly #thought = made("details", "thought");
  readonly #status = made("p", "status");
  readonly #progress = made("progress", "progress");
  readonly #consent = made("p", "consent");
  readonly #box = made("input", "box");
  readonly #ask = made("button", "ask", "Ask");
  readonly #again = made("button", "reset", "New");
  /** Replaced for each conversation. */
  #messages: Message[] = [];
  #members: MemberSource[] | undefined;
  #loading: Promise<Conclave> | undefined;
  #loaded = false;
  #answering: AbortController | undefined;
  /** Resolves when the last question's answer is over. */
  #over: Promise<void> | undefined;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    if (!sheet) (sheet = new CSSStyleSheet()).replaceSync(style);
    root.adoptedStyleSheets = [sheet];
    const form = document.createElement("form");
    this.#answer.setAttribute("aria-live", "polite");
    this.#status.setAttribute("role", "status");
    this.#progress.setAttribute("aria-label", "Loading the members");
    this.#box.setAttribute("aria-label", "Your question");
    this.#box.dir = this.#question.dir = "auto";
    this.#box.placeholder = "Ask a question";
    this.#again.type = "button";
    this.#again.title = "Begin a new conversation";
    for (const hidden of [
      this.#question,
      this.#writers,
      this.#thought,
      this.#status,
      this.#progress,
      this.#consent,
      this.#again,
    ])
      hidden.hidden = true;
    form.append(this.#box, this.#ask, this.#again);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const question = this.#box.value.trim();
      if (this.#answering || question === "") return;
      this.#box.value = "";
      void this.ask(question);
    });
    // Not by Enter, nor by the second click of a double click on “Ask”.
    this.#ask.addEventListener("click", (event) => {
      if (!this.#answering) return;
      event.preventDefault(); // It may be “Ask” again before this click submits.
      if (event.detail !== 2) this.#answering.abort();
    });
    this.#again.addEventListener("click", () => this.reset());
    root.addEventListener("click", ({ target }) => {
      const code = copiedCode(target);
      if (code !== undefined) void copyText(code, target as HTMLElement);
    });
    root.append(
      this.#log,
      this.#question,
      this.#thought,
      this.#answer,
      this.#writers,
      this.#status,
      this.#progress,
      this.#consent,
      form,
    );
  }

  /**
   * The members; allows what the attribute can't say: picked files, names, `quantise`. Loaded at
   * the next question. A string sets the attribute, as some frameworks do.
   */
  get members(): MemberSource[] | undefined {
    return this.#members;
  }

  set members(members: MemberSource[] | string | null | undefined) {
    if (typeof members === "string") this.setAttribute("members", members);
    this.#members = typeof members === "string" ? undefined : (members ?? undefined);
    this.#end();
  }

  attributeChangedCallback(name: string, before: string | null, after: string | null): void {
    if (before === after || (name === "members" && this.#members)) return;
    this.#end();
  }

  connectedCallback(): void {
    // A property set before the element was defined hides the accessor.
    if (!Object.hasOwn(this, "members")) return;
    const { members } = this;
    Reflect.deleteProperty(this, "members");
    this.members = members;
  }

  /**
   * Asks a question that continues the conversation; resolves when the answer is over. If the
   * conversation is too long, its oldest questions are left out. Throws Settings while another
   * question is being answered.
   */
  async ask(question: string): Promise<void> {
    checked("The question", question, words);
    if (this.#answering) {
      if (!this.#answering.signal.aborted) throw stillAnswering();
      // Wait for an answer stopped just now.
      await this.#over;
      return this.ask(question);
    }
    const over = this.#answered(question);
    this.#over = over;
    return over;
  }

  async #answered(question: string): Promise<void> {
    const messages = this.#messages;
    const isCurrent = (): boolean => messages === this.#messages;
    const controller = new AbortController();
    const { signal } = controller;
    this.#answering = controller;
    this.#ask.textContent = "Stop";
    this.#ask.type = "button";
    this.#logLast();
    this.#question.textContent = question;
    this.#question.hidden = false;
    this.#showStatus("Loading the members…");
    let text = "";
    let conclave: Conclave | undefined;
    const unwritten = new WrittenAnswer([]);
    try {
      conclave = await unlessAborted((this.#loading ??= this.#load(signal)), signal);
      this.#loaded = true;
      this.#showStatus("");
      const rule = this.getAttribute("rule") as Rule | null;
      const thinking = this.getAttribute("thinking") as Thinking | null;
      // `ask` refuses an unknown rule and names the valid ones.
      const options = {
        signal,
        overflow: "drop-oldest" as const,
        ...(rule !== null && { rule }),
        ...(thinking !== null && { thinking }),
      };
      for await (const event of conclave.ask(
        [...messages, { role: "user", content: question }],
        options,
      )) {
        if (event.type === "round") text += event.text;
        if (event.type === "end") text = event.text;
        if (isCurrent()) this.#show(event, text);
        this.#dispatchAnswer(event);
      }
    } catch (thrown) {
      const declined = thrown instanceof Declined;
      if (declined || (signal.aborted && !conclave)) {
        // Stopped while loading: the question can be asked again.
        if (isCurrent()) this.#showStatus(declined ? "Nothing was downloaded." : "");
        if (!this.#loaded) this.#unload();
        this.#dispatchAnswer(unwritten.stopped());
        return;
      }
      // Accepted text stays above the message.
      const error = typed(thrown);
      this.#showStatus(error.message);
      this.#dispatch("error", error);
      if (isFatal(error) || !conclave) this.#unload();
    } finally {
      if (text !== "")
        messages.push({ role: "user", content: question }, { role: "assistant", content: text });
      if (isCurrent()) {
        // A question without an answer returns to the box, unless the next is in it.
        this.#question.hidden = text === "";
        if (text === "" && this.#box.value === "") this.#box.value = question;
      }
      this.#answering = undefined;
      this.#ask.textContent = "Ask";
      this.#ask.type = "submit";
      this.#progress.hidden = true;
      this.#again.hidden = this.#messages.length === 0;
    }
  }

  /** Begins a new conversation; the members stay. */
  reset(): void {
    this.#answering?.abort();
    this.#messages = [];
    this.#logLast();
    this.#log.replaceChildren();
    this.#question.hidden = true;
    this.#showStatus("");
    this.#again.hidden = true;
    this.#box.focus();
  }

  disconnectedCallback(): void {
    // A moved element is reconnected at once, or a task later if something waits in between.
    setTimeout(() => {
      if (!this.isConnected) this.#end();
    });
  }

  /** Moves the last question and answer into the log. */
  #logLast(): void {
    if (this.#answer.hasChildNodes()) {
      const answer = made("div", "answer earlier");
      answer.append(...this.#answer.childNodes);
      const question = made("p", "question earlier", this.#question.textContent ?? "");
      question.dir = "auto";
      this.#log.append(question, answer);
    }
    this.#answer.replaceChildren();
    this.#written = [];
    this.#thought.replaceChildren();
    this.#writers.replaceChildren("Written by ");
    this.#thought.hidden = this.#writers.hidden = true;
  }

  #show(event: ConclaveEvent, text: string): void {
    if (event.type === "begin" && event.dropped > 0)
      this.#showStatus("The conversation has become too long: its oldest questions are left out.");
    if (event.type === "thought") {
      if (this.#thought.hidden) {
        const summary = document.createElement("summary");
        summary.textContent = "What the members thought";
        this.#thought.append(summary);
        this.#thought.hidden = false;
      }
      const thought = document.createElement("p");
      thought.dir = "auto";
      // Isolated, the name does not decide the direction.
      const name = document.createElement("bdi");
      name.textContent = event.member;
      thought.append(name, `: ${event.text}`);
      this.#thought.append(thought);
    }
    const shown = this.#written.reduce((length, { text }) => length + text.length, 0);
    // The end may bring text withheld so far.
    if (event.type === "end" && text.length > shown)
      this.#write({ text: text.slice(shown), attributes: { class: "rest" } });
    if (event.type !== "round") return;
    const line = `s${((event.drafters[event.winner] ?? 0) + 1) % 4}`;
    const title = event.writers.map((place) => event.candidates[place]?.member).join(" and ");
    this.#write({ text: event.text, attributes: { class: line, part: "segment", title } });
    this.#name(event.candidates[event.winner]?.member ?? "", line);
  }

  #write(written: Written): void {
    if (written.text === "") return;
    this.#written.push(written);
    showMarkdown(this.#answer, this.#written, { top: 2 });
  }

  /** Adds a writer to the legend, once an answer. */
  #name(writer: string, line: string): void {
    const named = [...this.#writers.children];
    if (named.some(({ textContent }) => textContent === writer)) return;
    const name = document.createElement("span");
    name.className = line;
    name.textContent = writer;
    this.#writers.append(named.length > 0 ? ", " : "", name);
    this.#writers.hidden = false;
  }

  #showStatus(status: string): void {
    this.#status.textContent = status;
    this.#status.hidden = status === "";
  }

  #dispatchAnswer(event: ConclaveEvent): void {
    this.#dispatch("conclave-event", event);
    if (event.type === "round" || event.type === "end") this.#dispatch(event.type, event);
  }

  #dispatch(name: string, detail: ConclaveEvent | ConclaveError | LoadProgress): void {
    this.dispatchEvent(
      new CustomEvent(name, {
        detail,
        bubbles: name === "conclave-event",
        composed: name === "conclave-event",
      }),
    );
  }

  /** Stops an answer, and ends the engine. */
  #end(): void {
    this.#answering?.abort();
    this.#unload();
  }

  /** Ends the engine; the next question starts a new one. */
  #unload(): void {
    void this.#loading?.then((conclave) => conclave.close()).catch(() => undefined);
    this.#loading = undefined;
    this.#loaded = false;
  }

  async #load(signal: AbortSignal): Promise<Conclave> {
    const attributes = loadAttributes.map((name) => [name, this.getAttribute(name) ?? undefined]);
    // The library refuses an unknown backend or core and names the valid ones.
    const options: LoadOptions = { signal, ...definedFields(Object.fromEntries(attributes)) };
    const members = this.#members ?? this.#listed();
    const { onProgress, onShare } = this.#following();
    if (!Array.isArray(members))
      return Conclave.load({
        ...options,
        ...(members !== undefined && { members }),
        onProgress,
        onShare,
      });
    const conclave = Conclave.start(options);
    try {
      await this.#consented(conclave, members, signal);
      const share = new Share(onShare);
      share.await(members);
      const add = async (member: MemberSource): Promise<void> => {
        await conclave.add(member, {
          signal,
          onProgress: (progress) => (onProgress(progress), share.member(member.name, progress)),
        });
        share.added(member.name);
      };
      await Promise.all([conclave.ready.then(() => share.opened()), ...members.map(add)]);
      share.done();
      return conclave;
    } catch (error) {
      conclave.close();
      throw error;
    }
  }

  /**
   * The attribute's value: references, each a member; the address of a list; undefined for the
   * bundled members.
   */
  #listed(): MemberSource[] | string | undefined {
    const words = (this.getAttribute("members") ?? "").split(/\s+/).filter((word) => word !== "");
    const [first] = words;
    if (first === undefined) return undefined;
    if (words.length === 1 && !namesModel(first)) return first;
    const names = words.map((ref) => referenceName(parseReference(ref)));
    return words.map((ref, index) => ({
      name: names.indexOf(names[index]!) === index ? names[index]! : `${names[index]} ${index + 1}`,
      ref,
    }));
  }

  /** Asks the visitor for consent if anything has to be downloaded. Throws Declined. */
  async #consented(
    conclave: Conclave,
    members: MemberSource[],
    signal: AbortSignal,
  ): Promise<void> {
    const plans = await Promise.all(
      members.flatMap(({ ref }) => (ref === undefined ? [] : [conclave.plan(ref, signal)])),
    );
    const missing = plans.filter(({ bytes, stored }) => stored < bytes);
    if (missing.length === 0) return;
    const bytes = missing.reduce((sum, plan) => sum + plan.bytes - plan.stored, 0);
    const hosts = [...new Set(missing.map(({ from }) => new URL(from).host))].join(" and ");
    const { keeps } = await conclave.models();
    signal.throwIfAborted();
    const [download, decline] = [
      made("button", "consent-download", "Download"),
      made("button", "consent-decline", "Not now"),
    ];
    this.#showStatus("");
    const kept = keeps
      ? "This browser keeps them."
      : "This browser can't keep them: they are fetched anew at each visit.";
    const sentence = document.createElement("span");
    const needed = missing.length === 1 ? "A model has" : `${missing.length} models have`;
    sentence.textContent = `${needed} to be downloaded from ${hosts}, ${megabytes(bytes)}. ${kept}`;
    this.#consent.replaceChildren(sentence, download, decline);
    this.#consent.hidden = false;
    download.focus();
    try {
      await new Promise<void>((resolve, reject) => {
        download.addEventListener("click", () => resolve());
        decline.addEventListener("click", () => reject(new Declined()));
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      });
    } finally {
      this.#consent.hidden = true;
      this.#consent.replaceChildren();
      // Deferred, or the key pressed would reach the box too, where it stops the answer.
      setTimeout(() => this.#box.focus());
    }
  }

  /** Tracks the progress of the members' files and of the whole load. */
  #following(): {
    onProgress: (progress: Progress & { member: string }) => void;
    onShare: (share: number) => void;
  } {
    const files = new Map<string, Progress>();
    const bytes = (): { loaded: number; total: number } => {
      const downloads = [...files.values()];
      return {
        loaded: downloads.reduce((sum, file) => sum + file.loaded, 0),
        total: downloads.reduce((sum, file) => sum + file.total, 0),
      };
    };
    return {
      onProgress: ({ member, ...progress }) => {
        const file = files.get(member);
        if (progress.phase === "downloading") files.set(member, progress);
        // The last bytes of a download may arrive without an event.
        else if (file && (progress.phase === "verifying" || progress.phase === "loading"))
          files.set(member, { ...file, loaded: file.total });
        const { loaded, total } = bytes();
        this.#showStatus(
          progress.note ??
            (loaded < total
              ? `Downloading: ${megabytes(loaded)} of ${megabytes(total)}`
              : "Loading the members…"),
        );
      },
      onShare: (share) => {
        this.#progress.hidden = share === 1;
        this.#progress.value = share;
        this.#dispatch("progress", { share, ...bytes() });
      },
    };
  }
}

function made<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  part: string,
  text = "",
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  element.setAttribute("part", part);
  element.textContent = text;
  return element;
}

const megabytes = (bytes: number): string =>
  bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.max(1, Math.round(bytes / 1e6))} MB`;

declare global {
  interface HTMLElementTagNameMap {
    "conclave-chat": ConclaveChat;
  }
}

if (globalThis.customElements && !customElements.get("conclave-chat"))
  customElements.define("conclave-chat", ConclaveChat);
