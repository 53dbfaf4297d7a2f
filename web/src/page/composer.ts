/**
 * The question box with its file, and what is asked from it or from an exchange: a question, the
 * same or an edited one again, and more of an answer.
 */
import type { Draft } from "../kept/database.ts";
import { messagesOf, type Attachment } from "../kept/records.ts";
import type { Conclave } from "../library/conclave.ts";
import { forAnswer, type Thinking } from "../protocol/engine.ts";
import { askedOf, beyond, type Answering, type Answers } from "./answers.ts";
import { Attachments, fitted } from "./attachments.ts";
import { byId } from "./dom.ts";
import { conversationOf, type Exchange } from "./exchange.ts";
import { plural } from "./figures.ts";
import type { FirstWords } from "./first-words.ts";
import { isComposing } from "./input-method.ts";
import type { Notices } from "./notices.ts";
import { QuestionBox } from "./question-box.ts";
import type { Roster } from "./roster.ts";
import type { Session } from "./session.ts";
import type { ChosenSettings } from "./settings-form.ts";

interface ComposerContext {
  session: () => Session;
  answers: () => Answers;
  roster: () => Roster;
  notices: Notices;
  /** Forecast of the time to first words; undefined until it is loaded. */
  firstWords: () => FirstWords | undefined;
  /** Once it is open. */
  library: () => Conclave | undefined;
  canAsk: () => boolean;
  /** Undefined if they are invalid, which is shown. */
  settings: () => ChosenSettings | undefined;
  /** Whether members may think first, as the settings say now. */
  thinking: () => Thinking;
  /** System prompt of all members, if any. */
  instructions: () => string | undefined;
  /** An answer begins. */
  onAnswer: () => void;
  /** `preparing` has changed. */
  onState: () => void;
}

/** A pause in typing, after which the time to the first words is foretold anew. */
const pauseMs = 400;

export class Composer {
  readonly #context: ComposerContext;
  readonly #box = new QuestionBox(byId("question", HTMLTextAreaElement));
  readonly #attachments = new Attachments({
    onChange: () => this.#changed(),
    onReading: () => this.#context.onState(),
    onComplaint: (text) => this.#complain(text),
  });
  #cutting = false;
  readonly #foretold = byId("foretold", HTMLElement);
  #pause: ReturnType<typeof setTimeout> | undefined;

  constructor(context: ComposerContext) {
    this.#context = context;
    this.#box.onInput(() => this.#changed());
    byId("composer", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.ask();
    });
    this.#box.onKey((event) => {
      if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
      event.preventDefault();
      void this.ask();
    });
  }

  /** Step that an attached file needs before it can be asked about, if any. */
  get preparing(): string | undefined {
    if (this.#attachments.reading) return "Reading the file…";
    return this.#cutting ? "Cutting the file to the room there is…" : undefined;
  }

  /** Whether neither a question nor a file is in the box. */
  get isEmpty(): boolean {
    return this.text.trim() === "" && !this.#attachments.attached;
  }

  get text(): string {
    return this.#box.text;
  }

  set text(text: string) {
    this.#box.text = text;
  }

  focus(): void {
    this.#box.focus();
  }

  attach(file: File): Promise<void> {
    return this.#attachments.attach(file);
  }

  /** Shows a question, and its file, in place of those in the box. */
  show({ text, attached }: Draft): void {
    this.#box.text = text;
    this.#attachments.show(attached);
  }

  clear(): void {
    this.show({ text: "" });
  }

  saveDraft(): void {
    const { attached } = this.#attachments;
    this.#context.session().saveDraft({ text: this.text, attached });
  }

  #changed(): void {
    this.saveDraft();
    this.foretell();
  }

  /** Shows the time to the first words of the question in the box, if it is long and known. */
  foretell(): void {
    clearTimeout(this.#pause);
    if (!this.#context.canAsk()) this.#foretold.textContent = "";
    this.#pause = setTimeout(() => void this.#foretell(), pauseMs);
  }

  async #foretell(): Promise<void> {
    const pause = this.#pause;
    const sentence = await this.#timeToWords();
    if (pause === this.#pause) this.#foretold.textContent = sentence ?? "";
  }

  async #timeToWords(): Promise<string | undefined> {
    const { library, canAsk, firstWords, instructions, roster, session, thinking } = this.#context;
    const conclave = library();
    const { attached } = this.#attachments;
    const question = this.text.trim();
    if (!conclave || !canAsk() || (question === "" && !attached)) return undefined;
    const asked = { question, attached, instructions: instructions() };
    return firstWords()?.before(conclave, {
      messages: messagesOf(asked, conversationOf(session().exchanges)),
      members: roster().taking,
      thinking: thinking(),
      cut: attached && 1 - forAnswer,
    });
  }

  /** Restores a question, unless another was begun. */
  restore(exchange: Exchange): void {
    const attached = this.#context.session().attachedTo(exchange);
    if (this.text === "") {
      this.show({ text: exchange.question, attached });
      this.saveDraft();
    }
    this.focus();
  }

  /** Asks an example; a question in the box stays. Until one can be asked, an empty box takes it. */
  askExample(question: string): void {
    if (this.#context.canAsk()) void this.#ask({ question });
    else if (this.isEmpty) this.text = question;
    this.focus();
  }

  /**
   * Asks this question in place of an exchange and all later ones, which can be brought back; with
   * the file of the former question.
   */
  async askAgain(instead: Exchange, question: string, onAsked?: () => void): Promise<void> {
    const attached = this.#context.session().attachedTo(instead);
    await this.#ask({ question, attached, instead }, onAsked);
  }

  /** Asks what is in the box. */
  async ask(): Promise<void> {
    const { library, canAsk } = this.#context;
    if (!library() || !canAsk()) return;
    const question = this.text.trim();
    const { attached } = this.#attachments;
    if (question === "") {
      if (attached) this.#complain(`Type a question about ${attached.name} first.`);
      return this.focus();
    }
    // More may be typed, and another file attached, while the file is cut.
    await this.#ask({ question, attached }, () => {
      if (this.text.trim() === question) this.#box.text = "";
      this.#attachments.sent(attached);
    });
  }

  /** `onAsked`: the question has become an exchange. */
  async #ask(
    asked: { question: string; attached?: Attachment | undefined; instead?: Exchange },
    onAsked?: () => void,
  ): Promise<void> {
    const { answers, library, canAsk, settings, notices, roster } = this.#context;
    const { question, instead } = asked;
    let { attached } = asked;
    const conclave = library();
    const session = this.#context.session();
    const { id } = session;
    if (!conclave || !canAsk()) return;
    const chosen = settings();
    if (!chosen) return;
    const slots = roster().taking;
    const by = askedOf(slots);
    const instructions = this.#context.instructions();
    this.#complain(undefined);
    if (attached) {
      this.#cut(true);
      try {
        attached = await fitted(conclave, { question, attached, instructions }, by.members);
      } catch (error) {
        return this.#complain(error instanceof Error ? error.message : String(error));
      } finally {
        this.#cut(false);
      }
      // Another conversation may have been opened meanwhile, or the engine may be another.
      const isAsKnown = session.id === id && library() === conclave;
      if (!isAsKnown || answers().state !== "idle") return;
    }
    if (instead && !session.exchanges.includes(instead)) return;
    notices.clear("replaced");
    if (instead) session.takeOut(instead);
    else void session.forgetTaken();
    const { backend, adapter } = conclave;
    const exchange = session.ask({ ...by, question, attached, instructions, backend, adapter });
    document.body.classList.add("asked");
    exchange.root.scrollIntoView({ block: "nearest" });
    onAsked?.();
    this.saveDraft();
    await this.#answer(conclave, exchange, { slots, ...chosen });
  }

  /** Tells that answers were taken out of the conversation, and offers the way back. */
  offerBack(count: number, bringBack: () => void): void {
    const text =
      count === 1
        ? "The earlier answer was taken out of the conversation."
        : `The earlier answer and ${plural(count - 1, "answer")} after it ` +
          "were taken out of the conversation.";
    this.#context.notices.show("replaced", "hint", text, [{ label: "Bring back", run: bringBack }]);
  }

  /** Continues an answer under its own settings, within the limits that are set now. */
  async goOn(exchange: Exchange): Promise<void> {
    const chosen = this.#context.settings();
    if (chosen) await this.#goOn(exchange, chosen);
  }

  /**
   * Continues an answer that a reload broke off, if the same members are there; `died`: also one
   * that died with its tab.
   */
  async goOnAfterReload(died: boolean): Promise<void> {
    const roster = this.#context.roster();
    const exchange = this.#context.session().brokenOff;
    const names = new Set(roster.taking.map(({ source }) => source.name));
    if (!exchange || roster.heldBack || names.size === 0) return;
    if (exchange.stop === "crashed" && !died) return;
    const { members } = exchange.context;
    if (members.length !== names.size || !members.every((name) => names.has(name))) return;
    const chosen = exchange.begun ?? this.#context.settings();
    if (chosen) await this.#goOn(exchange, chosen, false);
  }

  async #goOn(
    exchange: Exchange,
    { settings: limits, ...chosen }: ChosenSettings,
    pressed = true,
  ): Promise<void> {
    const { library, answers, roster, session } = this.#context;
    if (this.preparing || !(await session().isCurrent(exchange))) return;
    const conclave = library();
    const slots = roster().taking;
    if (answers().state !== "idle" || !conclave || slots.length === 0) return;
    const { sampling, thinking, settings } = exchange.begun ?? { ...chosen, settings: limits };
    const { accepted, places } = session().goOn(exchange, askedOf(slots));
    exchange.resume(places);
    const how = {
      slots,
      settings: beyond(exchange, settings, limits),
      sampling,
      thinking,
      accepted,
    };
    await this.#answer(conclave, exchange, how, pressed);
  }

  async #answer(
    conclave: Conclave,
    exchange: Exchange,
    how: Answering,
    pressed = true,
  ): Promise<void> {
    this.#context.onAnswer();
    const over = this.#context.answers().answer(conclave, exchange, how);
    // The button that was pressed is hidden or gone.
    if (pressed && document.activeElement === document.body) byId("stop", HTMLElement).focus();
    await over;
  }

  #cut(cutting: boolean): void {
    this.#cutting = cutting;
    this.#context.onState();
  }

  #complain(text: string | undefined): void {
    if (text === undefined) this.#context.notices.clear("attached");
    else this.#context.notices.show("attached", "error", text);
  }
}
