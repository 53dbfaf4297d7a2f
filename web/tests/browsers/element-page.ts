/** A foreign page with only the element. */
import type { Visit } from "./visit.ts";

/**
 * The element as used by a visitor to that page. Functions that run in the page find it by its
 * name.
 */
interface Embedded {
  /** The text of one of its parts; undefined while hidden. */
  part(name: string): Promise<string | undefined>;
  press(name: string): Promise<void>;
  ask(question: string): Promise<void>;
  /** Asks and waits for the end of the answer; returns its text. */
  answer(question: string): Promise<string>;
  /** Waits until the button has this text. */
  button(text: "Ask" | "Stop"): Promise<void>;
}

export async function embedded(visit: Visit, attributes = ""): Promise<Embedded> {
  const { tab, site } = visit;
  const style =
    "body { font: 16px/1.5 Georgia, serif; margin: 2rem auto; max-width: 40rem; " +
    "padding: 0 1rem; color-scheme: light dark; background: Canvas; color: CanvasText }";
  const head =
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width">' +
    '<title>Someone else\'s page</title><link rel="icon" href="./mark.svg">' +
    `<style>${style}</style>`;
  const body =
    "<main><h1>Someone else's page</h1><p>Ask the members.</p>" +
    `<conclave-chat backend="cpu" ${attributes}></conclave-chat></main>` +
    '<script type="module" src="./library/element.js"></script>';
  site.overrides.set(
    "embed.html",
    `<!doctype html><html lang="en"><head>${head}</head><body>${body}</body></html>`,
  );
  site.strangers.add("embed.html");
  await tab.size(1000, 800);
  await tab.open(`${site.address}embed.html`);
  const shadow = (name: string): string | undefined => {
    const part = document
      .querySelector("conclave-chat")
      ?.shadowRoot?.querySelector<HTMLElement>(`[part=${name}]`);
    return part?.getClientRects().length ? (part.textContent ?? "") : undefined;
  };
  await tab.until(() => document.querySelector("conclave-chat")?.shadowRoot);
  const element: Embedded = {
    // WebDriver returns null.
    part: async (name) => (await tab.evaluate(shadow, name)) ?? undefined,
    press: async (name) => {
      await tab.until((name) => {
        const part = document
          .querySelector("conclave-chat")
          ?.shadowRoot?.querySelector<HTMLElement>(`[part=${name}]`);
        if (!part || part.getClientRects().length === 0) return false;
        part.click();
        return true;
      }, name);
    },
    ask: async (question) => {
      await tab.evaluate((question) => {
        const root = document.querySelector("conclave-chat")!.shadowRoot!;
        root.querySelector<HTMLInputElement>("[part=box]")!.value = question;
      }, question);
      await element.press("ask");
    },
    answer: async (question) => {
      await element.ask(question);
      await element.button("Ask");
      return (await element.part("answer")) ?? "";
    },
    button: async (text) => {
      await tab.until(
        (text) =>
          document.querySelector("conclave-chat")?.shadowRoot?.querySelector("[part=ask]")
            ?.textContent === text,
        text,
      );
    },
  };
  return element;
}
