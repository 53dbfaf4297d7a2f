/** One letter of a model that can only chat. */
import { nullable, shape, text } from "../../protocol/check.ts";
import type { Message } from "../../protocol/engine.ts";
import { checked, choicesOf } from "./logprobs.ts";
import { letterIn, letters } from "./letters.ts";
import type { Kind } from "./probe.ts";
import type { Limit, Server } from "./server.ts";

const chatted = shape({ message: shape({ content: nullable(text) }) });

/** The place of the letter among the first `n` that the model names; undefined where it names none. Held to the letters where the server can hold it. */
export async function nameLetter(server: Server, { model, kind }: { model: string; kind: Kind }, messages: Message[], n: number, limit: Limit): Promise<number | undefined> {
  const own = [...letters.slice(0, n)];
  const held =
    kind === "llama.cpp"
      ? { grammar: `root ::= ${own.map((letter) => `"${letter}"`).join(" | ")}`, chat_template_kwargs: { enable_thinking: false } }
      : kind === "vLLM"
        ? { structured_outputs: { choice: own }, chat_template_kwargs: { enable_thinking: false } }
        : {};
  const answer = await server.ask("chat/completions", { model, messages, temperature: 0, max_tokens: 16, ...held }, limit);
  const [choice] = choicesOf(answer, 1, server.host);
  return letterIn(checked(() => chatted(choice, "choice"), server.host).message.content ?? "", n);
}
