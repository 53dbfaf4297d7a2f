/**
 * Single models of the catalogue to tick, those that suit this machine ticked and first: each with
 * its size, licence and host, and whether it fits.
 */
import { mostMembers } from "../protocol/engine.ts";
import type { CatalogueModel, Ensemble } from "./catalogue.ts";
import { button, el } from "./dom.ts";
import { fitBadge, needOf, ownTitle, verdictOn, type ListContext } from "./ensembles-list.ts";
import { bytes, plural } from "./figures.ts";

/** A first download should take minutes. */
const firstBytes = 1.5e9;

export type PickerContext = Pick<
  ListContext,
  "machine" | "roomOf" | "stored" | "host" | "onEnsemble"
>;

/**
 * The largest ensemble that was measured as one, fits without a doubt and is fetched in minutes;
 * else the largest of those that were not measured; else the smallest of all.
 */
export function recommended(ensembles: Ensemble[], context: PickerContext): Ensemble | undefined {
  const sized = ensembles
    .map((ensemble) => ({ ensemble, bytes: needOf(ensemble, context).whole }))
    .sort((a, b) => a.bytes - b.bytes);
  const suits = sized.filter(
    ({ ensemble, bytes }) => bytes <= firstBytes && !verdictOn(ensemble.members, context),
  );
  const measured = suits.filter(({ ensemble }) => ensemble.measured !== undefined);
  return (measured.at(-1) ?? suits.at(-1) ?? sized[0])?.ensemble;
}

export class ModelPicker {
  readonly root = el("div", { class: "picker" });
  /** References of the ticked models, once the visitor has changed them. */
  #ticked: Set<string> | undefined;

  show(ensembles: Ensemble[], context: PickerContext): void {
    const best = recommended(ensembles, context);
    if (!best) return this.root.replaceChildren();
    const ticked = this.#ticked ?? new Set(best.members.map(({ ref }) => ref));
    const all = new Map(ensembles.flatMap(({ members }) => members).map((one) => [one.ref, one]));
    const others = [...all.values()]
      .filter((model) => !best.members.includes(model))
      .sort((a, b) => a.bytes - b.bytes);
    const status = el("p", { class: "facts", role: "status", id: "picked-models" });
    const open = button("Download and open", () => context.onEnsemble(chosen()), {
      class: "primary-small",
      "aria-describedby": "picked-models",
    });
    const members = (): CatalogueModel[] => [...all.values()].filter(({ ref }) => ticked.has(ref));
    const chosen = (): Ensemble => {
      const picked = members();
      const known = ensembles.find(
        (ensemble) =>
          ensemble.members.length === picked.length &&
          ensemble.members.every((member) => picked.includes(member)),
      );
      return known ?? { name: ownTitle, description: "", members: picked };
    };
    const count = (): void => {
      const picked = members();
      const { missing, whole } = needOf(chosen(), context);
      const against = picked.length > 0 ? verdictOn(picked, context) : undefined;
      const tooMany = picked.length > mostMembers;
      const size = missing === 0 ? `${bytes(whole)}, stored here` : `${bytes(missing)} to fetch`;
      status.textContent =
        picked.length === 0
          ? "Tick at least one model; several answer as one."
          : tooMany
            ? `${plural(picked.length, "model")}: at most ${mostMembers} answer as one. Untick some.`
            : `${plural(picked.length, "model")}, ${size}${against ? `. ${against.text}` : "."}`;
      open.textContent = missing === 0 && picked.length > 0 ? "Open" : "Download and open";
      open.disabled = picked.length === 0 || tooMany || against?.tone === "no";
    };
    const tick = (ref: string, on: boolean): void => {
      if (on) ticked.add(ref);
      else ticked.delete(ref);
      this.#ticked = ticked;
      count();
    };
    const list = (models: CatalogueModel[]): HTMLElement =>
      el(
        "ul",
        { class: "pick-list" },
        ...models.map((model) => line(model, ticked.has(model.ref), tick, context)),
      );
    this.root.replaceChildren(
      list(best.members),
      el(
        "details",
        { open: others.some(({ ref }) => ticked.has(ref)) },
        el("summary", {}, `${others.length} more models`),
        list(others),
      ),
      el("p", { class: "actions" }, open),
      status,
    );
    count();
  }
}

function line(
  model: CatalogueModel,
  on: boolean,
  tick: (ref: string, on: boolean) => void,
  context: PickerContext,
): HTMLElement {
  const against = verdictOn([model], context);
  const stored = context.stored.find(({ ref }) => ref === model.ref)?.complete ?? false;
  const id = `pick-${model.ref.replace(/\W+/g, "-")}`;
  const box = el("input", {
    type: "checkbox",
    id,
    checked: on,
    disabled: against?.tone === "no" && !on,
    "aria-describedby": `${id}-facts`,
  });
  box.addEventListener("change", () => tick(model.ref, box.checked));
  const facts = [
    stored ? `${bytes(model.bytes)}, stored here` : bytes(model.bytes),
    model.licence,
    context.host,
    model.measured === undefined ? "quality not measured" : `measured ${model.measured}`,
  ];
  return el(
    "li",
    {},
    box,
    el("label", { for: id }, model.name),
    fitBadge(against),
    el("small", { id: `${id}-facts` }, facts.join(" · ")),
  );
}
