/** A visitor whose one member is on a server, and writes what a test lets it write. */
import type { OpenAiServer } from "../../src/testing/openai-server.ts";
import type { Stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

/** A visitor with one member, on the server, that writes this answer. */
export async function withWriter(
  stand: Stage,
  writer: OpenAiServer,
  answer: string,
  context: Parameters<typeof Visitor.arrive>[2] = {},
): Promise<Visitor> {
  writer.answer = answer;
  const visitor = await Visitor.arrive(stand.browser, stand.site, {
    ...context,
    also: new URL(writer.address).origin,
  });
  await visitor.join({ base: writer.address, name: "words" });
  const own = new URL(writer.address).host;
  await visitor.page.locator('.member[data-state="ready"]', { hasText: `at ${own} ` }).waitFor();
  await visitor.page.waitForFunction(() => document.querySelectorAll(".member").length === 1);
  await visitor.state("ready");
  return visitor;
}
