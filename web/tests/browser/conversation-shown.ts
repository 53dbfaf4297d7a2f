/** A conversation of short segments, and what of it is on the page. */
import type { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

/** A visitor whose answers are the likeliest, in short segments. */
export async function arriveGreedy(stand: ReturnType<typeof stage>): Promise<Visitor> {
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  await visitor.set("temperature", "0");
  await visitor.set("segmentTokens", "2");
  return visitor;
}

export interface Shown {
  questions: string[];
  answers: string[];
  draft: string;
}

/** Questions, answers and the half-typed question. */
export const shown = ({ page }: Visitor): Promise<Shown> =>
  page.evaluate(() => ({
    questions: [...document.querySelectorAll(".exchange .question")].map(
      (each) => each.textContent ?? "",
    ),
    answers: [...document.querySelectorAll(".exchange .answer")].map((answer) =>
      [...answer.querySelectorAll(".segment")].map((each) => each.textContent).join(""),
    ),
    draft: document.querySelector<HTMLTextAreaElement>("#question")!.value,
  }));

/** Waits until no answer is under way or to be gone on with. */
export const idle = async ({ page }: Visitor): Promise<void> => {
  await page.waitForFunction(
    () =>
      document.body.dataset["state"] === "ready" &&
      document.querySelector(".growing") === null &&
      ![...document.querySelectorAll(".facts")].some((each) =>
        each.textContent?.includes("broken off when"),
      ),
  );
};
