/** A visitor to a page with the element or its own form: asks, and reads the answer. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { Browser } from "playwright-core";
import { Visitor } from "../browser/visitor.ts";

/** Opens a page until the end of the test. `also`: another allowed origin. */
export async function open(
  context: TestContext,
  browser: Browser,
  address: string,
  also?: string,
): Promise<Visitor> {
  const visitor = await Visitor.arrive(
    browser,
    { address },
    { loaded: false, ...(also !== undefined && { also }) },
  );
  context.after(() => visitor.leave());
  return visitor;
}

/** Asks the bundled members, on the CPU, and waits for the first words of the answer. */
export async function ask(visitor: Visitor): Promise<void> {
  const { page } = visitor;
  const chat = page.locator("conclave-chat");
  if ((await chat.count()) > 0) await chat.locator("[part=box]").fill("What is 347 + 586?");
  await page.getByRole("button", { name: "Ask" }).click();
  const answer = page.locator("#answer, [part=answer]").filter({ hasText: /\w/ });
  await answer.waitFor().catch(async (error: unknown) => {
    const text = await page.locator("body").innerText();
    assert.fail(`${String(error)}\n${visitor.complaints.join("\n")}\n${text}`);
  });
}

/** Opens a page, asks, and checks that there was no error. */
export async function answers(
  context: TestContext,
  browser: Browser,
  address: string,
  also?: string,
): Promise<Visitor> {
  const visitor = await open(context, browser, address, also);
  await ask(visitor);
  visitor.clean();
  return visitor;
}
