/**
 * What a server can do, found out once when its member is added, by asking it for a little of each.
 */
import { list, number, optional, shape, text } from "../../protocol/check.ts";
import { RemoteFailure } from "../../protocol/errors.ts";
import type { Capability } from "../../protocol/remote.ts";
import { byChat } from "./chat.ts";
import { knowsLetters } from "./judge.ts";
import { checked, choicesOf, echoed, forced, forcing } from "./logprobs.ts";
import { byTemplate, byTokens, byTurns, tokenised, type Renderer } from "./prompts.ts";
import { Late, Refused, type Limit, type Server } from "./server.ts";

/** Software that is asked for more than the protocol has. */
export type Kind = "llama.cpp" | "vLLM" | "Conclave" | undefined;

/** What is known of a server. */
export interface Found {
  can: Capability;
  /** How it tells scores, where it does. */
  scores: "echo" | "forced" | undefined;
  /** The token that closes a turn, where tokens are forced and the server tells it. */
  endToken: number | undefined;
  /** There, unless it only judges. */
  renderer: Renderer | undefined;
  model: string;
  kind: Kind;
  /** Tokens that it has room for; 0 where it does not tell. */
  context: number;
  parameters: number;
  vocabulary: number;
  /** Why it can no more than that; empty where it can all. */
  note: string;
}

export interface Wanted {
  /** The server's first, if left out. */
  model?: string | undefined;
  /** How a turn is written, where the server does not render conversations. */
  turn?: string | undefined;
  /** It is to judge by letters, whatever else it can. */
  judge?: boolean | undefined;
}

const listed = shape({
  data: list(
    shape({
      id: text,
      owned_by: optional(text),
      max_model_len: optional(number),
      meta: optional(
        shape({ n_ctx: optional(number), n_params: optional(number), n_vocab: optional(number) }),
      ),
    }),
  ),
});

/**
 * Asks a server what it can. Throws Remote where it can nothing, or has no such model; and as the
 * server's `ask`.
 */
export async function probe(
  server: Server,
  { model: named, turn, judge = false }: Wanted,
  limit: Limit,
): Promise<Found> {
  const { host } = server;
  const answer = await unlessRefused(server.ask("models", undefined, limit));
  const known = answer === undefined ? [] : checked(() => listed(answer, "models"), host).data;
  const its = known.find(({ id }) => id === named) ?? (named === undefined ? known[0] : undefined);
  const model = named ?? its?.id;
  if (model === undefined)
    throw new RemoteFailure(`${host} does not tell which models it has. Name one.`);
  const kind = ({ llamacpp: "llama.cpp", vllm: "vLLM", conclave: "Conclave" } as const)[
    (its ?? known[0])?.owned_by ?? ""
  ];
  const facts = {
    model,
    kind,
    context: its?.max_model_len ?? its?.meta?.n_ctx ?? 0,
    parameters: its?.meta?.n_params ?? 0,
    vocabulary: its?.meta?.n_vocab ?? 0,
  };

  const judges = async (note: string): Promise<Found> => {
    if (!(await knowsLetters(byChat(server, facts), limit)))
      throw new RemoteFailure(
        `${model} at ${host} names no letter where it is asked for one${note === "" ? "" : `, and ${note}`}. Take another model.`,
      );
    return {
      ...facts,
      can: "judges only",
      scores: undefined,
      endToken: undefined,
      renderer: undefined,
      note,
    };
  };
  if (judge) return judges("");
  const renderer = turn === undefined ? await rendererOf(server, facts, limit) : byTurns(turn);
  if (!renderer) return judges("it does not tell its chat template: give `turn` to have it draft");
  const scores = await scoring(server, facts, limit);
  if (scores === "none") return judges("it continues no text");
  const endToken = scores === "forced" ? await endTokenOf(server, model, limit) : undefined;
  return {
    ...facts,
    can: scores ? "drafts and scores" : "drafts only",
    scores,
    endToken,
    renderer,
    note: scores ? "" : "it gives no log-probabilities of a text back",
  };
}

/** Whatever of the server's own renders conversations. */
async function rendererOf(
  server: Server,
  { model, kind }: Pick<Found, "model" | "kind">,
  limit: Limit,
): Promise<Renderer | undefined> {
  // llama.cpp's ends an answer by itself wherever its template does, also one that it is forced to
  // write.
  const template = await unlessRefused(byTemplate(server, model, kind === "Conclave", limit));
  return template ?? unlessRefused(byTokens(server, model, limit));
}

/**
 * What asks for the log-probabilities of a prompt. Of no tokens at all some servers make an error,
 * others no limit; an ensemble would draft and vote for one.
 */
export const echoing = (kind: Kind): object => ({
  max_tokens: kind === "Conclave" ? 0 : 1,
  temperature: 0,
  echo: true,
  logprobs: 1,
});

/** How it scores; `undefined` where it does not, `none` where it continues no text either. */
async function scoring(
  server: Server,
  { model, kind }: Pick<Found, "model" | "kind">,
  limit: Limit,
): Promise<Found["scores"] | "none"> {
  const { host } = server;
  const [prefix, candidates] = ["One, two, three,", [" four", " five, six"]];
  const body = { model, prompt: candidates.map((text) => prefix + text), ...echoing(kind) };
  try {
    const answer = await unlessRefused(server.ask("completions", body, limit));
    const echoes = answer === undefined ? undefined : choicesOf(answer, candidates.length, host);
    for (const [place, text] of candidates.entries())
      if (echoes) echoed(echoes[place]!, prefix, text, "", host);
    if (echoes) return "echo";
  } catch (error) {
    if (error instanceof Late || !(error instanceof RemoteFailure)) throw error;
  }
  try {
    if (kind === "llama.cpp") {
      const there = await server.ask(
        "tokenize",
        { content: candidates[0], add_special: false },
        limit,
        true,
      );
      const { tokens } = checked(() => tokenised(there, "answer"), host);
      const answer = await server.ask(
        "completions",
        {
          model,
          prompt: prefix,
          max_tokens: tokens.length + 1,
          temperature: 0,
          logprobs: 1,
          grammar: forcing(tokens),
        },
        limit,
      );
      const [choice] = choicesOf(answer, 1, host);
      forced(choice!, tokens, true, host);
      if (choice?.["text"] === candidates[0]) return "forced";
    }
  } catch (error) {
    if (error instanceof Late || !(error instanceof RemoteFailure)) throw error;
  }
  const draft = await unlessRefused(
    server.ask("completions", { model, prompt: prefix, max_tokens: 1 }, limit),
  );
  return draft === undefined ? "none" : undefined;
}

/**
 * What closes a turn at llama.cpp's server, whose model may have other tokens beside it that end an
 * answer.
 */
async function endTokenOf(
  server: Server,
  model: string,
  limit: Limit,
): Promise<number | undefined> {
  const template = await unlessRefused(byTemplate(server, model, true, limit));
  if (!template?.end) return undefined;
  const there = await server.ask(
    "tokenize",
    { content: template.end, add_special: false, parse_special: true },
    limit,
    true,
  );
  const { tokens } = checked(() => tokenised(there, "answer"), server.host);
  return tokens.length === 1 ? tokens[0] : undefined;
}

/**
 * What was asked for; undefined where the server has no such thing. A key that it refuses is an
 * error.
 */
async function unlessRefused<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Refused && error.status !== 401 && error.status !== 403) return undefined;
    throw error;
  }
}
