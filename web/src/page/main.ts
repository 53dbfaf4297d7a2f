/** The page: opens the engine, seats the members, asks, and shows what comes back. */
import { backendNamed, coreNamed, type BackendChoice } from "../protocol/backend.ts";
import {
  Conclave,
  defaultContextTokens,
  typed,
  isFatal,
  type ConclaveError,
  type Message,
  type Port,
} from "../library/conclave.ts";
import { Advice } from "./advice.ts";
import { Choosing } from "./choosing.ts";
import { button, byId } from "./dom.ts";
import { takeDrops } from "./drop.ts";
import { toysTitle } from "./ensembles-list.ts";
import { ensembleKey, type KeyedMember } from "./ensemble-key.ts";
import { showExamples } from "./examples.ts";
import { Exchange } from "./exchange.ts";
import { percent, plural, sentence } from "./figures.ts";
import { memoryTogether, whereabouts } from "./member-facts.ts";
import { MembersPanel, type Slot } from "./members-panel.ts";
import { hubNamed } from "./named-hub.ts";
import { Notices } from "./notices.ts";
import { hasOpenCore, keepOffline, keepOpenCore } from "./offline-copy.ts";
import { QuestionBox } from "./question-box.ts";
import { hasOtherTab } from "./other-tabs.ts";
import { drafts, Roster } from "./roster.ts";
import { SettingsForm } from "./settings-form.ts";
import { openSharing } from "./sharing.ts";
import { SideBySide } from "./side-by-side.ts";
import { WeightsChart } from "./weights-chart.ts";

/**
 * What the open core adds to a visit, put in by scripts/build.mjs: as gzip, which every host sends;
 * undefined where it was not built.
 */
declare const OPEN_CORE_BYTES: number | undefined;
/** Tells apart what different builds send each other. */
declare const PAGE_VERSION: string;

const query = new URLSearchParams(location.search);
const debug = query.has("debug");
/** The address keeps it, whichever backend the engine is opened on again. */
const core = coreNamed(query.get("core"));
const hub = hubNamed(query);

class Page {
  readonly #notices = new Notices(byId("notices", HTMLElement));
  readonly #transcript = byId("transcript", HTMLElement);
  readonly #question = new QuestionBox(byId("question", HTMLTextAreaElement));
  readonly #askButton = byId("ask", HTMLButtonElement);
  readonly #stopButton = byId("stop", HTMLButtonElement);
  readonly #newButton = byId("new", HTMLButtonElement);
  readonly #engineLine = byId("engine", HTMLElement);
  readonly #chart: WeightsChart;
  readonly #advice: Advice;
  readonly #members: MembersPanel;
  readonly #roster: Roster;
  readonly #choosing: Choosing;
  readonly #settings: SettingsForm;
  #choice: BackendChoice = backendNamed(query.get("backend"));
  #conclave: Conclave | undefined;
  /** The same from its start on, open or not. */
  #starting: Conclave | undefined;
  readonly #sharing = openSharing((fail) => this.#lost(fail));
  /** Until the members of the last visit have their seats. */
  #furnishing = Promise.resolve();
  #furnished = false;
  /**
   * The tab that the engine was in has closed, or come to rest, in the middle of the last answer.
   */
  #moved = false;
  /**
   * Counts engines, so that what an earlier one still reports is not taken for the present one's.
   */
  #generation = 0;
  #exchanges: Exchange[] = [];
  /** Whose weights the chart shows. */
  #charted: Exchange | undefined;
  #answering: AbortController | undefined;
  /** Of what is being loaded, from 0 to 1. */
  #share = 0;
  /** What {@link #showTitle} last said. */
  #titled = "";

  constructor() {
    this.#chart = new WeightsChart(byId("weights", HTMLElement), (round) =>
      this.#charted?.inspect(round, false),
    );
    this.#advice = new Advice(byId("advice", HTMLElement), {
      canGo: (name) =>
        this.#slot(name)?.takesPart === true &&
        this.#roster.taking.some((slot) => slot.source.name !== name && drafts(slot)),
      onTakesPart: (name, takesPart) => {
        const slot = this.#slot(name);
        if (!slot) return;
        slot.takesPart = takesPart;
        this.#members.show(slot);
        this.#refresh();
      },
    });
    const news = byId("news", HTMLElement);
    this.#members = new MembersPanel(byId("members", HTMLElement), {
      onRetry: (slot) => void this.#roster.load(slot),
      onStop: (slot) => this.#roster.stop(slot),
      onRemove: (slot) => {
        this.#remove(slot);
        byId("models", HTMLElement).focus(); // its own button is gone
      },
      onTakesPart: (slot) => {
        if (slot.takesPart) this.#roster.keep(slot);
        this.#refresh();
      },
      onStored: () => void this.#choosing.dialog.open("stored"),
      onNews: (text) => void (news.textContent = text),
    });
    this.#roster = new Roster(
      this.#members,
      {
        onChanging: () => this.#changing(),
        onChange: () => {
          void this.#offer();
          this.#refresh();
          this.#choosing.keep();
          if (this.#roster.slots.some(({ about }) => about?.core === "burn")) void keepOpenCore();
        },
        onBare: () => void this.#choosing.bringToys(true),
        onShare: (share) => {
          this.#share = share;
          this.#showWhyNot();
        },
        onFatal: (error) =>
          this.#notices.show("engine", "error", error.message, this.#reloadActions()),
      },
      defaultContextTokens,
      core,
    );
    this.#choosing = new Choosing({
      roster: this.#roster,
      notices: this.#notices,
      library: () => this.#conclave,
      hub,
      onLeave: () => this.#newConversation(),
    });
    for (const id of ["models", "choose"])
      byId(id, HTMLElement).addEventListener("click", () => void this.#choosing.dialog.open());
    byId("add-model", HTMLElement).addEventListener(
      "click",
      () => void this.#choosing.dialog.open("add"),
    );
    byId("bring-toys", HTMLElement).addEventListener("click", () => {
      void this.#choosing.bringToys(false);
      byId("models", HTMLElement).focus(); // the button goes
    });
    takeDrops((picked) => {
      this.#choosing.dialog.close();
      this.#choosing.addPicked(picked);
    });
    this.#settings = new SettingsForm(
      byId("settings", HTMLFormElement),
      this.#choice,
      (choice) => void this.#reopen(choice),
    );
    byId("composer", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#ask();
    });
    this.#question.onKey((event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      void this.#ask();
    });
    this.#stopButton.addEventListener("click", () => this.#stop());
    document.addEventListener("keydown", (event) => {
      // In the dialog Escape closes it.
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) this.#stop();
    });
    this.#newButton.addEventListener("click", () => this.#newConversation());
    if (debug) {
      Object.defineProperty(window, "conclave", { get: () => this.#conclave });
    }
  }

  async start(): Promise<void> {
    this.#furnishing = Promise.all([hasOpenCore(), this.#choosing.furnish()]).then(([has]) => {
      this.#furnished = true;
      if (!has) this.#members.openCore = OPEN_CORE_BYTES;
    });
    // The engine takes longest, and waits for nothing but a word on whether another tab has it.
    const opened = this.#open();
    // Out of the way of what the visitor waits for first. No later: a large download may outlast
    // the visit.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    await keepOffline({
      onUpdate: (take) =>
        this.#notices.show("update", "hint", "A newer version of this page is here.", [
          { label: "Reload", run: take },
        ]),
    });
    await opened;
    await this.#tellTabs();
  }

  /** Says what another tab costs, unless both have the same engine. */
  async #tellTabs(): Promise<void> {
    if (!(await hasOtherTab()) || this.#sharing?.shared) return;
    this.#notices.show(
      "tabs",
      "hint",
      "This page is open in another tab as well. Each tab holds its models in memory by itself: close one if this machine runs short.",
    );
  }

  /**
   * Opens an engine on the chosen backend and loads every member into it, once there are seats.
   * `alone`: for members that the visitor chooses just now, and this tab's own.
   */
  async #open(alone = false): Promise<void> {
    const generation = ++this.#generation;
    this.#engineLine.textContent = "Starting the engine…";
    this.#engineLine.dataset["state"] = "starting";
    this.#refresh();
    try {
      // Members' files are fetched while the engine opens.
      const conclave = (this.#starting = Conclave.start(
        {
          backend: this.#choice,
          ...(hub === undefined ? {} : { hub }),
          ...(core === undefined ? {} : { core }),
        },
        this.#ports(alone),
      ));
      await this.#furnishing;
      if (!alone) await this.#choosing.settle(conclave);
      if (generation !== this.#generation) return conclave.close();
      const seated = this.#roster.attach(conclave);
      await conclave.ready;
      if (generation !== this.#generation) return conclave.close();
      this.#conclave = conclave;
      this.#settings.setRules(conclave.rules, conclave.ranges);
      this.#showEngine(conclave);
      await seated;
    } catch (error) {
      if (generation !== this.#generation) return;
      this.#starting?.close();
      this.#roster.detach();
      this.#engineLine.textContent = "No engine";
      this.#engineLine.dataset["state"] = "failed";
      this.#notices.show("engine", "error", typed(error).message, this.#reloadActions());
    }
    this.#refresh();
  }

  /** What engines are started by; undefined where tabs can't share one. */
  #ports(alone: boolean): (() => Port) | undefined {
    const sharing = this.#sharing;
    if (!sharing) return undefined;
    let first = true;
    // One in the place of a failed one is looked for among the other tabs as well.
    return () => {
      const own = alone && first;
      first = false;
      return sharing.startPort(own ? undefined : this.#key());
    };
  }

  /**
   * What tabs that share an engine have in common; before members have their seats, as the last
   * visit tells.
   */
  #key(): string | undefined {
    const { slots, contextTokens } = this.#roster;
    const members: KeyedMember[] = this.#furnished
      ? slots.map((slot) => ({
          source: slot.source,
          contextTokens: slot.contextTokens ?? contextTokens,
        }))
      : this.#choosing.expected();
    return ensembleKey(
      [PAGE_VERSION, new URL("./", document.baseURI).pathname, this.#choice, core, hub],
      members,
    );
  }

  /**
   * Before members come or go: an engine that others have as well stays as it is, and this tab
   * opens its own.
   */
  #changing(): void {
    if (!this.#furnished || !this.#sharing) return;
    if (!this.#sharing.shared) return void this.#sharing.offer(undefined);
    void this.#startOver(true).then(() => this.#tellTabs());
  }

  /** Lets other tabs find the engine by its members, once all are there. */
  async #offer(): Promise<void> {
    await Promise.resolve(); // whoever else leaves with one that has left
    if (this.#furnished && this.#roster.slots.every(({ state }) => state === "ready"))
      await this.#sharing?.offer(this.#key());
  }

  /** The tab that the engine was in has closed: an answer goes on by itself in another one. */
  #lost(fail: () => void): void {
    if (!this.#answering) return void this.#startOver();
    this.#moved = true;
    fail();
  }

  /** Lets go of the engine and opens another one. */
  async #startOver(alone = false): Promise<void> {
    this.#stop();
    this.#notices.clear("engine");
    this.#starting?.close();
    this.#conclave = undefined;
    this.#roster.detach();
    await this.#open(alone);
  }

  #showEngine(conclave: Conclave): void {
    const { backend, adapter } = conclave;
    this.#notices.clear("engine");
    this.#engineLine.dataset["state"] = backend;
    this.#showWhere(conclave);
    if (backend === "webgpu" && adapter.software) {
      const text = `${adapter.name} is a software adapter: it emulates a graphics card on the CPU. Answers are right but very slow.`;
      this.#notices.show("software", "warning", text, [
        { label: "Run on the CPU instead", run: () => void this.#reopen("cpu") },
      ]);
    } else {
      this.#notices.clear("software");
    }
  }

  /** The engine failed, and another one goes on. */
  #showReopened(conclave: Conclave): void {
    this.#showEngine(conclave);
    const why = this.#moved
      ? "The tab that the engine was in has closed or come to rest, and it was opened anew."
      : "The engine failed and was opened anew.";
    this.#notices.show(
      "engine",
      "warning",
      `${why} The members read the conversation again, and the answer goes on from where it was.`,
    );
  }

  /** What runs the members; on the CPU they may come to run on more threads, and on fewer. */
  #showWhere({ backend, adapter, why, threads }: Conclave): void {
    const where =
      backend === "webgpu" ? `GPU: ${adapter.name}` : `CPU, ${plural(threads, "thread")}`;
    const text = `${where} (${why})${this.#sharing?.elsewhere ? ", in another tab" : ""}`;
    if (this.#engineLine.textContent !== text) this.#engineLine.textContent = text;
  }

  /** Asks for a stop; the step under way ends first. */
  #stop(): void {
    this.#answering?.abort();
    this.#refresh();
  }

  async #reopen(choice: BackendChoice): Promise<void> {
    this.#stop();
    this.#choice = choice;
    this.#settings.setBackend(choice);
    const address = new URL(location.href);
    if (choice === "auto") address.searchParams.delete("backend");
    else address.searchParams.set("backend", choice);
    history.replaceState(null, "", address);
    await this.#startOver();
  }

  #reloadActions(): { label: string; run: () => void }[] {
    return [
      { label: "Reload on the GPU", run: () => void this.#reopen("webgpu") },
      { label: "Reload on the CPU", run: () => void this.#reopen("cpu") },
    ];
  }

  async #ask(): Promise<void> {
    const conclave = this.#conclave;
    const question = this.#question.text.trim();
    const chosen = this.#settings.read();
    if (!conclave || !chosen || question === "" || this.#askButton.disabled) return;
    const slots = this.#roster.taking;
    const members = slots.map((slot) => slot.source.name);
    const cores = slots.map(
      (slot) => slot.about?.core ?? (slot.source.builtIn ? "built-in" : "remote"),
    ); // they are loaded
    const voices = slots.map((slot) => slot.voice);
    const messages: Message[] = [...this.#history(), { role: "user", content: question }];
    const { backend, adapter } = conclave;
    const exchange = new Exchange({
      question,
      messages,
      members,
      cores,
      voices,
      backend,
      adapter,
      onInspect: (which) => this.#chartOf(which),
      onSideBySide: (which) => void this.#sideBySide(which),
    });
    this.#exchanges.push(exchange);
    this.#transcript.append(exchange.root);
    document.body.classList.add("asked");
    exchange.root.scrollIntoView({ block: "nearest" });
    this.#question.text = "";
    const controller = new AbortController();
    this.#answering = controller;
    this.#roster.busy = true;
    this.#moved = false;
    this.#refresh();
    this.#members.begin(slots);
    this.#advice.clear();
    try {
      for await (const event of conclave.ask(messages, {
        ...chosen,
        members,
        signal: controller.signal,
      })) {
        if (event.type === "reading") exchange.reading(event);
        else if (event.type === "begin") {
          exchange.begin(event);
          this.#members.weigh(slots, event.weights);
        } else if (event.type === "thinking")
          this.#follow(exchange, () => exchange.thinking(event));
        else if (event.type === "thought") exchange.thought(event);
        else if (event.type === "left")
          this.#follow(exchange, () => exchange.leave(event, this.#removal(event.member, slots)));
        else if (event.type === "reopened") this.#showReopened(conclave);
        else if (event.type === "end")
          this.#follow(exchange, () =>
            exchange.end(event, event.stop === "context" ? [this.#roomAgain()] : []),
          );
        else {
          this.#follow(exchange, () => exchange.add(event));
          // A new conversation may have begun while this answer stops.
          if (this.#exchanges.includes(exchange)) this.#members.round(slots, exchange.rounds);
          // From the first round on: a question that fails before leaves the chart of the last
          // answer.
          if (this.#charted === exchange) this.#chart.add(event);
          else if (exchange.rounds.length === 1) this.#chartOf(exchange);
        }
      }
    } catch (thrown) {
      const error = typed(thrown);
      // Switching the engine in mid-answer is a stop as well.
      if (controller.signal.aborted)
        exchange.end({
          type: "end",
          stop: "stopped",
          text: exchange.text,
          usage: { promptTokens: 0, answerTokens: 0 },
          ms: 0,
        });
      else
        this.#follow(exchange, () => exchange.fail(error, this.#remedies(error, exchange, slots)));
    } finally {
      this.#answering = undefined;
      this.#roster.busy = false;
      this.#advise(exchange);
      this.#refresh();
    }
  }

  /** Says who has decided much against the others, now that there is another answer. */
  #advise(exchange: Exchange): void {
    // Of a conversation that was left nothing is to be said.
    if (!this.#exchanges.includes(exchange)) return;
    const inView = isInView(exchange.root);
    this.#advice.consider(
      this.#exchanges.flatMap(({ begun, rounds }) =>
        begun ? [{ members: begun.members, start: begun.weights, rounds }] : [],
      ),
    );
    if (inView) byId("advice", HTMLElement).scrollIntoView({ block: "nearest" });
  }

  /** The member of this name, where there is one. */
  #slot(name: string): Slot | undefined {
    return this.#roster.slots.find(({ source }) => source.name === name);
  }

  /**
   * Lets the members of an answer answer its question alone, one by one. The conversation knows
   * nothing of it.
   */
  async #sideBySide(exchange: Exchange): Promise<void> {
    const conclave = this.#conclave;
    if (!conclave || this.#answering) return;
    const controller = new AbortController();
    const view = new SideBySide(exchange, () => exchange.showSideBySide(undefined));
    exchange.showSideBySide(view);
    this.#answering = controller;
    this.#roster.busy = true;
    this.#refresh();
    try {
      const fatal = await view.run(conclave, controller.signal);
      if (fatal) this.#notices.show("engine", "error", fatal.message, this.#reloadActions());
    } finally {
      this.#answering = undefined;
      this.#roster.busy = false;
      this.#refresh();
    }
  }

  /**
   * Changes an exchange; whoever had its end in view has it in view afterwards, above the question
   * box.
   */
  #follow({ root }: Exchange, change: () => void): void {
    const inView = isInView(root);
    change();
    if (inView) root.scrollIntoView({ block: "nearest" });
  }

  /** Ways on after an error; `slots` are those that were asked. */
  #remedies(error: ConclaveError, { question }: Exchange, slots: Slot[]): HTMLElement[] {
    const remedies: HTMLElement[] = [];
    if (error.kind === "ContextFull") {
      const long = this.#history().length > 0;
      remedies.push(
        long
          ? button("Start a new conversation", () => this.#newConversation(question))
          : button("Shorten the question", () => this.#askAgain(question)),
      );
    }
    remedies.push(...this.#removal(error.member, slots, question));
    if (isFatal(error))
      remedies.push(...this.#reloadActions().map(({ label, run }) => button(label, run)));
    return remedies;
  }

  /** A full context has no room for another question either. */
  #roomAgain(): HTMLElement {
    return button("Start a new conversation", () => this.#newConversation());
  }

  /**
   * Takes a member out that failed; the `question`, if it got no answer, can be asked of the
   * others.
   */
  #removal(name: string | undefined, slots: Slot[], question?: string): HTMLElement[] {
    const failed = slots.find((slot) => slot.source.name === name);
    if (!failed) return [];
    const remove = button(`Remove ${failed.source.name}`, () => {
      remove.remove();
      // It may have gone already, by its card.
      if (this.#roster.slots.includes(failed)) this.#remove(failed, question !== undefined);
      if (question !== undefined) this.#askAgain(question);
    });
    return [remove];
  }

  /**
   * Takes a member out, and stops an answer that it may be part of, unless it has left that
   * already.
   */
  #remove(slot: Slot, stopping = true): void {
    if (stopping) this.#stop();
    void this.#roster.remove(slot);
    byId("news", HTMLElement).textContent = `${slot.source.name} was removed.`;
  }

  /** Puts a question back, unless another was begun. */
  #askAgain(question: string): void {
    if (this.#question.text === "") this.#question.text = question;
    this.#question.focus();
  }

  /** The conversation so far. A question that got no text is left out: turns must alternate. */
  #history(): Message[] {
    return this.#exchanges
      .filter((exchange) => exchange.text !== "")
      .flatMap((exchange) => [
        { role: "user", content: exchange.question },
        { role: "assistant", content: exchange.text },
      ]);
  }

  #chartOf(exchange: Exchange): void {
    if (this.#charted === exchange || !exchange.begun) return;
    this.#charted = exchange;
    this.#chart.begin(exchange.begun.members, exchange.voices, exchange.begun.weights);
    for (const round of exchange.rounds) this.#chart.add(round);
  }

  #newConversation(question = ""): void {
    this.#stop();
    this.#exchanges = [];
    this.#charted = undefined;
    this.#members.rest();
    this.#advice.reset();
    this.#transcript.replaceChildren();
    document.body.classList.remove("asked");
    this.#question.text = question;
    this.#question.focus();
    this.#refresh();
  }

  /** Brings the controls in line with what can be done now. */
  #refresh(): void {
    const answering = this.#answering !== undefined;
    const stopping = this.#answering?.signal.aborted ?? false;
    // The two buttons take each other's place: so does the focus.
    const focused = document.activeElement;
    const { loading, taking } = this.#roster;
    const ready = this.#conclave !== undefined && !loading && taking.length > 0;
    this.#askButton.disabled = answering || !ready;
    this.#askButton.hidden = answering;
    this.#stopButton.hidden = !answering;
    this.#stopButton.textContent = stopping ? "Stopping" : "Stop";
    if (answering && focused === this.#askButton) this.#stopButton.focus();
    if (!answering && focused === this.#stopButton) this.#question.focus();
    for (const exchange of this.#exchanges)
      exchange.offerSideBySide(this.#conclave !== undefined && !answering && !loading);
    this.#newButton.hidden = this.#exchanges.length === 0;
    document.body.dataset["state"] = answering ? "answering" : ready ? "ready" : "loading";
    const why = byId("why-not", HTMLElement);
    why.hidden = answering || ready;
    this.#showWhyNot();
    this.#showTitle();
    this.#showMadeRoom();
    this.#advice.heed((name) => this.#slot(name)?.takesPart);
    if (this.#conclave) this.#showWhere(this.#conclave);
    const memory = byId("memory", HTMLElement);
    memory.textContent = loading
      ? ""
      : memoryTogether(this.#roster.slots, this.#conclave?.heapBytes ?? 0);
  }

  /** Why nothing can be asked now. */
  #showWhyNot(): void {
    const loading = this.#roster.loading || !this.#conclave;
    byId("why-not", HTMLElement).textContent =
      this.#engineLine.dataset["state"] === "failed"
        ? "No engine is running."
        : loading
          ? `The members are loading: ${percent(this.#share)}.`
          : "No member takes part: tick one, or add one.";
  }

  /** Says why the toys are gone, and when they come back. */
  #showMadeRoom(): void {
    const { madeRoom } = this.#roster;
    const text = madeRoom
      ? "The bundled toys have made room. They come back when the last model that you added goes."
      : "";
    const told = byId("made-room", HTMLElement);
    if (told.textContent !== text) told.textContent = text;
    byId("bring-toys", HTMLElement).hidden = !madeRoom;
  }

  /** Says which ensemble is here, and offers what can be asked of it. */
  #showTitle(): void {
    const { title, slots } = this.#roster;
    const names = slots.map((slot) => slot.source.name);
    if (this.#titled === [title, ...names].join("\n")) return;
    this.#titled = [title, ...names].join("\n");
    const toys = title === toysTitle;
    byId("ensemble", HTMLElement).textContent = title;
    byId("about-toys", HTMLElement).hidden = !toys;
    const about = byId("about-models", HTMLElement);
    about.hidden = toys || slots.length === 0;
    about.textContent = `${sentence(names)} ${names.length === 1 ? "answers" : "answer"} ${whereabouts(slots)}.`;
    byId("tagline", HTMLElement).textContent =
      `Several small models, one answer, ${whereabouts(slots, true)}.`;
    byId("choose", HTMLElement).textContent = toys ? "Bring real models" : "Choose other models";
    showExamples(byId("examples", HTMLElement), toys ? "skills" : "general", (question) => {
      this.#question.text = question;
      this.#question.focus();
      if (!this.#askButton.disabled) void this.#ask();
    });
  }
}

const isInView = (element: HTMLElement): boolean =>
  element.getBoundingClientRect().bottom <= innerHeight;

void new Page().start();
