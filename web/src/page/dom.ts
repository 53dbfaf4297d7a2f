/** Makes and finds elements. Never parses markup from a string: model text stays text. */

type Child = Node | string;
type Attributes = Record<string, string | number | boolean | undefined>;

/** Makes an element with attributes; `true` sets an empty attribute, `false` and undefined none. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** Makes a button that runs `action`. */
export function button(
  label: string,
  action: () => void | Promise<void>,
  attributes: Attributes = {},
): HTMLButtonElement {
  const element = el("button", { type: "button", ...attributes }, label);
  element.addEventListener("click", () => void action());
  return element;
}

/** The element with this id in the page's own markup. */
export function byId<T extends HTMLElement>(id: string, kind: new () => T): T {
  const element = document.getElementById(id);
  if (!(element instanceof kind))
    throw new Error(`index.html has no ${kind.name} with the id ${id}`);
  return element;
}

/** Class with a member's colour and underline; there are eight. */
export const voice = (index: number): string => `voice-${(index % 8) + 1}`;

/** A member's name in its colour. */
export const nameTag = (
  names: readonly string[],
  voices: readonly number[],
  member: number,
): HTMLElement =>
  el("span", { class: `name ${voice(voices[member] ?? member)}` }, names[member] ?? "");

/** Whether the element's end is in view. */
export const isInView = (element: HTMLElement): boolean =>
  element.getBoundingClientRect().bottom <= innerHeight;
