/**
 * Choice of models: the ensemble of the last visit, one of the catalogue, the toys, or the
 * visitor's own.
 */
import {
  BadReference,
  StorageFailure,
  readManifest,
  sourceOf,
  typed,
  type Conclave,
  type Plan,
  type StoredModel,
} from "../library/conclave.ts";
import { toys } from "../library/places.ts";
import { definedFields } from "../protocol/defined-fields.ts";
import { mostMembers } from "../protocol/engine.ts";
import { loadedBytes } from "../protocol/loaded-bytes.ts";
import type { MemberSource } from "../protocol/messages.ts";
import { isCopy, isWholeCopy } from "../store/copy-reference.ts";
import { memoryOf, readCatalogue, type Ensemble } from "./catalogue.ts";
import { ownTitle, toysTitle } from "./ensembles-list.ts";
import type { KeyedMember } from "./ensemble-key.ts";
import { sentence } from "./figures.ts";
import { FileCopies } from "./file-copies.ts";
import { badge, verdict } from "./fit.ts";
import { total } from "./member-facts.ts";
import type { Slot } from "./members-panel.ts";
import { machineOf, ModelsDialog } from "./models-dialog.ts";
import type { Notices } from "./notices.ts";
import { sortPicked, type PickedFile } from "./picked.ts";
import { readableName } from "./readable-name.ts";
import {
  memberOf,
  recall,
  recallRoom,
  remember,
  rememberRoom,
  type RememberedMember,
} from "./remembered.ts";
import { mostRoom } from "./room.ts";
import { keptSource, type Roster, type Seat } from "./roster.ts";

interface ChoosingContext {
  roster: Roster;
  notices: Notices;
  /** Once it is open. */
  library: () => Conclave | undefined;
  /** The same from its start on. */
  starting: () => Conclave | undefined;
  /** The hub's address, unless it is huggingface.co. */
  hub: string | undefined;
  /** Handles of picked files by their members' names, kept in this browser. */
  handles: {
    recall(): Promise<Map<string, FileSystemFileHandle[]>>;
    remember(handles: Map<string, FileSystemFileHandle[]>): void;
  };
  /** Called before other members replace the present ones: ends an answer under way. */
  onLeave: () => void;
}

export class Choosing {
  readonly dialog: ModelsDialog;
  readonly #context: ChoosingContext;
  readonly #manifest = new URL("./members/members.json", document.baseURI);
  #catalogue: Promise<Ensemble[]> | undefined;
  /** Chosen room for a conversation, in tokens; undefined: the most that fits. */
  #room = recallRoom();
  /** Whether the toys stand in for the last choice, which stays remembered. */
  #standIn = false;
  /** Whether it is known which of the last visit's members are stored, or others were chosen. */
  #isSettled = false;
  /** Servers' keys that the visitor wants kept in this browser. */
  readonly #keptKeys = new Set<string>();
  readonly #copies: FileCopies;

  constructor(context: ChoosingContext) {
    this.#context = context;
    const { roster, library, starting, hub, notices } = context;
    this.#copies = new FileCopies({
      notices,
      starting,
      onKept: () => {
        this.keep();
        void this.dialog.refresh();
      },
    });
    this.dialog = new ModelsDialog(hub === undefined ? "huggingface.co" : new URL(hub).host, {
      library,
      starting,
      catalogue: () => this.#ensembles(),
      shown: () => roster.title,
      room: () => this.#room,
      roomOf: (models) => this.roomOf(models.map((model) => ({ model }))),
      onRoom: (tokens) => this.#chooseRoom(tokens),
      onEnsemble: (ensemble, signal) => this.#useEnsemble(ensemble, signal),
      onToys: async () => {
        this.#context.onLeave();
        this.#chosen();
        void this.#seatToys(false);
      },
      onAdd: (source, signal) => this.#add(source, signal),
      onPicked: (picked) => this.addPicked(picked),
      onElsewhere: (source, keepsKey) => {
        if (keepsKey && source.key !== undefined) this.#keptKeys.add(source.key);
        void this.#seat({ source });
      },
    });
  }

  /**
   * Creates the slots of the last visit's ensemble, or the toys'; members load once there is an
   * engine.
   */
  async furnish(): Promise<void> {
    const last = recall();
    if (!last) return this.#seatToys(true);
    const known = await this.#ensembles().catch((): Ensemble[] => []);
    const models = known.flatMap(({ members }) => members);
    const handles = await this.#context.handles.recall();
    const toys = last.members.some(({ toy }) => toy) ? ((await this.#toys(true)) ?? []) : [];
    const lost: string[] = [];
    const seats = last.members.flatMap(({ toy, ...member }): Seat[] => {
      const { ref, remote, builtIn, key, ...picked } = member;
      if (toy)
        return toys
          .filter(({ source }) => source.name === member.name)
          .map((seat) => ({ ...seat, byDefault: toy === "default" }));
      if (ref !== undefined)
        return [{ source: member, model: models.find((model) => model.ref === ref) }];
      if (key !== undefined) this.#keptKeys.add(key);
      if (remote !== undefined || builtIn) return [{ source: member }];
      const own = handles.get(member.name);
      if (own) return [{ source: { ...picked, files: [] }, handles: own }];
      lost.push(member.name);
      return [];
    });
    if (lost.length > 0)
      this.#tellLost("lost", lost, "which a page may not open by itself after a reload");
    if (seats.some(({ byDefault }) => !byDefault))
      return this.#context.roster.replaceAll(last.title, seats);
    this.#standIn = lost.length > 0;
    await this.#seatToys(true);
  }

  /** Tells which members of the last visit only the visitor can find again. */
  #tellLost(key: "lost" | "lost copies", names: string[], why: string): void {
    const were = names.length === 1 ? "was a picked file" : "were picked files";
    const them = names.length === 1 ? "it" : "them";
    this.#context.notices.show(
      key,
      "hint",
      `${sentence(names)} ${were}, ${why}. Choose ${them} again.`,
      [{ label: "Choose files", run: () => void this.dialog.open("add") }],
    );
  }

  /** Room for a conversation of these members, in tokens: as chosen, or the most that fits. */
  roomOf(members: readonly Pick<Seat, "entry" | "model">[]): number {
    const machine = machineOf(this.#context.library(), undefined);
    return (
      this.#room ??
      mostRoom(
        members.map(({ entry, model }) => ({ bundled: entry !== undefined, model })),
        machine,
      )
    );
  }

  /** Changes the room, of the present members too. */
  #chooseRoom(tokens: number | undefined): void {
    this.#room = tokens;
    rememberRoom(tokens);
    void this.#context.roster.resize();
  }

  /** Members expected by what the last visit remembered, known before there are slots. */
  expected(): KeyedMember[] {
    const last = recall();
    const bundled = toys();
    const here = last?.members.filter(({ lost }) => !lost) ?? [];
    const members = here.map(({ toy, lost: _, ...member }): MemberSource => {
      const found = toy && bundled.find(({ name }) => name === member.name);
      return found ?? member;
    });
    return (members.length > 0 ? members : bundled).map((source) => ({
      source,
      contextTokens: last?.contextTokens ?? this.roomOf([]),
    }));
  }

  /**
   * Once the first engine starts: replaces members of the last visit that are not completely stored
   * by the toys, so that nothing is fetched unasked.
   */
  async settle(conclave: Conclave): Promise<void> {
    const { roster, notices } = this.#context;
    if (this.#isSettled) return;
    const wanted = roster.slots.flatMap(({ source }) => source.ref ?? []);
    if (wanted.length === 0) return;
    const { models, keeps } = await conclave.models().catch((error: unknown) => {
      if (typed(error).kind !== "Storage") throw error;
      return { models: [], keeps: false }; // A browser without a store.
    });
    if (this.#isSettled) return;
    this.#isSettled = true;
    const isThere = (model: StoredModel): boolean =>
      isCopy(model.ref) ? isWholeCopy(model) : model.complete;
    const missing = wanted.filter((ref) => {
      // Nobody could fetch a copy again: where the list was not read, its card tells if it is gone.
      if (isCopy(ref) && !keeps) return false;
      return !models.some((model) => model.ref === ref && isThere(model));
    });
    if (missing.length === 0) return;
    const { title } = roster;
    const isGone = ({ source: { ref } }: Slot): boolean =>
      ref !== undefined && isCopy(ref) && missing.includes(ref);
    const gone = roster.slots.filter(isGone).map(({ source }) => source.name);
    const copies = gone.length === 1 ? "copy is" : "copies are";
    if (gone.length > 0)
      this.#tellLost("lost copies", gone, `whose ${copies} no longer in this browser`);
    const here = roster.slots.filter((slot) => !isGone(slot));
    const seats = here.map(
      ({ source, entry, model, handles, byDefault }): Seat => ({
        source,
        entry,
        model,
        handles,
        byDefault,
      }),
    );
    const toFetch = missing.filter((ref) => !isCopy(ref)).length;
    if (toFetch === 0 && seats.some(({ byDefault }) => !byDefault))
      return roster.replaceAll(title, seats);
    this.#standIn = true;
    await this.#seatToys(true);
    if (toFetch === 0) return;
    const lacking = toFetch === 1 ? "one model is" : `${toFetch} models are`;
    notices.show(
      "incomplete",
      "hint",
      `${title}, the ensemble of your last visit, is not all stored in this browser: ` +
        `${lacking} missing. These are the toys.`,
      [
        { label: "Fetch the rest", run: () => void roster.replaceAll(title, seats) },
        { label: "Keep the toys", run: () => ((this.#standIn = false), this.keep()) },
      ],
    );
  }

  /** Called once other members are chosen than those of the last visit. */
  #chosen(): void {
    this.#isSettled = true;
    this.#standIn = false;
    this.#context.notices.clear("incomplete");
  }

  /**
   * Remembers the present ensemble, loaded or not, if it can be found again: the next visit resumes
   * a load, or says what is missing.
   */
  keep(): void {
    const { title, slots, contextTokens, replacing } = this.#context.roster;
    this.#copies.heed(slots);
    if (slots.length === 0 || replacing) return;
    if (this.#standIn && slots.every(({ entry }) => entry)) return;
    this.#standIn = false;
    // Toys stand in for members that ended a tab, which stay remembered.
    if (slots.some(({ state }) => state === "held") && slots.some(({ byDefault }) => byDefault))
      return;
    if (title === toysTitle) return remember(undefined);
    // A file without a handle or a copy can't be found again.
    const isLost = ({ source: { ref, remote, builtIn }, handles, copy }: Slot): boolean =>
      (ref ?? remote ?? builtIn ?? handles ?? copy) === undefined;
    const members = slots.flatMap((slot): RememberedMember[] => {
      const { source, entry, byDefault, state } = slot;
      if (entry) return [{ name: source.name, toy: byDefault ? "default" : "chosen" }];
      if (!isLost(slot)) return [this.#kept(keptSource(slot))];
      return state === "failed" ? [] : [{ name: source.name, lost: true }];
    });
    remember({ title, contextTokens, members });
    const picked = slots.flatMap(
      ({ source: { name }, handles }): [string, FileSystemFileHandle[]][] =>
        handles ? [[name, handles]] : [],
    );
    this.#context.handles.remember(new Map(picked));
  }

  /**
   * Deletes what is kept of the choice, copies of picked files and system prompts; returns whether
   * no copy is left.
   */
  async forget(): Promise<boolean> {
    remember(undefined);
    rememberRoom(undefined);
    const isGone = await this.#copies.forget();
    const library = this.#context.library();
    await library?.deletePrompts().catch(() => undefined); // Reported in the list of models.
    return isGone;
  }

  /** A member as it is remembered, without a key that is not to be kept. */
  #kept({ key, ...source }: MemberSource): RememberedMember {
    return memberOf(key !== undefined && this.#keptKeys.has(key) ? { ...source, key } : source);
  }

  /** Adds the models among picked or dropped files. */
  addPicked(picked: PickedFile[]): void {
    const { models, complaints } = sortPicked(picked);
    if (models.length > 0)
      for (const key of ["lost", "lost copies"]) this.#context.notices.clear(key);
    for (const { name: fileName, files, handles } of models) {
      const name = readableName(fileName);
      const sizes = files.map((file) => ({ name: file.name, bytes: file.size }));
      const quantise = this.dialog.quantise.optionFor(sizes);
      const kept = handles.length > 0 ? { handles } : {};
      const seat = { source: { name, files, ...quantise }, ...kept };
      if (this.#isTooLarge(seat, loadedBytes(sizes, quantise.quantise))) continue;
      if (!this.#seat(seat)) break;
    }
    if (complaints.length > 0) this.#context.notices.show("picked", "error", complaints.join(" "));
    else this.#context.notices.clear("picked");
  }

  /** Whether a picked model can't fit; that is told, and it can be loaded nevertheless. */
  #isTooLarge(seat: Seat, memory: number): boolean {
    const { notices, library } = this.#context;
    const { name } = seat.source;
    const key = `too large ${name}`;
    const against = verdict({ download: 0, memory: [memory] }, machineOf(library(), undefined));
    notices.clear(key);
    if (against?.tone !== "no") return false;
    notices.show(key, "warning", `${name} is ${badge(against)}. ${against.text}`, [
      { label: `Load ${name} nevertheless`, run: () => void this.#seat(seat) },
    ]);
    return true;
  }

  #ensembles(): Promise<Ensemble[]> {
    this.#catalogue ??= readCatalogue(new URL("./catalogue.json", document.baseURI));
    this.#catalogue.catch(() => (this.#catalogue = undefined));
    return this.#catalogue;
  }

  /** Adds the toys to the present members. */
  async bringToys(byDefault: boolean): Promise<void> {
    const { roster, notices } = this.#context;
    const toys = await this.#toys(byDefault);
    if (!toys) return;
    if (roster.bringToys(toys, byDefault)) notices.clear("full");
    else notices.show("full", "hint", fullHouse);
  }

  /** Replaces all members by the toys; `byDefault`: without a request. */
  async #seatToys(byDefault: boolean): Promise<void> {
    const toys = await this.#toys(byDefault);
    if (toys) await this.#context.roster.replaceAll(toysTitle, toys);
  }

  /** Undefined if their list can't be read, which is shown. */
  async #toys(byDefault: boolean): Promise<Seat[] | undefined> {
    try {
      const entries = await readManifest(this.#manifest);
      return entries.map((entry) => ({
        source: sourceOf(entry, this.#manifest),
        entry,
        byDefault,
      }));
    } catch (error) {
      this.#context.notices.show(
        "manifest",
        "error",
        `${typed(error).message} You can still add models of your own.`,
      );
      return undefined;
    }
  }

  /** Asks the hosts for exact sizes, and downloads nothing that can't fit. */
  async #useEnsemble({ name, members }: Ensemble, signal: AbortSignal): Promise<void> {
    const { roster, onLeave } = this.#context;
    const { backend } = await this.#open();
    const room = this.roomOf(members.map((model) => ({ model })));
    const memory = members.map((member) => total(memoryOf(member, room, backend)));
    await this.#check(
      members.map(({ ref }) => ref),
      signal,
      memory,
    );
    onLeave();
    this.#chosen();
    void roster.replaceAll(
      name,
      members.map((model) => ({ source: { name: model.name, ref: model.ref }, model })),
    );
  }

  /** Takes the members that a link names, in place of the present ones. */
  async takeNamed(title: string, members: { name: string; ref: string }[]): Promise<void> {
    const { roster, notices } = this.#context;
    try {
      const known = (await this.#ensembles().catch((): Ensemble[] => [])).flatMap(
        ({ members }) => members,
      );
      await this.#check(
        members.map(({ ref }) => ref),
        new AbortController().signal,
      );
      const seats = members.map((source) => ({
        source,
        model: known.find(({ ref }) => ref === source.ref),
      }));
      this.#chosen();
      void roster.replaceAll(title, seats);
    } catch (error) {
      notices.show("link", "error", typed(error).message, [
        { label: "Try again", run: () => void this.takeNamed(title, members) },
      ]);
    }
  }

  /** Adds a model that ended a tab before it was remembered. */
  addAgain({ name, ref, quantise }: Pick<MemberSource, "name" | "ref" | "quantise">): void {
    if (ref !== undefined) this.#seat({ source: { name, ref, ...definedFields({ quantise }) } });
  }

  async #add(source: MemberSource, signal: AbortSignal): Promise<void> {
    if (source.ref === undefined) throw new BadReference("Name a model first.");
    if (this.#context.roster.full) throw new BadReference(fullHouse);
    const loadedAs = ({ files }: Plan) => this.dialog.quantise.optionFor(files);
    const [plan] = await this.#check([source.ref], signal, (plan) =>
      loadedBytes(plan.files, loadedAs(plan).quantise),
    );
    this.#seat({ source: { ...source, ...(plan && loadedAs(plan)) } });
  }

  /**
   * Plans the downloads; throws if models can't fit. `memory`: needs of each, if known better than
   * by file size.
   */
  async #check(
    refs: string[],
    signal: AbortSignal,
    memory: number[] | ((plan: Plan) => number) = ({ bytes }) => bytes,
  ): Promise<Plan[]> {
    const library = await this.#open();
    this.dialog.say("Asking for the exact sizes…");
    const plans = await Promise.all(refs.map((ref) => library.plan(ref, signal)));
    signal.throwIfAborted();
    const download = plans.reduce((sum, { toReserve }) => sum + toReserve, 0);
    const free = plans.map((plan) => plan.free).find((each) => each !== null);
    const against = verdict(
      { download, memory: typeof memory === "function" ? plans.map(memory) : memory },
      machineOf(library, free),
    );
    if (against?.tone === "no") throw new StorageFailure(against.text);
    this.dialog.say("");
    return plans;
  }

  #seat(seat: Seat): boolean {
    const { roster, notices } = this.#context;
    if (!roster.add(seat)) {
      notices.show("full", "hint", fullHouse);
      return false;
    }
    this.#chosen();
    roster.title = ownTitle;
    this.keep();
    return true;
  }

  /** The engine, after it has started. */
  #open(): Promise<Conclave> {
    const { library, starting } = this.#context;
    const engine = library() ?? starting();
    if (!engine) throw new StorageFailure("No engine is running. Reload it first.");
    if (!library()) this.dialog.say("The engine is starting…");
    return engine.ready;
  }
}

const fullHouse = `A conclave has at most ${mostMembers} members. Remove one first.`;
