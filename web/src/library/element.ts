/**
 * `<conclave-chat>`: a question box and its answer for any page.
 *
 * ```html
 * <script type="module" src="conclave/element.js"></script>
 * <conclave-chat members="my/members.json" backend="auto"></conclave-chat>
 * ```
 *
 * Attributes, all optional: `members`, the address of a list of members; `backend`, one of auto,
 * webgpu, cpu; `core`, one of fused, burn; `rule`, one of harmonic, leader, paper, read at each question. Members load at the first question. Dispatches `conclave-event` for every event of an
 * answer (`detail` is the event). Style it through `::part(answer)`, `::part(segment)`, `::part(box)`.
 */
import { backendNamed, coreNamed } from "../protocol/backend.ts";
import { Conclave, isFatal, typed, type LoadOptions, type Message, type Rule } from "./conclave.ts";

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
  :host { display: block; font: inherit; max-width: 40rem; }
  [part=answer] { white-space: pre-wrap; min-height: 1.5em; margin: 0 0 .75em; }
  form { display: flex; gap: .5em; }
  [part=box] { flex: 1; min-width: 0; font: inherit; padding: .4em .6em; }
  button { font: inherit; padding: .4em .9em; }
  .s1 { text-decoration: underline solid 1px; } .s2 { text-decoration: underline dashed 1px; }
  .s3 { text-decoration: underline dotted 2px; } .s0 { text-decoration: underline double 1px; }
  [part=segment] { text-underline-offset: .25em; }
`);

/** The element `<conclave-chat>`: attributes `members`, `backend`, `core` and `rule`, the event `conclave-event`, the parts `answer`, `segment` and `box`. */
export class ConclaveChat extends HTMLElement {
  readonly #answer = document.createElement("div");
  readonly #box = document.createElement("input");
  readonly #button = document.createElement("button");
  readonly #messages: Message[] = [];
  #loading: Promise<Conclave> | undefined;
  #loaded = false;
  #answering: AbortController | undefined;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    const form = document.createElement("form");
    this.#answer.setAttribute("part", "answer");
    this.#answer.setAttribute("aria-live", "polite");
    this.#box.setAttribute("part", "box");
    this.#box.setAttribute("aria-label", "Your question");
    this.#button.textContent = "Ask";
    form.append(this.#box, this.#button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#answering) this.#answering.abort();
      else if (this.#box.value.trim() !== "") void this.ask(this.#box.value.trim());
    });
    root.append(this.#answer, form);
  }

  /** Asks a question that continues the conversation; resolves when the answer is over. */
  async ask(question: string): Promise<void> {
    if (this.#answering) return;
    const controller = new AbortController();
    this.#answering = controller;
    this.#button.textContent = "Stop";
    this.#box.value = "";
    this.#answer.textContent = "Loading the members…";
    let text = "";
    try {
      const conclave = await unlessAborted((this.#loading ??= this.#load(controller.signal)), controller.signal);
      this.#loaded = true;
      this.#answer.textContent = "";
      const messages: Message[] = [...this.#messages, { role: "user", content: question }];
      const rule = this.getAttribute("rule");
      // What is no rule `ask` refuses, and names those that there are.
      for await (const event of conclave.ask(messages, { signal: controller.signal, ...(rule !== null && { rule: rule as Rule }) })) {
        if (event.type === "round") {
          text += event.text;
          const segment = document.createElement("span");
          segment.setAttribute("part", "segment");
          segment.className = `s${((event.drafters[event.winner] ?? 0) + 1) % 4}`;
          segment.title = event.writers.map((place) => event.candidates[place]?.member).join(" and ");
          segment.textContent = event.text;
          this.#answer.append(segment);
        }
        this.dispatchEvent(new CustomEvent("conclave-event", { detail: event, bubbles: true, composed: true }));
      }
    } catch (thrown) {
      if (controller.signal.aborted && !this.#loaded) {
        // Stopped while the members were loading: the question is there to be asked again.
        this.#answer.textContent = "";
        this.#box.value = question;
        return this.#unload();
      }
      // What was accepted before the failure stays above the message.
      const error = typed(thrown);
      this.#answer.append(`${text === "" ? "" : "\n"}${error.message}`);
      if (isFatal(error) || !this.#loaded) this.#unload();
    } finally {
      if (text !== "") this.#messages.push({ role: "user", content: question }, { role: "assistant", content: text });
      this.#answering = undefined;
      this.#button.textContent = "Ask";
    }
  }

  disconnectedCallback(): void {
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
    const members = this.getAttribute("members");
    const options: LoadOptions = { backend: backendNamed(this.getAttribute("backend")), signal };
    if (members !== null) options.members = new URL(members, this.baseURI);
    const core = coreNamed(this.getAttribute("core"));
    if (core !== undefined) options.core = core;
    return Conclave.load(options);
  }
}

/** The promise's outcome, or the signal's reason if that comes first. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}

if (!customElements.get("conclave-chat")) customElements.define("conclave-chat", ConclaveChat);
