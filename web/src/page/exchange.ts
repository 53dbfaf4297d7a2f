/**
 * One question and its answer on the page: segments in their writers' colours, legend, figures,
 * rounds.
 */
import type { Adapter, Backend, Message } from "../protocol/engine.ts";
import type { ConclaveError } from "../protocol/errors.ts";
import type {
  BeginEvent,
  EndEvent,
  LeftEvent,
  ReadingEvent,
  RoundEvent,
  ThinkingEvent,
  ThoughtEvent,
} from "../protocol/messages.ts";
import type { Voted } from "./advice.ts";
import { creditLine } from "./credits.ts";
import { button, el, voice } from "./dom.ts";
import { duration, plural, sentence, speed } from "./figures.ts";
import { inspector } from "./inspector.ts";
import type { SideBySide } from "./side-by-side.ts";
import { runRecord, saveFile, type Run, type RunsOn } from "./run-record.ts";

/** Displayed reasons for the end of an answer. */
export const stops: Record<string, string> = {
  tokens: "stopped at the most tokens allowed",
  stop: "stopped before a text that it may not have",
  ended: "finished",
  rounds: "stopped at the most rounds allowed",
  length: "stopped at the greatest length allowed",
  silence: "stopped, since a round added nothing",
  context: "stopped, since the context is full",
  stopped: "stopped by you",
  failed: "broken off by an error",
  closed: "broken off when the page closed",
  elsewhere: "being answered in another tab",
};

export interface ExchangeContext {
  question: string;
  messages: Message[];
  members: string[];
  /** Core of each member. */
  cores: RunsOn[];
  voices: number[];
  backend: Backend;
  adapter: Adapter;
  /** Set if it was kept: it was not timed in this visit. */
  kept?: boolean;
  /** Called when a round of this exchange is opened. */
  onInspect: (exchange: Exchange) => void;
  /** Requests each member's own answer beside this one. */
  onSideBySide: (exchange: Exchange) => void;
}

export class Exchange {
  readonly root: HTMLElement;
  readonly rounds: RoundEvent[] = [];
  readonly question: string;
  readonly #context: ExchangeContext;
  /** Thoughts of each member before the answer, folded; by name. */
  readonly #thoughts = new Map<string, { body: HTMLElement; event: ThoughtEvent | undefined }>();
  readonly #thinking = el("div", { class: "thoughts" });
  readonly #answer = el("div", { class: "answer growing", dir: "auto", "aria-live": "polite" });
  readonly #legend = el("p", { class: "legend" });
  readonly #facts = el("p", { class: "facts" }, "Reading the question…");
  readonly #left: LeftEvent[] = [];
  readonly #leaving = el("div", { class: "leaving" });
  readonly #failure = el("div", { class: "failure" });
  readonly #inspectorHost = el("div", {});
  readonly #aloneHost = el("div", {});
  readonly #alone = button("Side by side", () => this.#context.onSideBySide(this), {
    class: "quiet",
    title: "Let each member answer this alone",
  });
  readonly #started = performance.now();
  /** Progress of each member that reads in more than one step. */
  readonly #reading = new Map<string, string>();
  #firstSegment: number | undefined;
  #begin: BeginEvent | undefined;
  #stop = "";
  /** An answer without rounds, of which only the text is known. */
  #plain = "";
  #open: number | undefined;

  constructor(context: ExchangeContext) {
    this.#context = context;
    this.question = context.question;
    this.root = el(
      "article",
      { class: "exchange" },
      el("h2", { class: "question", dir: "auto" }, context.question),
      this.#thinking,
      this.#answer,
      this.#legend,
      this.#facts,
      this.#leaving,
      this.#failure,
      this.#inspectorHost,
      this.#aloneHost,
    );
    this.#answer.addEventListener("keydown", (event) => this.#moveFocus(event));
  }

  /** The accepted text so far. */
  get text(): string {
    return this.#plain + this.rounds.map((round) => round.text).join("");
  }

  get begun(): BeginEvent | undefined {
    return this.#begin;
  }

  /** The rounds and starting weights, once it has begun. */
  get voted(): Voted | undefined {
    const begun = this.#begin;
    return begun && { members: begun.members, start: begun.weights, rounds: this.rounds };
  }

  get context(): ExchangeContext {
    return this.#context;
  }

  get stop(): string {
    return this.#stop;
  }

  /** Sets whether the members can be asked alone now. */
  offerSideBySide(can: boolean): void {
    this.#alone.disabled = !can;
  }

  /** Shows or removes each member's own answer below this one. */
  showSideBySide(view: SideBySide | undefined): void {
    this.#aloneHost.replaceChildren(...(view ? [view.root] : []));
    if (view) view.focus();
    else this.#alone.focus();
  }

  get voices(): number[] {
    return this.#context.voices;
  }

  reading({ member, done, total }: ReadingEvent): void {
    if (done < total) this.#reading.set(member, `${member} ${done} of ${total} tokens`);
    else this.#reading.delete(member);
    if (this.#reading.size > 0)
      this.#facts.textContent = `Reading the conversation: ${[...this.#reading.values()].join(", ")}…`;
  }

  begin(event: BeginEvent): void {
    this.#begin = event;
    this.#facts.textContent = "Drafting the first segment…";
  }

  /** Appends a thought to its member's fold, which is closed at first. */
  thinking({ member, text }: ThinkingEvent): void {
    this.#fold(member).body.append(text);
    this.#facts.textContent = `${[...this.#thoughts.keys()].join(", ")} thinking…`;
  }

  thought(event: ThoughtEvent): void {
    const fold = this.#fold(event.member);
    fold.body.textContent = event.text;
    fold.event = event;
  }

  #fold(member: string): { body: HTMLElement; event: ThoughtEvent | undefined } {
    const known = this.#thoughts.get(member);
    if (known) return known;
    const fold = { body: el("div", { class: "thought", dir: "auto" }), event: undefined };
    this.#thoughts.set(member, fold);
    const index = this.#context.members.indexOf(member);
    const who = el(
      "span",
      { class: `name ${voice(this.#context.voices[index] ?? index)}` },
      member,
    );
    this.#thinking.append(
      el("details", {}, el("summary", {}, "What ", who, " thought"), fold.body),
    );
    return fold;
  }

  /** Shows that a member failed; the others go on. */
  leave(event: LeftEvent, actions: HTMLElement[]): void {
    this.#left.push(event);
    this.#leaving.append(
      el(
        "p",
        { role: "status", "data-kind": event.error.kind },
        `${event.member} left in round ${event.round}, the others go on: ${event.error.message}`,
      ),
      el("p", { class: "actions" }, ...actions),
    );
  }

  add(round: RoundEvent): void {
    this.#firstSegment ??= performance.now() - this.#started;
    this.rounds.push(round);
    const member = round.drafters[round.winner] ?? 0;
    const writers = round.writers.map((place) => round.candidates[place]?.member ?? "");
    if (round.text !== "") {
      const segment = el(
        "span",
        {
          class: `segment ${voice(this.#context.voices[member] ?? member)}`,
          role: "button",
          tabindex: this.#answer.childElementCount === 0 ? 0 : -1,
          title: `Round ${round.round}, by ${sentence(writers)}`,
          "aria-expanded": "false",
          "data-round": round.round,
        },
        round.text,
      );
      segment.addEventListener("click", () => this.inspect(round.round));
      this.#answer.append(segment);
    }
    this.#showLegend();
    this.#showFacts("answering");
    if (this.#open !== undefined) this.inspect(this.#open, false);
  }

  /** `actions`: ways to continue. */
  end(event: EndEvent, actions: HTMLElement[] = []): void {
    this.#stop = event.stop;
    this.#settle();
    if (actions.length > 0)
      this.#failure.replaceChildren(el("p", { class: "actions" }, ...actions));
  }

  /** Shows that the answer failed; its text so far stays. */
  fail(error: ConclaveError, actions: HTMLElement[]): void {
    this.#stop = "failed";
    this.#settle();
    const who = error.member === undefined ? "" : `${error.member}: `;
    this.#failure.replaceChildren(
      el("p", { role: "alert", "data-kind": error.kind }, `${who}${error.message}`),
      el("p", { class: "actions" }, ...actions),
    );
  }

  /** Shows an answer of which only the text is known. */
  showText(text: string): void {
    this.#plain = text;
    this.#answer.append(el("span", {}, text));
    this.#answer.classList.remove("growing");
    this.#facts.textContent = "";
  }

  /** Shows that the answer does not go on in this tab, and what can be done. */
  breakOff(stop: "closed" | "elsewhere", actions: HTMLElement[]): void {
    this.#stop = stop;
    this.#settle();
    this.#failure.replaceChildren(el("p", { class: "actions" }, ...actions));
  }

  /** Shows that an answer that was broken off goes on. */
  resume(): void {
    this.#stop = "";
    this.#answer.classList.add("growing");
    this.#answer.querySelector(":scope > em")?.remove();
    this.#failure.replaceChildren();
    this.#facts.textContent = "Reading the conversation again…";
  }

  /** Shows a round's details below the answer. */
  inspect(number: number, toggle = true): void {
    const round = this.rounds.find((candidate) => candidate.round === number);
    const close = toggle && this.#open === number;
    this.#open = close || !round ? undefined : number;
    for (const segment of this.#segments()) {
      segment.setAttribute(
        "aria-expanded",
        String(segment.dataset["round"] === String(this.#open)),
      );
    }
    const settings = this.#begin?.settings;
    if (!round || !settings || close) return this.#inspectorHost.replaceChildren();
    const focused = document.activeElement;
    const control =
      focused instanceof HTMLElement && this.#inspectorHost.contains(focused)
        ? focused.dataset["control"]
        : undefined;
    this.#inspectorHost.replaceChildren(
      inspector(round, {
        names: this.#context.members,
        voices: this.#context.voices,
        settings,
        rounds: this.rounds.length,
        onRound: (next) => this.inspect(next, false),
        onClose: () => {
          this.inspect(number);
          this.#segments()
            .find((segment) => segment.dataset["round"] === String(number))
            ?.focus();
        },
      }),
    );
    if (control !== undefined) this.#focusControl(control);
    this.#context.onInspect(this);
  }

  /** Restores the focus after the panel was rebuilt: to the same button, or to an enabled one. */
  #focusControl(name: string): void {
    const find = (which: string) =>
      this.#inspectorHost.querySelector<HTMLElement>(`[data-control="${which}"]:enabled`);
    (find(name) ?? find("close"))?.focus({ preventScroll: true });
  }

  #settle(): void {
    this.#answer.classList.remove("growing");
    this.#showFacts(stops[this.#stop] ?? this.#stop);
    if (this.rounds.length > 0) {
      this.#facts.append(
        " ",
        button("Download the run", () => this.#download(), { class: "quiet" }),
      );
      if (this.#context.members.length > 1) this.#facts.append(" ", this.#alone);
    }
    if (this.text === "") this.#answer.append(el("em", { class: "hint" }, "No text was accepted."));
  }

  #showLegend(): void {
    this.#legend.replaceChildren(
      ...creditLine(this.#context.members, this.#context.voices, this.rounds),
    );
  }

  #showFacts(state: string): void {
    const tokens = this.rounds.reduce(
      (sum, round) => sum + (round.candidates[round.winner]?.tokens ?? 0),
      0,
    );
    const parts = [state, plural(this.rounds.length, "round")];
    if (this.#firstSegment !== undefined && !this.#context.kept) {
      parts.push(
        speed(tokens, performance.now() - this.#started),
        `first segment after ${duration(this.#firstSegment)}`,
      );
    }
    this.#facts.textContent = parts.join(" · ");
  }

  #download(): void {
    const begun = this.#begin;
    if (!begun) return;
    const { messages, members, cores, backend, adapter } = this.#context;
    const { settings, sampling, thinking, strengths, chats } = begun;
    const thoughts = [...this.#thoughts.values()].flatMap(({ event }) => (event ? [event] : []));
    const run: Run = {
      members,
      cores,
      strengths,
      chats,
      settings,
      sampling,
      thinking,
      thoughts,
      left: this.#left,
      backend,
      adapter,
      messages,
      rounds: this.rounds,
      stop: this.#stop,
    };
    saveFile(
      "conclave-run.json",
      `${JSON.stringify(runRecord(run), null, 1)}\n`,
      "application/json",
    );
  }

  #segments(): HTMLElement[] {
    return [...this.#answer.querySelectorAll<HTMLElement>(".segment")];
  }

  /** An answer is one Tab stop; arrows move within it, Enter or Space opens a round. */
  #moveFocus(event: KeyboardEvent): void {
    const segments = this.#segments();
    const here = segments.indexOf(event.target as HTMLElement);
    if (here < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.inspect(Number(segments[here]?.dataset["round"]));
    }
    const steps: Record<string, number> = {
      ArrowRight: here + 1,
      ArrowLeft: here - 1,
      Home: 0,
      End: segments.length - 1,
    };
    const next = segments[steps[event.key] ?? -1];
    if (!next) return;
    event.preventDefault();
    for (const segment of segments) segment.tabIndex = segment === next ? 0 : -1;
    next.focus();
    if (this.#open !== undefined) this.inspect(Number(next.dataset["round"]), false);
  }
}

/** The messages of exchanges, as they were sent. Questions without an answer are left out: roles must alternate. */
export function conversationOf(exchanges: readonly Exchange[]): Message[] {
  return exchanges
    .filter((exchange) => exchange.text !== "")
    .flatMap((exchange) => [
      { role: "user", content: exchange.context.messages.at(-1)?.content ?? exchange.question },
      { role: "assistant", content: exchange.text },
    ]);
}
