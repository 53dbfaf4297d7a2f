/** The page: opens the engine, loads the members, asks, and shows the events. */
import type { BackendChoice } from "../protocol/backend.ts";
import {
  Conclave,
  defaultContextTokens,
  typed,
  type ConclaveError,
  type Port,
} from "../library/conclave.ts";
import { readFragment, type Linked } from "../kept/link.ts";
import { markStorage, Risks } from "../kept/risks.ts";
import { endsHiddenTabs, livingTabs, tabName, watchView } from "../kept/this-tab.ts";
import * as address from "./address.ts";
import { Advice } from "./advice.ts";
import { Answers } from "./answers.ts";
import { Choosing } from "./choosing.ts";
import { Composer } from "./composer.ts";
import { ConversationsDialog } from "./conversations-dialog.ts";
import { byId } from "./dom.ts";
import { takeDrops } from "./drop.ts";
import { tellReopened, tellSoftware, tellStartedAgain, tellTabCost } from "./engine-notices.ts";
import { showEndings } from "./endings.ts";
import { ensembleKey, type KeyedMember } from "./ensemble-key.ts";
import { percent } from "./figures.ts";
import type { FirstWords } from "./first-words.ts";
import { keptHandles } from "./file-handles.ts";
import { isComposing } from "./input-method.ts";
import { tellAside, tellBegun, tellDeleted } from "./page-notices.ts";
import { engineText, memoryTogether } from "./member-facts.ts";
import { Masthead } from "./masthead.ts";
import { MembersPanel, type Slot } from "./members-panel.ts";
import { Notices, type Action } from "./notices.ts";
import { hasOpenCore, keepOffline, keepUsed } from "./offline-copy.ts";
import { hasOtherTab } from "./other-tabs.ts";
import { Remedies } from "./remedies.ts";
import { OwnSettings } from "./own-settings.ts";
import { isOfModel } from "./picked.ts";
import { drafts, Roster } from "./roster.ts";
import { Session } from "./session.ts";
import { SettingsForm } from "./settings-form.ts";
import { linkTo, offerMembers } from "./shared-link.ts";
import { openSharing } from "./sharing.ts";
import { showRecorded } from "./showing.ts";
import { toysNote } from "./toy-skills.ts";
import { WeightsChart } from "./weights-chart.ts";

/**
 * Bytes that the open core adds to a visit, gzipped as every host sends it; set by
 * scripts/build.mjs, undefined if it was not built.
 */
declare const OPEN_CORE_BYTES: number | undefined;
/** Distinguishes messages of different builds. */
declare const PAGE_VERSION: string;

class Page {
  readonly #notices = new Notices(byId("notices", HTMLElement), () => this.#composer.focus());
  readonly #askButton = byId("ask", HTMLButtonElement);
  readonly #stopButton = byId("stop", HTMLButtonElement);
  readonly #newButton = byId("new", HTMLButtonElement);
  readonly #engineLine = byId("engine", HTMLElement);
  readonly #advice: Advice;
  readonly #session: Session;
  readonly #answers: Answers;
  readonly #conversations: ConversationsDialog;
  #firstWords: FirstWords | undefined;
  readonly #composer = new Composer({
    session: () => this.#session,
    answers: () => this.#answers,
    roster: () => this.#roster,
    notices: this.#notices,
    firstWords: () => this.#firstWords,
    library: () => this.#conclave,
    canAsk: () => !this.#askButton.disabled,
    settings: () => this.#settings.read(),
    thinking: () => this.#settings.thinking,
    instructions: () => this.#own.instructions,
    onAnswer: () => (this.#moved = false),
    onState: () => this.#refresh(),
  });
  readonly #risks = new Risks(markStorage(), tabName);
  readonly #members: MembersPanel;
  readonly #roster: Roster;
  readonly #choosing: Choosing;
  readonly #settings: SettingsForm;
  readonly #own = new OwnSettings();
  #choice: BackendChoice = address.backend;
  /** Whether WebGPU has, or may have, an adapter here. */
  #hasGpu = "gpu" in navigator;
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
  /** Progress of the load, from 0 to 1. */
  #share = 0;
  readonly #masthead = new Masthead((question) => this.#composer.askExample(question));

  constructor() {
    this.#advice = new Advice(byId("advice", HTMLElement), {
      canGo: (name) =>
        this.#slot(name)?.takesPart === true &&
        this.#roster.taking.some((slot) => slot.source.name !== name && drafts(slot)),
      onTakesPart: (name, takesPart) => {
        const slot = this.#slot(name);
        if (!slot) return;
        slot.takesPart = takesPart;
        this.#members.show(slot);
        this.#keepAside();
        this.#refresh();
      },
    });
    const news = byId("news", HTMLElement);
    this.#members = new MembersPanel(byId("members", HTMLElement), {
      onRetry: (slot) => void this.#roster.retry(slot),
      onStop: (slot) => this.#roster.stop(slot),
      onRemove: (slot) => {
        this.#remove(slot);
        byId("models", HTMLElement).focus(); // Its own button is gone.
      },
      onRename: (slot, name) => {
        void this.#roster.rename(slot, name);
        this.#keepAside();
      },
      onTakesPart: (slot) => {
        if (slot.takesPart) this.#roster.keep(slot);
        this.#keepAside();
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
          if (this.#roster.slots.some(({ about }) => about?.core === "burn"))
            void keepUsed("open-core", "grammar");
        },
        onAside: (names) => {
          this.#keepAside();
          tellAside(this.#notices, names);
        },
        onBare: () => void this.#choosing.bringToys(true),
        onShare: (share) => {
          this.#share = share;
          this.#showWhyNot();
        },
        onFatal: (error, loading) => void this.#failed(error, loading),
      },
      defaultContextTokens,
      {
        core: address.core,
        risks: this.#risks,
        room: (members) => this.#choosing.roomOf(members),
      },
    );
    this.#choosing = new Choosing({
      roster: this.#roster,
      notices: this.#notices,
      library: () => this.#conclave,
      starting: () => this.#starting,
      hub: address.hub,
      handles: keptHandles(() => this.#session.keeper),
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
      const [only] = picked;
      if (picked.length === 1 && only && !isOfModel(only.file))
        void this.#composer.attach(only.file);
      else this.#choosing.addPicked(picked);
    });
    this.#session = new Session(byId("transcript", HTMLElement), {
      onReplacing: () => {
        this.#answers.stop();
        this.#notices.clear("replaced");
      },
      onLeave: () => this.#composer.clear(), // The question in it stays with its conversation.
      onTakenOut: (count, bringBack) => this.#composer.offerBack(count, bringBack),
      onDeleted: (deleted) =>
        tellDeleted(this.#notices, deleted, this.#session.keeper.nothing, () =>
          this.#newConversation(),
        ),
      onShown: () => this.#showSession(),
      onDraft: (draft) => {
        if (this.#composer.text === "") this.#composer.show(draft);
      },
      onContinue: (exchange) => void this.#composer.goOn(exchange),
      onAgain: (exchange, question, onAsked) =>
        void this.#composer.askAgain(exchange, question, onAsked),
      noteOn: (turn) => toysNote(turn, () => void this.#choosing.dialog.open()),
      onChange: () => void this.#conversations.refresh(),
      onFailure: (message) => this.#notices.show("kept", "warning", message),
      onInspect: (exchange) => this.#answers.chartOf(exchange),
      onSideBySide: (exchange, only) =>
        void this.#answers.sideBySide(this.#conclave, exchange, only),
    });
    const remedies = new Remedies({
      reloads: () => this.#reloadActions(),
      onRemove: (slot, stopping) => {
        // It may have been removed already by its card.
        if (this.#roster.slots.includes(slot)) this.#remove(slot, stopping);
      },
      onAgain: (exchange) => this.#composer.restore(exchange),
      onNew: () => this.#newConversation(),
    });
    this.#answers = new Answers({
      session: this.#session,
      roster: this.#roster,
      members: this.#members,
      chart: new WeightsChart(byId("weights", HTMLElement), (round) =>
        this.#answers.inspect(round),
      ),
      advice: this.#advice,
      remedies,
      firstWords: () => this.#firstWords,
      onNews: (text) => void (news.textContent = text),
      onState: () => this.#refresh(),
      onReopened: (conclave) => this.#showReopened(conclave),
      onFatal: (message) => this.#notices.show("engine", "error", message, this.#reloadActions()),
    });
    this.#conversations = new ConversationsDialog({
      session: () => this.#session,
      onDeleteAll: () => this.#forget(),
      onNothing: (nothing) => (this.#session.keeper.nothing = nothing),
      link: () =>
        linkTo(
          this.#composer.text.trim() || (this.#session.exchanges.at(-1)?.question ?? ""),
          this.#roster,
        ),
    });
    byId("conversations", HTMLElement).addEventListener(
      "click",
      () => void this.#conversations.open(),
    );
    byId("own-settings", HTMLElement).append(this.#own.root);
    this.#settings = new SettingsForm(
      byId("settings", HTMLFormElement),
      this.#choice,
      (choice) => void this.#reopen(choice),
    );
    byId("settings", HTMLFormElement).addEventListener(
      "change",
      () => void this.#session.keeper.setValue("settings", this.#settings.values),
    );
    watchView((view) => void (this.#risks.view = view));
    addEventListener("hashchange", () => this.#openLink(readFragment(location.hash)));
    this.#stopButton.addEventListener("click", ({ detail }) => {
      // It takes the place of “Ask”, so that the second click of a double click comes here.
      if (detail !== 2) this.#answers.stop();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || isComposing(event)) return;
      // Escape closes an open dialog instead.
      if (!document.querySelector("dialog[open]")) this.#answers.escape();
    });
    this.#newButton.addEventListener("click", () => this.#newConversation());
    if (address.debug) Object.defineProperty(window, "conclave", { get: () => this.#conclave });
  }

  async start(): Promise<void> {
    void showRecorded(byId("showing", HTMLElement));
    void this.#loadFirstWords().catch(() => undefined); // Nothing depends on it.
    this.#furnishing = Promise.all([hasOpenCore(), this.#furnish()]).then(([has]) => {
      this.#furnished = true;
      if (!has) this.#members.openCore = OPEN_CORE_BYTES;
    });
    // The tab that came later tells what both cost.
    const cameLater = hasOtherTab();
    // Opening the engine takes longest; it only waits to know whether another tab has it.
    const opened = this.#open();
    const link = readFragment(location.hash);
    if (link) this.#openLink(link);
    else
      void Promise.all([this.#session.open(), opened]).then(() =>
        this.#composer.goOnAfterReload(this.#risks.onlyOnce),
      );
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
    if (await cameLater) await this.#showTabCost();
  }

  /** Loads the forecast of first words: a script of its own, since no first visit waits for it. */
  async #loadFirstWords(): Promise<void> {
    const { keeper } = this.#session;
    const { FirstWords } = await import("./first-words.ts");
    const firstWords = new FirstWords((paces) => void keeper.setValue("paces", paces));
    firstWords.restore(await keeper.value("paces"));
    this.#firstWords = firstWords;
    this.#composer.foretell();
  }

  /** Makes the last visit's members ready, without those that ended a tab. */
  async #furnish(): Promise<void> {
    const endings = this.#risks.collect(await livingTabs(), Date.now(), !endsHiddenTabs());
    const [aside] = await Promise.all([
      this.#session.keeper.value("members aside"),
      this.#choosing.furnish(),
    ]);
    this.#roster.setAside(aside);
    showEndings(endings, this.#places);
  }

  /** Shows what another tab costs, unless both share an engine. */
  async #showTabCost(): Promise<void> {
    if ((await hasOtherTab()) && !this.#sharing?.shared) tellTabCost(this.#notices);
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
      if (this.#choice === "auto" && conclave.backend === "cpu") this.#hasGpu = false;
      if (this.#settings.setRules(conclave.rules, conclave.ranges))
        this.#settings.restore(await this.#session.keeper.value("settings"));
      this.#showEngine(conclave);
      await seated;
    } catch (error) {
      if (generation !== this.#generation) return;
      this.#starting?.close();
      this.#roster.detach();
      if (typed(error).kind === "NoGpu") this.#hasGpu = false;
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
    void this.#startOver(true).then(() => this.#showTabCost());
  }

  /** Lets other tabs find the engine by its members, once all are loaded. */
  async #offer(): Promise<void> {
    await Promise.resolve(); // Others may leave together with one that has left.
    if (this.#furnished && this.#roster.slots.every(({ state }) => state === "ready"))
      await this.#sharing?.offer(this.#key());
  }

  /**
   * Handles the end of the tab that ran the engine. An answer under way continues by itself in
   * another engine.
   */
  #lost(fail: () => void): void {
    if (this.#answers.state === "idle") return void this.#startOver();
    this.#moved = true;
    fail();
  }

  /**
   * Handles a failure of the engine. An engine that stopped while it loaded a member is started
   * again without that member. An answer under way starts it again by itself.
   */
  async #failed(error: ConclaveError, loading?: Slot): Promise<void> {
    if (error.kind !== "Engine" || !loading)
      return this.#notices.show("engine", "error", error.message, this.#reloadActions());
    if (this.#answers.state !== "idle") return;
    await this.#startOver();
    if (this.#conclave) tellStartedAgain(this.#notices, loading.source.name);
  }

  /** Closes the engine and opens another. */
  async #startOver(alone = false): Promise<void> {
    this.#answers.stop();
    this.#notices.clear("engine");
    this.#starting?.close();
    this.#conclave = undefined;
    this.#roster.detach();
    await this.#open(alone);
  }

  #showEngine(conclave: Conclave): void {
    this.#notices.clear("engine");
    this.#engineLine.dataset["state"] = conclave.backend;
    this.#showWhere(conclave);
    void this.#choosing.dialog.refresh();
    tellSoftware(this.#notices, conclave, () => void this.#reopen("cpu"));
  }

  /** Shows that the engine failed and was replaced. */
  #showReopened(conclave: Conclave): void {
    this.#showEngine(conclave);
    tellReopened(this.#notices, this.#moved);
  }

  /** Shows what runs the members; on the CPU the number of threads may change. */
  #showWhere(conclave: Conclave): void {
    const text = engineText(conclave, this.#sharing?.elsewhere ?? false);
    if (this.#engineLine.textContent !== text) this.#engineLine.textContent = text;
  }

  async #reopen(choice: BackendChoice): Promise<void> {
    this.#answers.stop();
    this.#choice = choice;
    this.#settings.setBackend(choice);
    address.setBackend(choice);
    await this.#startOver();
  }

  #reloadActions(): Action[] {
    const gpu = { label: "Reload on the GPU", run: () => void this.#reopen("webgpu") };
    const cpu = { label: "Reload on the CPU", run: () => void this.#reopen("cpu") };
    return this.#hasGpu ? [gpu, cpu] : [cpu];
  }

  /** The member of this name, if present. */
  #slot(name: string): Slot | undefined {
    return this.#roster.slots.find(({ source }) => source.name === name);
  }

  /** Removes a member, and stops an answer that it still takes part in. */
  #remove(slot: Slot, stopping = true): void {
    if (stopping) this.#answers.stop();
    void this.#roster.remove(slot);
    byId("news", HTMLElement).textContent = `${slot.source.name} was removed.`;
  }

  #keepAside(): void {
    void this.#session.keeper.setValue("members aside", this.#roster.aside);
  }

  /** Deletes what is kept besides conversations; returns whether no copy of files is left. */
  async #forget(): Promise<boolean> {
    this.#own.forget();
    this.#firstWords?.forget();
    this.#risks.forget();
    return this.#choosing.forget();
  }

  /** Puts a link's question into the box; nothing is asked or fetched. */
  #openLink(link: Linked | undefined): void {
    if (!link) return;
    history.replaceState(null, "", location.pathname + location.search);
    const { id, exchanges } = this.#session;
    const begun = !this.#composer.isEmpty && this.#composer.text !== link.question;
    if (begun || exchanges.length > 0) this.#session.begin();
    this.#composer.text = link.question;
    this.#composer.saveDraft();
    if (begun) tellBegun(this.#notices, () => void this.#session.show(id));
    offerMembers(link, this.#places);
  }

  /** Parts of the page on which notices about members act. */
  get #places(): { roster: Roster; choosing: Choosing; notices: Notices } {
    return { roster: this.#roster, choosing: this.#choosing, notices: this.#notices };
  }

  /** One without a question yet is new already, and keeps a half-typed one. */
  #newConversation(): void {
    if (this.#session.exchanges.length > 0) this.#session.begin();
    this.#composer.focus();
  }

  /** Another conversation is on the page, or other exchanges of it. */
  #showSession(): void {
    this.#answers.changed();
    document.body.classList.toggle("asked", this.#session.exchanges.length > 0);
    this.#refresh();
  }

  /** Updates the controls to the present state. */
  #refresh(): void {
    const answering = this.#answers.state !== "idle";
    const stopping = this.#answers.state === "stopping";
    // The two buttons replace each other, and the focus follows.
    const focused = document.activeElement;
    const { loading, replacing, taking } = this.#roster;
    const ready = this.#conclave !== undefined && !loading && taking.length > 0;
    const preparing = this.#composer.preparing !== undefined;
    this.#askButton.disabled = answering || preparing || !ready;
    this.#askButton.hidden = answering;
    this.#stopButton.hidden = !answering;
    this.#stopButton.textContent = stopping ? "Stopping" : "Stop";
    if (answering && focused === this.#askButton) this.#stopButton.focus();
    if (!answering && focused === this.#stopButton) this.#composer.focus();
    const here = namesOf(this.#roster.slots.filter(({ state }) => state === "ready"));
    // Undefined while some are still to come.
    const names = loading || replacing || !this.#conclave ? undefined : namesOf(taking);
    for (const exchange of this.#session.exchanges)
      exchange.offer(ready && !answering && !preparing, here, names);
    this.#newButton.hidden = this.#session.exchanges.length === 0;
    document.body.dataset["state"] =
      answering || preparing ? "answering" : ready ? "ready" : "loading";
    byId("why-not", HTMLElement).hidden = answering || (ready && !preparing);
    this.#showWhyNot();
    this.#composer.foretell();
    this.#masthead.show(this.#roster);
    this.#answers.heed();
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
        : (this.#composer.preparing ??
          (loading
            ? `The members are loading: ${percent(this.#share)}.`
            : "No member takes part: tick one, or add one."));
  }
}

const namesOf = (slots: Slot[]): string[] => slots.map(({ source }) => source.name);

void new Page().start();
