/**
 * One question and its answer on the page: the text with its writers, the round under way, legend,
 * figures, actions, rounds.
 */
import type { Adapter, Backend, Message } from "../protocol/engine.ts";
import type { ConclaveError } from "../protocol/errors.ts";
import type {
  BeginEvent,
  DraftEvent,
  EndEvent,
  LeftEvent,
  ReadingEvent,
  RoundEvent,
  ThinkingEvent,
  ThoughtEvent,
} from "../protocol/messages.ts";
import type { Voted } from "./advice.ts";
import { strongest } from "./alone.ts";
import { hasToys } from "./toy-skills.ts";
import { AnswerActions } from "./answer-actions.ts";
import { AnswerView } from "./answer-view.ts";
import { creditLine } from "./credits.ts";
import { el, nameTag } from "./dom.ts";
import { Drafting } from "./drafting.ts";
import { duration, plural, speed } from "./figures.ts";
import type { Foretelling } from "./foretold.ts";
import { isComposing } from "./input-method.ts";
import { inspector } from "./inspector.ts";
import { QuestionLine } from "./question-line.ts";
import type { SideBySide } from "./side-by-side.ts";
import { runRecord, saveBlob, saveFile, type Run, type RunsOn } from "./run-record.ts";
import { WaitingLine } from "./waiting-line.ts";

/** Displayed reasons for the end of an answer. */
export const stops: Record<string, string> = {
  tokens: "stopped at the most tokens allowed",
  stop: "stopped before a text that it may not have",
  ended: "finished",
  rounds: "stopped at the most rounds allowed",
  length: "stopped at the greatest length allowed",
  silence: "stopped, since a round added nothing",
  repetition: "stopped, since the models only repeated themselves",
  context: "stopped, since the context is full",
  stopped: "stopped by you",
  failed: "broken off by an error",
  closed: "broken off when the page closed",
  crashed: "broken off when the tab ended",
  elsewhere: "being answered in another tab",
};

/** Ends after which the members can go on. */
const unfinished = new Set([
  "tokens",
  "rounds",
  "length",
  "repetition",
  "stopped",
  "failed",
  "closed",
  "crashed",
]);

/** Time in ms within which the second click of a double click follows. */
const doubleClickMs = 400;

/** Whether an answer ended with the page that gave it. */
export const isBrokenOff = (stop: string): boolean => stop === "closed" || stop === "crashed";

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
  /** Set if it was continued in an earlier visit. */
  continued?: boolean;
  /** Called when a round of this exchange is opened or closed. */
  onInspect: (exchange: Exchange) => void;
  /** Requests each member's own answer beside this one, or `only` that of one, by index. */
  onSideBySide: (exchange: Exchange, only?: number) => void;
  /**
   * Asks this or an edited question again, in place of this exchange and all later ones. `onAsked`
   * is called if it is asked.
   */
  onAgain: (exchange: Exchange, question: string, onAsked?: () => void) => void;
  /** The question is being edited: the text so far; undefined: no more. */
  onEdited: (exchange: Exchange, text: string | undefined) => void;
  /** Shown below the answer once it is over. */
  note?: HTMLElement | undefined;
  /** Lets the members continue the answer. */
  onContinue: (exchange: Exchange) => void;
}

export class Exchange {
  readonly root: HTMLElement;
  readonly rounds: RoundEvent[] = [];
  readonly question: string;
  readonly #context: ExchangeContext;
  /** Thoughts of each member before the answer, folded; by name. */
  readonly #thoughts = new Map<string, { body: HTMLElement; event: ThoughtEvent | undefined }>();
  readonly #thinking = el("div", { class: "thoughts" });
  readonly #line: QuestionLine;
  readonly #answer: AnswerView;
  readonly #drafting: Drafting;
  readonly #actions: AnswerActions;
  readonly #legend = el("p", { class: "legend" });
  readonly #waiting = new WaitingLine();
  readonly #facts = this.#waiting.root;
  readonly #left: LeftEvent[] = [];
  readonly #leaving = el("div", { class: "leaving" });
  readonly #failure = el("div", { class: "failure" });
  readonly #inspectorHost = el("div", {});
  readonly #aloneHost = el("div", {});
  /** Time at which the members began in this visit, by `performance.now()`. */
  #started = performance.now();
  #timed: boolean;
  /** Rounds before the last continuation. */
  #earlier = 0;
  /** Progress of each member that reads in more than one step. */
  readonly #reading = new Map<string, string>();
  #firstSegment: number | undefined;
  #begin: BeginEvent | undefined;
  #stop = "";
  /** An answer without rounds, of which only the text is known. */
  #plain = "";
  #open: number | undefined;
  /** Whether the round was opened by the button below the answer, not by its segment. */
  #byButton = false;

  constructor(context: ExchangeContext) {
    this.#context = context;
    this.#timed = context.kept !== true;
    this.question = context.question;
    this.#line = new QuestionLine(context.question, {
      onAsk: (question, onAsked) => context.onAgain(this, question, onAsked),
      onEdited: (text) => context.onEdited(this, text),
    });
    this.#answer = new AnswerView(context.voices, {
      onRound: (round, by) => {
        this.inspect(round, by !== "arrow");
        if (by === "arrow") return; // It keeps the segment in view.
        this.#byButton = false;
        if (by === "key") return this.reveal();
        // The first click of a double click is also one, and its word stays under the pointer.
        setTimeout(() => {
          if (this.#open === round && (getSelection()?.isCollapsed ?? true)) this.reveal();
        }, doubleClickMs);
      },
    });
    this.#drafting = new Drafting(context.members, context.voices);
    this.#waiting.state = "Reading the question…";
    this.#actions = new AnswerActions({
      text: () => this.text,
      onRegenerate: () => context.onAgain(this, this.question),
      onContinue: () => context.onContinue(this),
      onRounds: () => this.#toggleRounds(),
      onSideBySide: (strongest) =>
        context.onSideBySide(this, strongest ? this.#strongest : undefined),
      onDownload: () => this.#download(),
      onPicture: async () => {
        const { picture } = await import("./picture.ts");
        saveBlob("conclave-answer.png", await picture(this.root));
      },
    });
    this.root = el(
      "article",
      { class: "exchange" },
      this.#line.root,
      this.#thinking,
      this.#answer.root,
      this.#drafting.root,
      this.#legend,
      this.#facts,
      this.#actions.root,
      this.#leaving,
      this.#failure,
      this.#inspectorHost,
      this.#aloneHost,
    );
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || isComposing(event) || this.#open === undefined) return;
      event.stopPropagation(); // It would also stop an answer.
      this.close();
    });
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

  /** The open round. */
  get open(): number | undefined {
    return this.#open;
  }

  /** Names of the members that failed. */
  get failed(): string[] {
    return this.#left.map(({ member }) => member);
  }

  get context(): ExchangeContext {
    return this.#context;
  }

  get stop(): string {
    return this.#stop;
  }

  /** The strongest member of those that drafted, by index. */
  get #strongest(): number | undefined {
    return strongest(this.#begin, this.rounds);
  }

  /**
   * Sets whether the members can be asked now. `here`: names of those that are loaded; `taking`: of
   * those that would answer; undefined while they load.
   */
  offer(can: boolean, here: readonly string[], taking: readonly string[] | undefined): void {
    const { members } = this.#context;
    const isHere = (name: string | undefined): boolean => name !== undefined && here.includes(name);
    this.#actions.enable({
      asking: can,
      unable: taking && unable(members, taking),
      alone: members.every(isHere),
      strongest: isHere(members[this.#strongest ?? members.length]),
    });
    this.#line.enabled = can && this.#stop !== "elsewhere";
  }

  /** Opens the question for editing, with a text that was begun earlier. */
  edit(text: string): void {
    this.#line.open(text);
  }

  /** Shows or removes each member's own answer below this one. */
  showSideBySide(view: SideBySide | undefined): void {
    this.#aloneHost.replaceChildren(...(view ? [view.root] : []));
    if (view) view.focus();
    else this.#actions.focusSideBySide();
  }

  get voices(): number[] {
    return this.#context.voices;
  }

  /**
   * Shows the expected time to the answer's first words while they are awaited. `say` passes it to
   * a screen reader.
   */
  foretell(telling: Foretelling, say: (sentence: string) => void): void {
    this.#waiting.foretell(telling, say);
  }

  reading({ member, done, total }: ReadingEvent): void {
    if (done < total) this.#reading.set(member, `${member} ${done} of ${total} tokens`);
    else this.#reading.delete(member);
    if (this.#reading.size > 0)
      this.#waiting.state = `Reading the conversation: ${[...this.#reading.values()].join(", ")}…`;
  }

  /** The answer goes on, by the members at these places. */
  resume(by: readonly number[]): void {
    this.#stop = "";
    this.#earlier = this.rounds.length;
    this.#started = performance.now();
    this.#timed = true;
    this.#firstSegment = undefined;
    this.#failure.replaceChildren();
    this.#actions.hide();
    this.#answer.resume();
    this.#drafting.of(by);
    this.#waiting.state = "Reading the conversation again…";
  }

  begin(event: BeginEvent): void {
    this.#begin = event;
    this.#waiting.state =
      this.#earlier > 0 ? "Drafting the next segment…" : "Drafting the first segment…";
    this.#drafting.begin();
  }

  /** Appends a thought to its member's fold, which is closed at first. */
  thinking({ member, text }: ThinkingEvent): void {
    this.#fold(member).body.append(text);
    this.#waiting.state = `${[...this.#thoughts.keys()].join(", ")} thinking…`;
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
    const { members, voices } = this.#context;
    const who = nameTag(members, voices, members.indexOf(member));
    this.#thinking.append(
      el("details", {}, el("summary", {}, "What ", who, " thought"), fold.body),
    );
    return fold;
  }

  /** Shows that a member failed; the others go on. */
  leave(event: LeftEvent, actions: HTMLElement[]): void {
    this.#left.push(event);
    this.#drafting.leave(this.#context.members.indexOf(event.member));
    this.#leaving.append(
      el(
        "p",
        { role: "status", "data-kind": event.error.kind },
        `${event.member} left in round ${event.round}, the others go on: ${event.error.message}`,
      ),
      el("p", { class: "actions" }, ...actions),
    );
  }

  /** A draft of the member at this place has arrived. */
  draft(member: number, { text, ended }: Pick<DraftEvent, "text" | "ended">): void {
    this.#drafting.draft(member, text, ended);
  }

  /** All drafts have arrived. */
  vote(): void {
    this.#drafting.vote();
  }

  add(round: RoundEvent): void {
    this.#firstSegment ??= performance.now() - this.#started;
    this.rounds.push(round);
    this.#drafting.decide(round);
    this.#answer.show(this.rounds);
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
    this.#answer.showText(text);
    this.#settle();
    this.#facts.textContent = "";
  }

  /** Shows that the answer does not go on by itself. */
  breakOff(stop: "closed" | "crashed" | "elsewhere"): void {
    this.#stop = stop;
    this.#settle();
  }

  /** Shows a round's details below the answer. */
  inspect(number: number, toggle = true): void {
    const round = this.rounds.find((candidate) => candidate.round === number);
    const close = toggle && this.#open === number;
    this.#open = close || !round ? undefined : number;
    this.#answer.mark(this.#open);
    this.#actions.roundsOpen = this.#open !== undefined;
    const settings = this.#begin?.settings;
    if (!round || !settings || close) {
      this.#inspectorHost.replaceChildren();
      return this.#context.onInspect(this);
    }
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
        onClose: () => this.close(),
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

  /** Closes the open round. The focus returns to where it was opened, unless it is elsewhere. */
  close(): void {
    const round = this.#open;
    if (round === undefined) return;
    const focused = document.activeElement;
    const isElsewhere = focused !== document.body && !this.root.contains(focused);
    this.inspect(round);
    if (isElsewhere || (this.#byButton && this.#actions.focusRounds())) return;
    this.#answer.focus(round);
  }

  /** Scrolls the open round into view, clear of the question box. */
  reveal(): void {
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.#inspectorHost.firstElementChild?.scrollIntoView({
      block: "nearest",
      behavior: isCalm ? "instant" : "smooth",
    });
  }

  /** Opens the first round, or closes the open one. */
  #toggleRounds(): void {
    this.#byButton = true;
    this.inspect(this.#open ?? this.rounds[0]?.round ?? 1);
    this.reveal();
  }

  #settle(): void {
    this.#drafting.end();
    this.#showFacts(stops[this.#stop] ?? this.#stop);
    this.#answer.settle("No text was accepted.");
    const { note, members, continued } = this.#context;
    const rounds = this.rounds.length > 0;
    if (note && rounds) this.#leaving.append(note);
    // Another tab's answer is acted on there.
    if (this.#stop === "elsewhere") return this.#actions.hide();
    this.#actions.show({
      text: this.text !== "",
      rounds,
      compared: rounds && members.length > 1,
      strongest: members[this.#strongest ?? members.length],
      unfinished: unfinished.has(this.#stop) && (rounds || isBrokenOff(this.#stop)),
      // A replay has one beginning.
      replayable: rounds && this.#earlier === 0 && continued !== true,
    });
  }

  #showLegend(): void {
    this.#legend.replaceChildren(
      ...creditLine(this.#context.members, this.#context.voices, this.rounds),
    );
  }

  #showFacts(state: string): void {
    this.#waiting.end();
    const tokens = this.rounds
      .slice(this.#earlier)
      .reduce((sum, round) => sum + (round.candidates[round.winner]?.tokens ?? 0), 0);
    const parts = [state, plural(this.rounds.length, "round")];
    if (this.#firstSegment !== undefined && this.#timed) {
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
}

/**
 * Text on why members that take part can't go on with an answer of `writers`; undefined if they
 * can. Toys finish no answer of real models, nor these one of toys.
 */
function unable(writers: readonly string[], taking: readonly string[]): string | undefined {
  if (taking.length === 0) return "No member is ready to go on with it.";
  if (writers.length === 0 || hasToys(taking) === hasToys(writers)) return undefined;
  return hasToys(writers)
    ? "Toys wrote this, and real models can't go on with it."
    : "Real models wrote this, and toys can't go on with it.";
}

/**
 * The messages of exchanges, as they were sent. Questions without an answer are left out: roles
 * must alternate.
 */
export function conversationOf(exchanges: readonly Exchange[]): Message[] {
  return exchanges
    .filter((exchange) => exchange.text !== "")
    .flatMap((exchange) => [
      { role: "user", content: exchange.context.messages.at(-1)?.content ?? exchange.question },
      { role: "assistant", content: exchange.text },
    ]);
}
