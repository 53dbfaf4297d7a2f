/**
 * A server of the OpenAI protocol for tests, over real HTTP: its model writes what a test sets, a
 * word a token, and fails on demand. Real servers are tested in tests/browser/remote.test.ts.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A failure in place of a response. */
export type Fault =
  | { status: number; headers?: Record<string, string>; body?: string }
  | "hang"
  | "cut"
  | "garbage"
  | "endless"
  | { after: number };

export interface Abilities {
  completions?: boolean;
  echo?: boolean;
  chat?: boolean;
  template?: boolean;
  models?: boolean;
}

interface Asked {
  path: string;
  body: Record<string, unknown>;
  headers: IncomingMessage["headers"];
}

/** Words with the white space before them. */
const words = (text: string): string[] => text.match(/\s*\S+|\s+$/g) ?? [];

/** Rest of an answer after the part that a prompt ends with. */
function rest(answer: string, prompt: string): { text: string; ends: boolean } {
  const begun = prompt.slice(prompt.lastIndexOf("<assistant>") + "<assistant>".length);
  return { text: answer.startsWith(begun) ? answer.slice(begun.length) : "", ends: true };
}

export class OpenAiServer {
  #server: Server | undefined;
  readonly #can: Required<Abilities>;
  port = 0;
  readonly asked: Asked[] = [];
  /** Requests whose connection was closed before the response. */
  given = 0;
  /** Faults of the next requests to paths with these endings, in order. */
  readonly faults: { path: string; fault: Fault }[] = [];
  /** Its next output, word for word. `ends`: whether the answer ends there. */
  writes = { text: " and so on", ends: false };
  /** A whole answer, written piece by piece instead of `writes`. */
  answer: string | undefined;
  /** Time that each completion takes, in ms. */
  pace = 0;
  /** The letter that it names for a ballot. */
  names: (ballot: string) => string = () => "A";
  /** Tokens that it thinks before it names a letter. */
  thinks = 0;
  /** Whether it refuses `max_tokens` and any temperature but its own, as services that think do. */
  insists = false;
  /** The log-probability of a word. */
  likes: (word: string) => number = (word) => -word.length / 10;

  constructor(can: Abilities = {}) {
    this.#can = { completions: true, echo: true, chat: true, template: true, models: true, ...can };
  }

  get address(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  async open(): Promise<this> {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.listen(this.port, "127.0.0.1");
    await once(this.#server, "listening");
    this.port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections();
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  /** Bodies of the requests to a path. */
  bodies(path: string): Record<string, unknown>[] {
    return this.asked.filter((asked) => asked.path.endsWith(path)).map(({ body }) => body);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const piece of request) text += String(piece);
    const path = request.url ?? "";
    const body = text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
    this.asked.push({ path, body, headers: request.headers });
    response.on("close", () => void (this.given += Number(!response.writableEnded)));
    const place = this.faults.findIndex((each) => path.endsWith(each.path));
    const fault = place < 0 ? undefined : this.faults.splice(place, 1)[0]!.fault;
    if (fault === "hang") return;
    if (fault === "cut")
      return void response
        .writeHead(200, { "content-length": 1000 })
        .write('{"choices":[', () => response.destroy());
    if (fault === "garbage") return void response.end("<!doctype html>");
    if (fault === "endless") {
      const piece = Buffer.alloc(1 << 20, " ");
      const write = (): void => {
        while (!response.destroyed && response.write(piece));
        if (!response.destroyed) response.once("drain", write);
      };
      return write();
    }
    if (fault && "status" in fault)
      return void response.writeHead(fault.status, fault.headers).end(fault.body);
    if (fault) await new Promise((resolve) => setTimeout(resolve, fault.after));
    const anywhere = {
      "access-control-allow-origin": "*",
      "access-control-allow-headers": "*",
      "access-control-allow-private-network": "true",
    };
    if (request.method === "OPTIONS") return void response.writeHead(204, anywhere).end();
    if (this.pace > 0 && path.endsWith("/completions"))
      await new Promise((resolve) => setTimeout(resolve, this.pace));
    const refused = this.insists && ["max_tokens", "temperature"].find((name) => name in body);
    if (refused && path === "/v1/chat/completions") {
      const message = `Unsupported parameter: '${refused}' is not supported with this model.`;
      response.writeHead(400, anywhere).end(JSON.stringify({ error: { message } }));
      return;
    }
    const answer = this.#of(path, body);
    response
      .writeHead(answer === undefined ? 404 : 200, {
        ...anywhere,
        "content-type": "application/json",
      })
      .end(JSON.stringify(answer ?? { error: { message: "no such path" } }));
  }

  #of(path: string, body: Record<string, unknown>): object | undefined {
    if (path === "/v1/models" && this.#can.models)
      return { object: "list", data: [{ id: "words", object: "model", max_model_len: 512 }] };
    if (path === "/apply-template" && this.#can.template)
      return {
        prompt: (body["messages"] as { role: string; content: string }[])
          .map(({ role, content }) => `<${role}>${content}`)
          .concat("<assistant>")
          .join(""),
      };
    if (path === "/v1/chat/completions" && this.#can.chat) {
      const most = (body["max_tokens"] ?? body["max_completion_tokens"]) as number;
      const cut = this.thinks >= most;
      const asked = (body["messages"] as { content: string }[]).at(-1)!.content;
      return {
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: cut ? "" : this.names(asked) },
            finish_reason: cut ? "length" : "stop",
          },
        ],
      };
    }
    if (path !== "/v1/completions" || !this.#can.completions) return undefined;
    const prompts = [body["prompt"]].flat() as string[];
    const most = body["max_tokens"] as number;
    const { text, ends: last } =
      this.answer === undefined ? this.writes : rest(this.answer, prompts[0] ?? "");
    const written = words(text).slice(0, most);
    const ends = last && written.length === words(text).length && written.length < most;
    const choices = prompts.map((prompt, index) => {
      const tokens = [
        ...(body["echo"] === true && this.#can.echo ? words(prompt) : []),
        ...written,
      ];
      return {
        index,
        text: tokens.join(""),
        finish_reason: ends ? "stop" : "length",
        logprobs: {
          tokens,
          token_logprobs: tokens.map((token, place) => (place === 0 ? null : this.likes(token))),
        },
      };
    });
    return { choices, usage: { completion_tokens: written.length + Number(ends) } };
  }
}
