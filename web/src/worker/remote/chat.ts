/** Ballots for a model on a server that can only chat. */
import { nullable, optional, shape, text } from "../../protocol/check.ts";
import type { Message } from "../../protocol/engine.ts";
import { checked, choicesOf } from "./logprobs.ts";
import { letterIn, letters, withoutThought, type NameLetter } from "./letters.ts";
import type { Kind } from "./probe.ts";
import { Refused, type Limit, type Server } from "./server.ts";

const chatted = shape({
  message: shape({ content: nullable(text) }),
  finish_reason: optional(nullable(text)),
});

/** Tokens of a verdict: a letter, perhaps with some words around it. */
const verdictTokens = 16;
/** The same for a model that thinks first, since its thoughts count. It ends by itself before. */
const reasonedTokens = 4096;
/** Names of the limit; services that insist on the second have models that think. */
const limits = ["max_tokens", "max_completion_tokens"] as const;

/**
 * Asks in the server's chat, constrained to the letters if the server supports that. The tool does
 * the same in crates/remote/src/server/judging.rs.
 */
export function byChat(server: Server, { model, kind }: { model: string; kind: Kind }): NameLetter {
  /** Parameters that its server takes, once a request has shown them; requests run side by side. */
  let known = { later: false, ownTemperature: false };
  let reasons = false;

  const ask = async (body: object, limit: Limit): Promise<{ answer: unknown; tokens: number }> => {
    let { later, ownTemperature } = known;
    for (let changes = 0; ; changes++) {
      const name = limits[Number(later)]!;
      const tokens = later || reasons ? reasonedTokens : verdictTokens;
      const temperature = ownTemperature ? {} : { temperature: 0 };
      const whole = { model, ...temperature, ...body, [name]: tokens };
      try {
        const answer = await server.ask("chat/completions", whole, limit);
        known = { later, ownTemperature };
        return { answer, tokens };
      } catch (error) {
        if (!(error instanceof Refused) || changes === 2) throw error;
        if (error.message.includes(name)) later = !later;
        else if (!ownTemperature && error.message.includes("temperature")) ownTemperature = true;
        else throw error;
      }
    }
  };

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
    for (;;) {
      const { answer, tokens } = await ask({ messages, ...held }, limit);
      const [choice] = choicesOf(answer, 1, server.host);
      const { message, finish_reason } = checked(() => chatted(choice, "choice"), server.host);
      const said = message.content ?? "";
      const thought = finish_reason === "length" && withoutThought(said) === "";
      if (!thought || tokens === reasonedTokens) return letterIn(said, n);
      reasons = true;
    }
  };
}
