/** The conversation on the page, as tests read it. */
import type { Visitor } from "./visitor.ts";

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
