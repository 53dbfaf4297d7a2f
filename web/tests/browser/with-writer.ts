/** A visitor whose one member is on a server, and writes what a test lets it write. */
import { after, before } from "node:test";
import { OpenAiServer } from "../../src/testing/openai-server.ts";
import type { Stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

/** A server for the tests of a file. */
export function writing(): OpenAiServer {
  const writer = new OpenAiServer();
  before(() => writer.open());
  after(() => writer.close());
  return writer;
}

/** Waits until the server's model is ready, and the only member. */
export async function isAlone(visitor: Visitor, writer: OpenAiServer): Promise<void> {
  const host = new URL(writer.address).host;
  await visitor.page.locator('.member[data-state="ready"]', { hasText: `at ${host} ` }).waitFor();
  await visitor.page.waitForFunction(() => document.querySelectorAll(".member").length === 1);
  await visitor.state("ready");
}

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
  await isAlone(visitor, writer);
  return visitor;
}
