/**
 * Renders a conversation to the text that a server continues, and a ballot to the question for a
 * judge.
 */
import { list, number, shape, text } from "../../protocol/check.ts";
import type { Candidate, Message } from "../../protocol/engine.ts";
import { checked } from "./logprobs.ts";
import { letters } from "./letters.ts";
import type { Limit, Server } from "./server.ts";

/**
 * Renders a conversation up to the start of its answer; `end`: text that closes a turn, if known.
 */
export interface Renderer {
  render(messages: Message[], limit: Limit): Promise<string>;
  end: string;
  /** The text already begins with the model's own first token. */
  whole: boolean;
}

const rendered = shape({ prompt: text });
export const tokenised = shape({ tokens: list(number) });
/** llama.cpp's tokens, each with its text, or with bytes if it is none. */
export const pieces = shape({ tokens: list(shape({ id: number, piece: (data) => data })) });

/** Fills in a turn's format: `<|im_start|>{role}\n{content}<|im_end|>\n`. */
export function byTurns(turn: string): Renderer {
  const [opening = "", ...closing] = turn.split("{content}");
  const opened = (role: string): string => opening.replaceAll("{role}", role);
  const end = closing.join("{content}");
  return {
    render: async (messages) =>
      messages.map(({ role, content }) => opened(role) + content + end).join("") +
      opened("assistant"),
    end: end.trim(),
    whole: false,
  };
}

/**
 * Renders with llama.cpp's server or `conclave serve`, which have the model's template. `closes`:
 * also find the text that closes a turn, which costs a request.
 */
export async function byTemplate(
  server: Server,
  model: string,
  closes: boolean,
  limit: Limit,
): Promise<Renderer> {
  const render = async (messages: Message[], limit: Limit): Promise<string> => {
    const answer = await server.ask(
      "apply-template",
      { model, messages, chat_template_kwargs: { enable_thinking: false } },
      limit,
      true,
    );
    return checked(() => rendered(answer, "answer"), server.host).prompt;
  };
  const [said, next] = ["Yes indeed.", "Is it so?"];
  const turns: Message[] = [
    { role: "user", content: "Is it?" },
    { role: "assistant", content: said },
    { role: "user", content: next },
  ];
  const text = await render(closes ? turns : turns.slice(0, 1), limit);
  const between = text.slice(text.lastIndexOf(said) + said.length, text.lastIndexOf(next)).trim();
  // A mark, or a line: the text after it opens the next turn.
  const end = closes && text.includes(said) ? (/^<[^>]*>|^.+/.exec(between)?.[0] ?? "").trim() : "";
  return { render, end, whole: false };
}

/** Renders with vLLM's server: to tokens and back. */
export async function byTokens(server: Server, model: string, limit: Limit): Promise<Renderer> {
  const textOf = async (messages: Message[], opens: boolean, limit: Limit): Promise<string> => {
    const there = await server.ask(
      "tokenize",
      {
        model,
        messages,
        add_generation_prompt: opens,
        chat_template_kwargs: { enable_thinking: false },
      },
      limit,
      true,
    );
    const { tokens } = checked(() => tokenised(there, "answer"), server.host);
    const back = await server.ask("detokenize", { model, tokens }, limit, true);
    return checked(() => rendered(back, "answer"), server.host).prompt;
  };
  const probe = "Yes indeed.";
  const closed = await textOf(
    [
      { role: "user", content: "Is it?" },
      { role: "assistant", content: probe },
    ],
    false,
    limit,
  );
  const at = closed.lastIndexOf(probe);
  return {
    render: (messages, limit) => textOf(messages, true, limit),
    end: at < 0 ? "" : closed.slice(at + probe.length).trim(),
    whole: true,
  };
}

/** Question for the best of some candidates: `order[k]` gets the k-th letter. */
export function ballot(
  messages: readonly Message[],
  answer: string,
  candidates: readonly Candidate[],
  order: readonly number[],
): string {
  const said = messages.map(({ role, content }) => `${role}: ${content}`).join("\n\n");
  const offered = order.map((candidate, place) => {
    const { text, ended } = candidates[candidate]!;
    const quoted = text === "" ? "" : JSON.stringify(text);
    const end = ended ? " (and the answer ends there)" : "";
    return `${letters[place]}: ${quoted}${end}`;
  });
  const named = [...letters.slice(0, order.length)];
  const question = [
    "You judge how an answer should go on. A conversation:",
    said,
    "The answer as far as it is written:",
    answer === "" ? "(nothing yet)" : answer,
    "Ways to go on from there:",
    offered.join("\n"),
    "Which of them is right and makes the best answer? " +
      `Reply with ${named.slice(0, -1).join(", ")} or ${named.at(-1)} and nothing else.`,
  ];
  return question.join("\n\n");
}
