/** Capabilities of a server, probed once when its member is added, by a small request for each. */
import { list, number, optional, shape, text } from "../../protocol/check.ts";
import { RemoteFailure } from "../../protocol/errors.ts";
import type { Capability } from "../../protocol/remote.ts";
import { byChat } from "./chat.ts";
import { knowsLetters } from "./judge.ts";
import { checked, choicesOf, echoed, forced, forcing } from "./logprobs.ts";
import { byTemplate, byTokens, byTurns, tokenised, type Renderer } from "./prompts.ts";
import { Late, Refused, type Limit, type Server } from "./server.ts";

/** Software with extensions of the protocol that are used here. */
export type Kind = "llama.cpp" | "vLLM" | "Conclave" | undefined;

/** Capabilities of a server. */
export interface Found {
  can: Capability;
  /** Way of scoring; undefined if it has none. */
  scores: "echo" | "forced" | undefined;
  /** The token that closes a turn, if tokens are forced and the server reports it. */
  endToken: number | undefined;
  /** Renderer of conversations; undefined for a judge. */
  renderer: Renderer | undefined;
  model: string;
  kind: Kind;
  /** Its context size in tokens; 0 if not reported. */
  context: number;
  parameters: number;
  vocabulary: number;
  /** Reason for limited capabilities; empty if there is no limit. */
  note: string;
}

export interface Wanted {
  /** Name of the model; by default the server's first. */
  model?: string | undefined;
  /** Format of a turn, if the server does not render conversations. */
  turn?: string | undefined;
  /** Whether it only judges, by letters, even if its server can do more. */
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
 * Probes a server's capabilities. Throws Remote if it lacks the model, or can neither draft nor
 * judge. Errors of `Server.ask` pass through.
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
    if (!(await knowsLetters(byChat(server, facts), limit))) {
      const also = note === "" ? "" : `, and ${note}`;
      throw new RemoteFailure(
        `${model} at ${host} names no letter where it is asked for one${also}. ` +
          "Take another model.",
      );
    }
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

/** The server's own renderer of conversations. */
async function rendererOf(
  server: Server,
  { model, kind }: Pick<Found, "model" | "kind">,
  limit: Limit,
): Promise<Renderer | undefined> {
  // llama.cpp's ends an answer by itself wherever its template does, even a forced one.
  const template = await unlessRefused(byTemplate(server, model, kind === "Conclave", limit));
  return template ?? unlessRefused(byTokens(server, model, limit));
}

/**
 * Options that request the log-probabilities of a prompt. Zero tokens are an error for some servers
 * and no limit for others; an ensemble would draft and vote for one.
 */
export const echoing = (kind: Kind): object => ({
  max_tokens: kind === "Conclave" ? 0 : 1,
  temperature: 0,
  echo: true,
  logprobs: 1,
});

/**
 * Probes the way of scoring; `undefined` if the server only continues texts, `none` if it does not
 * even do that.
 */
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

/** Token that closes a turn on llama.cpp's server, whose model may have other end tokens. */
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

/** Result of a request; undefined if the server lacks the endpoint. A refused key is an error. */
async function unlessRefused<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Refused && error.status !== 401 && error.status !== 403) return undefined;
    throw error;
  }
}
