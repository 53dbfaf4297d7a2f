/**
 * The catalogue as a list to choose from: each ensemble with its members, download, memory, and
 * whether it fits.
 */
import type { Backend, Memory } from "../protocol/engine.ts";
import type { StoredModel } from "../library/conclave.ts";
import { memoryOf, type CatalogueModel, type Ensemble } from "./catalogue.ts";
import { button, el } from "./dom.ts";
import { bytes } from "./figures.ts";
import { badge, verdict, type Machine, type Verdict } from "./fit.ts";
import { memoryParts, sumOf, total } from "./member-facts.ts";

export interface ListContext {
  machine: Machine;
  /** Room for a conversation that these members would get, in tokens. */
  roomOf: (members: CatalogueModel[]) => number;
  stored: StoredModel[];
  /** The ensemble on the page. */
  shown: string;
  /** Displayed name of the models' host: huggingface.co. */
  host: string;
  onEnsemble: (ensemble: Ensemble) => void;
  onToys: () => void;
}

/** Needs of an ensemble; a stored file's exact size replaces the catalogue's. */
export function needOf(
  { members }: Pick<Ensemble, "members">,
  { machine, roomOf, stored }: Pick<ListContext, "machine" | "roomOf" | "stored">,
) {
  const sizes = members.map((member) => {
    const known = stored.find(({ ref }) => ref === member.ref);
    return {
      bytes: known?.bytes || member.bytes,
      here: known?.stored ?? 0,
      toReserve: known?.bytes ? known.toReserve : member.bytes,
      complete: known?.complete ?? false,
    };
  });
  const memories = members.map((member) => memoryOf(member, roomOf(members), machine.backend));
  const whole = sizes.reduce((all, size) => all + size.bytes, 0);
  const missing = sizes.reduce(
    (all, size) => all + (size.complete ? 0 : Math.max(0, size.bytes - size.here)),
    0,
  );
  const toReserve = sizes.reduce((all, size) => all + (size.complete ? 0 : size.toReserve), 0);
  const complete = sizes.every((size) => size.complete);
  return { memory: sumOf(memories), memories, whole, missing, toReserve, complete };
}

/** Verdict on these models together. */
export function verdictOn(
  members: CatalogueModel[],
  context: Pick<ListContext, "machine" | "roomOf" | "stored">,
): Verdict | undefined {
  const { toReserve, memories } = needOf({ members }, context);
  return verdict({ download: toReserve, memory: memories.map(total) }, context.machine);
}

/** Says whether a model fits. */
export const fitBadge = (against: Verdict | undefined): HTMLElement =>
  el("span", { class: `badge ${against?.tone ?? "yes"}`, title: against?.text }, badge(against));

export const toysTitle = "The bundled toys";
export const ownTitle = "Your own choice";

export function ensemblesList(ensembles: Ensemble[], context: ListContext): HTMLElement {
  return el(
    "ul",
    { class: "ensembles" },
    ...ensembles.map((ensemble) => card(ensemble, context)),
    toys(context),
  );
}

function card(ensemble: Ensemble, context: ListContext): HTMLElement {
  const { machine, host, shown } = context;
  const { memory, whole, missing, complete } = needOf(ensemble, context);
  const against = verdictOn(ensemble.members, context);
  const inUse = shown === ensemble.name;
  const id = `ensemble-${ensemble.name.toLowerCase()}`;
  const download = complete
    ? `${bytes(whole)}, stored here`
    : missing < whole
      ? `${bytes(missing)} of ${bytes(whole)} to fetch from ${host}`
      : `${bytes(whole)} to fetch from ${host}`;
  const action = complete ? "Open" : "Download and open";
  const load = button(inUse ? "In use" : action, () => context.onEnsemble(ensemble), {
    "aria-label": `${inUse ? "In use:" : action} ${ensemble.name}`,
    "aria-describedby": `${id} ${id}-verdict`,
    disabled: inUse || against?.tone === "no",
  });
  return el(
    "li",
    { class: "ensemble", "data-ensemble": ensemble.name },
    el("div", { class: "ensemble-head" }, el("h4", {}, ensemble.name), load),
    el("p", {}, ensemble.description),
    el("ul", { class: "ensemble-members" }, ...ensemble.members.map((one) => line(one, context))),
    el(
      "p",
      { class: "hint" },
      ensemble.measured === undefined
        ? "How well they answer together has not been measured."
        : `Measured: ${ensemble.measured}`,
    ),
    el("p", { class: "facts", id }, `${download} · ${needs(memory, machine.backend)}`),
    against ? el("p", { class: `verdict ${against.tone}`, id: `${id}-verdict` }, against.text) : "",
  );
}

function line(member: CatalogueModel, context: ListContext): HTMLElement {
  const { name, family, format, licence } = member;
  return el(
    "li",
    {},
    el("span", {}, name),
    el("small", {}, [family, format, bytes(member.bytes), licence].join(" · ")),
    fitBadge(verdictOn([member], context)),
  );
}

function needs(memory: Memory, backend: Backend): string {
  const where = backend === "cpu" ? "memory" : "graphics memory";
  return `${bytes(total(memory))} of ${where}: ${memoryParts(memory)}`;
}

function toys({ shown, onToys }: ListContext): HTMLElement {
  const inUse = shown === toysTitle;
  return el(
    "li",
    { class: "ensemble", "data-ensemble": "toys" },
    el(
      "div",
      { class: "ensemble-head" },
      el("h4", {}, "Toys"),
      button(inUse ? "In use" : "Open", onToys, {
        disabled: inUse,
        "aria-label": inUse ? "In use: the toys" : "Open the toys",
      }),
    ),
    el(
      "p",
      {},
      "Three models of a million parameters each that come with the page. " +
        "Good for seeing how the voting works; nothing is fetched from elsewhere.",
    ),
  );
}
