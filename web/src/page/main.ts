/** The page: opens the engine, loads the members, asks, and shows what comes back. */
import { backendNamed, type BackendChoice } from "../backend.ts";
import { Conclave, readManifest, sourceOf, typed, isFatal, type ConclaveError, type Message } from "../conclave.ts";
import { button, byId } from "./dom.ts";
import { showExamples } from "./examples.ts";
import { Exchange } from "./exchange.ts";
import { MembersPanel, type Slot } from "./members-panel.ts";
import { Notices } from "./notices.ts";
import { SettingsForm } from "./settings-form.ts";
import { WeightsChart } from "./weights-chart.ts";

const mostMembers = 8;

class Page {
  readonly #notices = new Notices(byId("notices", HTMLElement));
  readonly #transcript = byId("transcript", HTMLElement);
  readonly #question = byId("question", HTMLTextAreaElement);
  readonly #askButton = byId("ask", HTMLButtonElement);
  readonly #stopButton = byId("stop", HTMLButtonElement);
  readonly #newButton = byId("new", HTMLButtonElement);
  readonly #engineLine = byId("engine", HTMLElement);
  readonly #chart: WeightsChart;
  readonly #members: MembersPanel;
  readonly #settings: SettingsForm;
  readonly #slots: Slot[] = [];
  #choice: BackendChoice = backendNamed(new URLSearchParams(location.search).get("backend"));
  #conclave: Conclave | undefined;
  /** Counts engines, so that what an earlier one still reports is not taken for the present one's. */
  #generation = 0;
  #exchanges: Exchange[] = [];
  /** Whose weights the chart shows. */
  #charted: Exchange | undefined;
  #answering: AbortController | undefined;

  constructor() {
    this.#chart = new WeightsChart(byId("weights", HTMLElement), (round) => this.#charted?.inspect(round, false));
    this.#members = new MembersPanel(byId("members", HTMLElement), {
      onFile: (file, slot) => void this.#useFile(file, slot),
      onRetry: (slot) => void this.#load(slot),
      onTakesPart: () => this.#refresh(),
    });
    this.#settings = new SettingsForm(byId("settings", HTMLFormElement), this.#choice, (choice) => void this.#reopen(choice));
    showExamples(byId("examples", HTMLElement), (question) => {
      this.#question.value = question;
      this.#question.focus();
      if (!this.#askButton.disabled) void this.#ask();
    });
    byId("composer", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#ask();
    });
    this.#question.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      void this.#ask();
    });
    this.#stopButton.addEventListener("click", () => this.#stop());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#stop();
    });
    this.#newButton.addEventListener("click", () => this.#newConversation());
    if (new URLSearchParams(location.search).has("debug")) {
      Object.defineProperty(window, "conclave", { get: () => this.#conclave });
    }
  }

  async start(): Promise<void> {
    const manifest = new URL("./members/members.json", import.meta.url);
    try {
      for (const entry of await readManifest(manifest)) {
        this.#addSlot({ source: sourceOf(entry, manifest), entry });
      }
    } catch (error) {
      this.#notices.show("manifest", "error", `${typed(error).message} You can still load members from GGUF files.`);
    }
    await this.#open();
  }

  #addSlot(slot: Pick<Slot, "source" | "entry">): Slot {
    const used = new Set(this.#slots.map((other) => other.voice));
    const voice = [...Array(mostMembers).keys()].find((index) => !used.has(index)) ?? 0;
    const added: Slot = { ...slot, state: "waiting", takesPart: true, voice };
    this.#slots.push(added);
    this.#members.show(added);
    return added;
  }

  /** Opens an engine on the chosen backend and loads every slot into it. */
  async #open(): Promise<void> {
    const generation = ++this.#generation;
    this.#engineLine.textContent = "Starting the engine…";
    this.#engineLine.dataset["state"] = "starting";
    this.#refresh();
    try {
      const conclave = await Conclave.open({ backend: this.#choice });
      if (generation !== this.#generation) return conclave.close();
      this.#conclave = conclave;
      this.#settings.setDefaults(conclave.defaults);
      this.#showEngine(conclave);
      await Promise.all(this.#slots.map((slot) => this.#load(slot)));
    } catch (error) {
      if (generation !== this.#generation) return;
      this.#engineLine.textContent = "No engine";
      this.#engineLine.dataset["state"] = "failed";
      this.#notices.show("engine", "error", typed(error).message, this.#reloadActions());
    }
    this.#refresh();
  }

  #showEngine({ backend, adapter, why }: Conclave): void {
    this.#notices.clear("engine");
    this.#engineLine.dataset["state"] = backend;
    const where = backend === "webgpu" ? `GPU: ${adapter.name}` : "CPU, in WebAssembly";
    this.#engineLine.textContent = `${where} (${why})`;
    if (backend === "webgpu" && adapter.software) {
      const text = `${adapter.name} is a software adapter: it emulates a graphics card on the CPU. Answers are right but very slow.`;
      this.#notices.show("software", "warning", text, [{ label: "Run on the CPU instead", run: () => void this.#reopen("cpu") }]);
    } else {
      this.#notices.clear("software");
    }
  }

  /** Loads a slot's member; what went wrong is shown on its card, and given back. */
  async #load(slot: Slot, replace?: string): Promise<ConclaveError | undefined> {
    const conclave = this.#conclave;
    if (!conclave) return undefined;
    slot.state = "loading";
    this.#members.show(slot);
    this.#refresh();
    try {
      slot.about = await conclave.add(slot.source, {
        onProgress: ({ loaded, total }) => this.#members.progress(slot, loaded, total),
        ...(replace === undefined ? {} : { replace }),
      });
      slot.state = "ready";
      this.#members.show(slot);
      return undefined;
    } catch (thrown) {
      if (conclave !== this.#conclave) return undefined; // reopened meanwhile: the new engine loads it
      const error = typed(thrown);
      this.#members.fail(slot, error.message);
      if (isFatal(error)) this.#notices.show("engine", "error", error.message, this.#reloadActions());
      return error;
    } finally {
      this.#refresh();
    }
  }

  /** Puts the visitor's own file into a slot. A broken one leaves the conclave as it was. */
  async #useFile(file: File, slot: Slot | undefined): Promise<void> {
    if (!slot && this.#slots.length >= mostMembers) {
      this.#notices.show("full", "hint", `A conclave has at most ${mostMembers} members. Use one of the places that are taken.`);
      return;
    }
    const taken = new Set(this.#slots.filter((other) => other !== slot).map((other) => other.source.name));
    const stem = file.name.replace(/\.gguf$/i, "") || "member";
    let name = stem;
    for (let count = 2; taken.has(name); count++) name = `${stem} ${count}`;

    const before = slot && { source: slot.source, entry: slot.entry, about: slot.about, state: slot.state };
    const target = slot ?? this.#addSlot({ source: { name, file } });
    Object.assign(target, { source: { name, file }, entry: undefined, about: undefined });
    const replaced = before?.state === "ready" ? before.source.name : undefined;
    this.#notices.clear("file");
    const error = await this.#load(target, replaced);
    if (!error) return;
    this.#notices.show("file", "error", `${file.name}: ${error.message}`);
    if (before) Object.assign(target, before);
    else this.#slots.splice(this.#slots.indexOf(target), 1);
    if (before) this.#members.show(target);
    else this.#members.drop(target);
    this.#refresh();
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
    this.#notices.clear("engine");
    const old = this.#conclave;
    this.#conclave = undefined;
    old?.close();
    for (const slot of this.#slots) slot.state = "waiting";
    for (const slot of this.#slots) this.#members.show(slot);
    await this.#open();
  }

  #reloadActions(): { label: string; run: () => void }[] {
    return [
      { label: "Reload on the GPU", run: () => void this.#reopen("webgpu") },
      { label: "Reload on the CPU", run: () => void this.#reopen("cpu") },
    ];
  }

  async #ask(): Promise<void> {
    const conclave = this.#conclave;
    const question = this.#question.value.trim();
    const chosen = this.#settings.read();
    if (!conclave || !chosen || question === "" || this.#askButton.disabled) return;
    const slots = this.#taking();
    const members = slots.map((slot) => slot.source.name);
    const voices = slots.map((slot) => slot.voice);
    const messages: Message[] = [...this.#history(), { role: "user", content: question }];
    const { backend, adapter } = conclave;
    const exchange = new Exchange({ question, messages, members, voices, backend, adapter, onInspect: (which) => this.#chartOf(which) });
    this.#exchanges.push(exchange);
    this.#transcript.append(exchange.root);
    document.body.classList.add("asked");
    exchange.root.scrollIntoView({ block: "nearest" });
    this.#question.value = "";
    const controller = new AbortController();
    this.#answering = controller;
    this.#refresh();
    this.#members.begin(slots);
    this.#chart.begin(members, voices);
    this.#charted = exchange;
    try {
      for await (const event of conclave.ask(messages, { ...chosen, members, signal: controller.signal })) {
        if (event.type === "begin") exchange.begin(event);
        else if (event.type === "end") this.#follow(exchange, () => exchange.end(event));
        else {
          this.#follow(exchange, () => exchange.add(event));
          // A new conversation may have begun while this answer stops.
          if (this.#exchanges.includes(exchange)) this.#members.round(slots, exchange.rounds);
          if (this.#charted === exchange) this.#chart.add(event);
        }
      }
    } catch (thrown) {
      const error = typed(thrown);
      // Switching the engine in mid-answer is a stop as well.
      if (controller.signal.aborted) exchange.end({ type: "end", stop: "stopped", text: exchange.text, ms: 0 });
      else this.#follow(exchange, () => exchange.fail(error, this.#remedies(error, exchange)));
    } finally {
      this.#answering = undefined;
      this.#refresh();
    }
  }

  /** Changes an exchange; whoever had its end in view has it in view afterwards, above the question box. */
  #follow({ root }: Exchange, change: () => void): void {
    const inView = root.getBoundingClientRect().bottom <= innerHeight;
    change();
    if (inView) root.scrollIntoView({ block: "nearest" });
  }

  #remedies(error: ConclaveError, exchange: Exchange): HTMLElement[] {
    if (error.kind === "ContextFull") return [button("Start a new conversation", () => this.#newConversation(exchange.question))];
    if (isFatal(error)) return this.#reloadActions().map(({ label, run }) => button(label, run));
    return [];
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
    this.#chart.begin(exchange.begun.members, exchange.voices);
    for (const round of exchange.rounds) this.#chart.add(round);
  }

  #newConversation(question = ""): void {
    this.#stop();
    this.#exchanges = [];
    this.#charted = undefined;
    this.#members.rest();
    this.#transcript.replaceChildren();
    document.body.classList.remove("asked");
    this.#question.value = question;
    this.#question.focus();
    this.#refresh();
  }

  #taking(): Slot[] {
    return this.#slots.filter((slot) => slot.state === "ready" && slot.takesPart);
  }

  /** Brings the controls in line with what can be done now. */
  #refresh(): void {
    const answering = this.#answering !== undefined;
    const stopping = this.#answering?.signal.aborted ?? false;
    // The two buttons take each other's place: so does the focus.
    const focused = document.activeElement;
    const loading = this.#slots.some((slot) => slot.state === "loading");
    const ready = this.#conclave !== undefined && !loading && this.#taking().length > 0;
    this.#askButton.disabled = answering || !ready;
    this.#askButton.hidden = answering;
    this.#stopButton.hidden = !answering;
    this.#stopButton.textContent = stopping ? "Stopping" : "Stop";
    if (answering && focused === this.#askButton) this.#stopButton.focus();
    if (!answering && focused === this.#stopButton) this.#question.focus();
    this.#newButton.hidden = this.#exchanges.length === 0;
    document.body.dataset["state"] = answering ? "answering" : ready ? "ready" : "loading";
    const why = byId("why-not", HTMLElement);
    why.hidden = answering || ready;
    why.textContent = this.#engineLine.dataset["state"] === "failed" ? "No engine is running." : loading || !this.#conclave ? "The members are loading." : "No member takes part: tick one, or load one.";
  }
}

void new Page().start();
