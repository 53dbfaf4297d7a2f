/** The page: opens the engine, loads the members, asks, and shows the events. */
import type { BackendChoice } from "../protocol/backend.ts";
import {
  Conclave,
  defaultContextTokens,
  typed,
  type AskOptions,
  type Message,
  type Port,
} from "../library/conclave.ts";
import * as address from "./address.ts";
import { Advice } from "./advice.ts";
import { Choosing } from "./choosing.ts";
import { byId, isInView } from "./dom.ts";
import { takeDrops } from "./drop.ts";
import { ensembleKey, type KeyedMember } from "./ensemble-key.ts";
import { continuing, conversationOf, Exchange } from "./exchange.ts";
import { percent } from "./figures.ts";
import { toysTitle } from "./ensembles-list.ts";
import { engineText, memoryTogether } from "./member-facts.ts";
import { Masthead } from "./masthead.ts";
import { MembersPanel, type Slot } from "./members-panel.ts";
import { Notices } from "./notices.ts";
import { hasOpenCore, keepOffline, keepOpenCore } from "./offline-copy.ts";
import { OwnSettings } from "./own-settings.ts";
import { QuestionBox } from "./question-box.ts";
import { showTabCost } from "./other-tabs.ts";
import { Remedies } from "./remedies.ts";
import { drafts, Roster } from "./roster.ts";
import { SettingsForm } from "./settings-form.ts";
import { openSharing } from "./sharing.ts";
import { showRecorded } from "./showing.ts";
import { SideBySide } from "./side-by-side.ts";
import { toysNote } from "./toy-skills.ts";
import { Transcript } from "./transcript.ts";
import { WeightsChart } from "./weights-chart.ts";

/**
 * Bytes that the open core adds to a visit, gzipped as every host sends it; set by
 * scripts/build.mjs, undefined if it was not built.
 */
declare const OPEN_CORE_BYTES: number | undefined;
/** Distinguishes messages of different builds. */
declare const PAGE_VERSION: string;

const membersGone = "Not all members of this answer are here. Regenerate it with the present ones.";

class Page {
  readonly #notices = new Notices(byId("notices", HTMLElement));
  readonly #transcript = new Transcript(byId("transcript", HTMLElement), this.#notices);
  readonly #question = new QuestionBox(byId("question", HTMLTextAreaElement));
  readonly #askButton = byId("ask", HTMLButtonElement);
  readonly #stopButton = byId("stop", HTMLButtonElement);
  readonly #newButton = byId("new", HTMLButtonElement);
  readonly #engineLine = byId("engine", HTMLElement);
  readonly #chart: WeightsChart;
  readonly #advice: Advice;
  readonly #remedies = new Remedies({
    isLong: () => conversationOf(this.#transcript.exchanges).length > 0,
    isPresent: (slot) => this.#roster.slots.includes(slot),
    onNew: (question) => this.#newConversation(question),
    onAskAgain: (question) => this.#askAgain(question),
    onRemove: (slot, stopping) => this.#remove(slot, stopping),
    reloads: () => this.#reloadActions(),
  });
  readonly #members: MembersPanel;
  readonly #roster: Roster;
  readonly #choosing: Choosing;
  readonly #settings: SettingsForm;
  readonly #own = new OwnSettings();
  #choice: BackendChoice = address.backend;
  #conclave: Conclave | undefined;
  /** The engine from its start on, open or not. */
  #starting: Conclave | undefined;
  readonly #sharing = openSharing((fail) => this.#lost(fail));
  /** Resolves once the last visit's members have slots. */
  #furnishing = Promise.resolve();
  #furnished = false;
  /** Whether the engine's tab closed, or was frozen, during the last answer. */
  #moved = false;
  /** Counts engines, to ignore late events of earlier ones. */
  #generation = 0;
  /** Exchange whose weights the chart shows. */
  #charted: Exchange | undefined;
  #answering: AbortController | undefined;
  /** Progress of the load, from 0 to 1. */
  #share = 0;
  readonly #masthead = new Masthead((question) => {
    this.#question.text = question;
    this.#question.focus();
    if (!this.#askButton.disabled) void this.#ask();
  });

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
        byId("models", HTMLElement).focus(); // Its own button is gone.
      },
      onRename: (slot, name) => void this.#roster.rename(slot, name),
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
      address.core,
    );
    this.#choosing = new Choosing({
      roster: this.#roster,
      notices: this.#notices,
      library: () => this.#conclave,
      hub: address.hub,
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
      byId("models", HTMLElement).focus(); // The button is removed.
    });
    takeDrops((picked) => {
      this.#choosing.dialog.close();
      this.#choosing.addPicked(picked);
    });
    byId("own-settings", HTMLElement).append(this.#own.root);
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
      // Escape closes an open dialog instead.
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) this.#stop();
    });
    this.#newButton.addEventListener("click", () => this.#newConversation());
    if (address.debug) Object.defineProperty(window, "conclave", { get: () => this.#conclave });
  }

  async start(): Promise<void> {
    void showRecorded(byId("showing", HTMLElement));
    this.#furnishing = Promise.all([hasOpenCore(), this.#choosing.furnish()]).then(([has]) => {
      this.#furnished = true;
      if (!has) this.#members.openCore = OPEN_CORE_BYTES;
    });
    // Opening the engine takes longest; it only waits to know whether another tab has it.
    const opened = this.#open();
    // Deferred in favour of what the visitor waits for; no later, since a large download may
    // outlast the visit.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    await keepOffline({
      onUpdate: (take) =>
        this.#notices.show("update", "hint", "A newer version of this page is here.", [
          { label: "Reload", run: take },
        ]),
    });
    await opened;
    await showTabCost(this.#notices, this.#sharing);
  }

  /**
   * Opens an engine on the chosen backend and loads every member once there are slots. `alone`: not
   * shared, for members that the visitor is just choosing.
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
          ...address.engineOptions,
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

  /** Function that starts engines; undefined if tabs can't share one. */
  #ports(alone: boolean): (() => Port) | undefined {
    const sharing = this.#sharing;
    if (!sharing) return undefined;
    let first = true;
    // The replacement of a failed engine is also looked for in other tabs.
    return () => {
      const own = alone && first;
      first = false;
      return sharing.startPort(own ? undefined : this.#key());
    };
  }

  /** Key of engines that tabs can share; before members have slots, by the last visit's. */
  #key(): string | undefined {
    const { slots, contextTokens } = this.#roster;
    const members: KeyedMember[] = this.#furnished
      ? slots.map((slot) => ({
          source: slot.source,
          contextTokens: slot.contextTokens ?? contextTokens,
        }))
      : this.#choosing.expected();
    return ensembleKey(
      [
        PAGE_VERSION,
        new URL("./", document.baseURI).pathname,
        this.#choice,
        address.core,
        address.hub,
      ],
      members,
    );
  }

  /** Called before members change: a shared engine stays as it is, and this tab opens its own. */
  #changing(): void {
    if (!this.#furnished || !this.#sharing) return;
    if (!this.#sharing.shared) return void this.#sharing.offer(undefined);
    void this.#startOver(true).then(() => showTabCost(this.#notices, this.#sharing));
  }

  /** Lets other tabs find the engine by its members, once all are loaded. */
  async #offer(): Promise<void> {
    await Promise.resolve(); // Others may leave together with one that has left.
    if (this.#furnished && this.#roster.slots.every(({ state }) => state === "ready"))
      await this.#sharing?.offer(this.#key());
  }

  /** The engine's tab has closed: an answer continues by itself in another engine. */
  #lost(fail: () => void): void {
    if (!this.#answering) return void this.#startOver();
    this.#moved = true;
    fail();
  }

  /** Closes the engine and opens another. */
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

  /** Shows that the engine failed and was replaced. */
  #showReopened(conclave: Conclave): void {
    this.#showEngine(conclave);
    const why = this.#moved
      ? "The tab with the engine was closed or frozen, and the engine was reopened."
      : "The engine failed and was reopened.";
    this.#notices.show(
      "engine",
      "warning",
      `${why} The members read the conversation again, and the answer goes on from where it was.`,
    );
  }

  /** Shows what runs the members; on the CPU the number of threads may change. */
  #showWhere(conclave: Conclave): void {
    const text = engineText(conclave, this.#sharing?.elsewhere ?? false);
    if (this.#engineLine.textContent !== text) this.#engineLine.textContent = text;
  }

  /** Requests a stop; the step under way ends first. */
  #stop(): void {
    this.#answering?.abort();
    this.#refresh();
  }

  async #reopen(choice: BackendChoice): Promise<void> {
    this.#stop();
    this.#choice = choice;
    this.#settings.setBackend(choice);
    address.setBackend(choice);
    await this.#startOver();
  }

  #reloadActions(): { label: string; run: () => void }[] {
    return [
      { label: "Reload on the GPU", run: () => void this.#reopen("webgpu") },
      { label: "Reload on the CPU", run: () => void this.#reopen("cpu") },
    ];
  }

  async #ask(asked = this.#question.text.trim()): Promise<void> {
    const conclave = this.#conclave;
    const chosen = this.#settings.read();
    if (!conclave || !chosen || asked === "" || this.#askButton.disabled) return;
    const slots = this.#roster.taking;
    const { instructions } = this.#own;
    const messages: Message[] = [
      ...(instructions === undefined ? [] : [{ role: "system", content: instructions } as const]),
      ...conversationOf(this.#transcript.exchanges),
      { role: "user", content: asked },
    ];
    const exchange = new Exchange({
      question: asked,
      messages,
      members: slots.map((slot) => slot.source.name),
      // Present once they are loaded.
      cores: slots.map((slot) => slot.about?.core ?? (slot.source.builtIn ? "built-in" : "remote")),
      voices: slots.map((slot) => slot.voice),
      backend: conclave.backend,
      adapter: conclave.adapter,
      note:
        this.#roster.title === toysTitle
          ? toysNote(asked, () => void this.#choosing.dialog.open())
          : undefined,
      onInspect: (which) => this.#chartOf(which),
      onSideBySide: (which) => void this.#sideBySide(which),
      onAgain: (which, question) => this.#askInstead(which, question),
      onContinue: (which) => void this.#continue(which),
    });
    document.body.classList.add("asked");
    this.#transcript.add(exchange);
    this.#question.text = "";
    await this.#answer(exchange, slots, chosen);
  }

  /** Asks again in place of an exchange and all later ones, which can be brought back. */
  #askInstead(exchange: Exchange, question: string): void {
    if (this.#askButton.disabled || !this.#settings.read()) return;
    const box = this.#question.text;
    const told = this.#transcript.cut(exchange, (before) => {
      this.#stop();
      this.#transcript.show(before);
      exchange.root.scrollIntoView({ block: "nearest" });
      this.#refresh();
    });
    void this.#ask(question);
    this.#question.text = box;
    told();
  }

  /** Lets the members that wrote an answer go on with it. */
  async #continue(exchange: Exchange): Promise<void> {
    const chosen = this.#settings.read();
    const slots = this.#roster.readyOf(exchange.context.members);
    if (!chosen || this.#askButton.disabled) return;
    if (!slots) return this.#notices.show("gone", "hint", membersGone);
    exchange.resume();
    await this.#answer(exchange, slots, continuing(exchange, chosen));
  }

  /** Follows an answer until it is over. */
  async #answer(exchange: Exchange, slots: Slot[], options: AskOptions): Promise<void> {
    const conclave = this.#conclave;
    if (!conclave) return;
    const { messages, members } = exchange.context;
    const controller = new AbortController();
    this.#answering = controller;
    this.#roster.busy = true;
    this.#moved = false;
    this.#refresh();
    if (document.activeElement === document.body) this.#stopButton.focus();
    this.#members.begin(slots);
    this.#advice.clear();
    try {
      for await (const event of conclave.ask(messages, {
        ...options,
        members,
        drafts: members.length > 1,
        signal: controller.signal,
      })) {
        if (event.type === "begin") this.#members.weigh(slots, event.weights);
        if (exchange.takes(event)) this.#follow(exchange, () => exchange.hear(event));
        else if (event.type === "left")
          this.#follow(exchange, () =>
            exchange.leave(event, this.#remedies.removal(event.member, slots)),
          );
        else if (event.type === "reopened") this.#showReopened(conclave);
        else if (event.type === "end")
          this.#follow(exchange, () => exchange.end(event, this.#remedies.afterEnd(event)));
        else {
          this.#follow(exchange, () => exchange.add(event));
          // A new conversation may have begun while this answer stops.
          if (this.#transcript.exchanges.includes(exchange))
            this.#members.round(slots, exchange.rounds);
          // Updated from the first round on: a question that fails before keeps the last answer's
          // chart.
          if (this.#charted === exchange) this.#chart.add(exchange.rounds.at(-1)!);
          else if (exchange.rounds.length === 1) this.#chartOf(exchange);
        }
      }
    } catch (thrown) {
      const error = typed(thrown);
      // Switching the engine during an answer stops it too.
      if (controller.signal.aborted) exchange.endStopped();
      else
        this.#follow(exchange, () =>
          exchange.fail(error, this.#remedies.afterError(error, exchange.question, slots)),
        );
    } finally {
      this.#answering = undefined;
      this.#roster.busy = false;
      this.#advise(exchange);
      this.#refresh();
    }
  }

  /** Updates the advice after another answer. */
  #advise(exchange: Exchange): void {
    // No advice about an abandoned conversation.
    if (!this.#transcript.exchanges.includes(exchange)) return;
    const inView = isInView(exchange.root);
    this.#advice.consider(this.#transcript.exchanges.flatMap(({ voted }) => voted ?? []));
    if (inView) byId("advice", HTMLElement).scrollIntoView({ block: "nearest" });
  }

  /** The member of this name, if present. */
  #slot(name: string): Slot | undefined {
    return this.#roster.slots.find(({ source }) => source.name === name);
  }

  /** Lets each member of an answer answer its question alone, in turn, outside the conversation. */
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

  /** Changes an exchange; if its end was in view, keeps it in view above the question box. */
  #follow({ root }: Exchange, change: () => void): void {
    const inView = isInView(root);
    change();
    if (inView) root.scrollIntoView({ block: "nearest" });
  }

  /** Removes a member, and stops an answer that it still takes part in. */
  #remove(slot: Slot, stopping = true): void {
    if (stopping) this.#stop();
    void this.#roster.remove(slot);
    byId("news", HTMLElement).textContent = `${slot.source.name} was removed.`;
  }

  /** Restores a question, unless another was begun. */
  #askAgain(question: string): void {
    if (this.#question.text === "") this.#question.text = question;
    this.#question.focus();
  }

  #chartOf(exchange: Exchange): void {
    if (this.#charted === exchange || !exchange.begun) return;
    this.#charted = exchange;
    this.#chart.begin(exchange.begun.members, exchange.voices, exchange.begun.weights);
    for (const round of exchange.rounds) this.#chart.add(round);
  }

  #newConversation(question = ""): void {
    this.#stop();
    this.#transcript.show([]);
    this.#charted = undefined;
    this.#members.rest();
    this.#advice.reset();
    document.body.classList.remove("asked");
    this.#question.text = question;
    this.#question.focus();
    this.#refresh();
  }

  /** Updates the controls to the present state. */
  #refresh(): void {
    const answering = this.#answering !== undefined;
    const stopping = this.#answering?.signal.aborted ?? false;
    const focused = document.activeElement; // The buttons replace each other, it follows.
    const { loading, taking } = this.#roster;
    const ready = this.#conclave !== undefined && !loading && taking.length > 0;
    this.#askButton.disabled = answering || !ready;
    this.#askButton.hidden = answering;
    this.#stopButton.hidden = !answering;
    this.#stopButton.textContent = stopping ? "Stopping" : "Stop";
    if (answering && focused === this.#askButton) this.#stopButton.focus();
    if (!answering && focused === this.#stopButton) this.#question.focus();
    for (const exchange of this.#transcript.exchanges)
      exchange.offer(this.#conclave !== undefined && !answering && !loading);
    this.#newButton.hidden = this.#transcript.exchanges.length === 0;
    document.body.dataset["state"] = answering ? "answering" : ready ? "ready" : "loading";
    byId("why-not", HTMLElement).hidden = answering || ready;
    this.#showWhyNot();
    this.#masthead.show(this.#roster);
    this.#advice.heed((name) => this.#slot(name)?.takesPart);
    if (this.#conclave) this.#showWhere(this.#conclave);
    byId("memory", HTMLElement).textContent = loading
      ? ""
      : memoryTogether(this.#roster.slots, this.#conclave?.heapBytes ?? 0);
  }

  /** Shows why no question can be asked now. */
  #showWhyNot(): void {
    const loading = this.#roster.loading || !this.#conclave;
    byId("why-not", HTMLElement).textContent =
      this.#engineLine.dataset["state"] === "failed"
        ? "No engine is running."
        : loading
          ? `The members are loading: ${percent(this.#share)}.`
          : "No member takes part: tick one, or add one.";
  }
}

void new Page().start();
