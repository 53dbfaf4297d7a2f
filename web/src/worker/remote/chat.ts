/** Ballots for a model on a server that can only chat. */
import { nullable, shape, text } from "../../protocol/check.ts";
import type { Message } from "../../protocol/engine.ts";
import { checked, choicesOf } from "./logprobs.ts";
import { letterIn, letters, type NameLetter } from "./letters.ts";
import type { Kind } from "./probe.ts";
import type { Server } from "./server.ts";

const chatted = shape({ message: shape({ content: nullable(text) }) });

/** Asks in the server's chat, constrained to the letters if the server supports that. */
export function byChat(server: Server, { model, kind }: { model: string; kind: Kind }): NameLetter {
  return async (question, n, limit) => {
    const own = [...letters.slice(0, n)];
    const held =
      kind === "llama.cpp"
        ? {
            grammar: `root ::= ${own.map((letter) => `"${letter}"`).join(" | ")}`,
            chat_template_kwargs: { enable_thinking: false },
          }
        : kind === "vLLM"
          ? {
              structured_outputs: { choice: own },
              chat_template_kwargs: { enable_thinking: false },
            }
          : {};
    const messages: Message[] = [{ role: "user", content: question }];
    const answer = await server.ask(
      "chat/completions",
      { model, messages, temperature: 0, max_tokens: 16, ...held },
      limit,
    );
    const [choice] = choicesOf(answer, 1, server.host);
    return letterIn(checked(() => chatted(choice, "choice"), server.host).message.content ?? "", n);
  };
}
