/** Format that unquantised weights are loaded as: the visitor's choice, or by size. */
import { definedFields } from "../protocol/defined-fields.ts";
import type { MemberSource } from "../protocol/messages.ts";
import { el } from "./dom.ts";
import { bytes } from "./figures.ts";

const choices = ["auto", "", "Q8_0", "Q4_0"] as const;
type QuantiseChoice = (typeof choices)[number];

/**
 * A token reads every weight once. From about this size of a folder on, half the bytes save
 * noticeable memory and time at almost no loss of accuracy; a smaller one fits as it is.
 */
const large = 500e6;

/** `auto`: Q8_0 for a large folder. A GGUF file keeps its maker's format. */
export function quantiseFor(
  choice: QuantiseChoice,
  files: { name: string; bytes: number }[],
): MemberSource["quantise"] {
  if (choice !== "auto") return choice === "" ? undefined : choice;
  const weights = files
    .filter(({ name }) => name.endsWith(".safetensors"))
    .reduce((sum, file) => sum + file.bytes, 0);
  return weights >= large ? "Q8_0" : undefined;
}

export class QuantiseSelect {
  readonly #select = el(
    "select",
    { id: "quantise" },
    el("option", { value: "auto" }, `as Q8_0 above ${bytes(large)}`),
    el("option", { value: "" }, "as they are"),
    el("option", { value: "Q8_0" }, "as Q8_0, half of F16"),
    el("option", { value: "Q4_0" }, "as Q4_0, a quarter of F16, less exact"),
  );
  readonly root = el(
    "label",
    { class: "context-choice" },
    "Unquantised weights load",
    this.#select,
  );

  /** Applies the choice to a model's files. */
  optionFor(files: { name: string; bytes: number }[]): Pick<MemberSource, "quantise"> {
    const choice = choices.find((one) => one === this.#select.value) ?? "auto";
    return definedFields({ quantise: quantiseFor(choice, files) });
  }
}
