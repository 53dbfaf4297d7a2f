/** Makes and finds elements. No markup is ever parsed from a string: model text stays text. */

type Child = Node | string;
type Attributes = Record<string, string | number | boolean | undefined>;

/** An element with attributes; `true` sets an empty attribute, `false` and undefined set none. */
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

/** A button that runs `action`. */
export function button(
  label: string,
  action: () => void | Promise<void>,
  attributes: Attributes = {},
): HTMLButtonElement {
  const element = el("button", { type: "button", ...attributes }, label);
  element.addEventListener("click", () => void action());
  return element;
}

/** The element of the page's own markup with this id. */
export function byId<T extends HTMLElement>(id: string, kind: new () => T): T {
  const element = document.getElementById(id);
  if (!(element instanceof kind))
    throw new Error(`index.html has no ${kind.name} with the id ${id}`);
  return element;
}

/** The class that gives a member its colour and its underline; there are eight. */
export const voice = (index: number): string => `voice-${(index % 8) + 1}`;
