/**
 * The browser's own language model as a judge by letters: it lives in the page, and is reached
 * through a port. To the module of remote members it is a server that only chats.
 */
import { parseSaid, type Asked } from "../../protocol/built-in.ts";
import type { RemoteModule, Sent, Wire } from "../../protocol/engine.ts";
import { ContextFull, fromRecord } from "../../protocol/errors.ts";
import type { MemberSource, Request } from "../../protocol/messages.ts";
import { unlessAborted } from "../../protocol/unless-aborted.ts";
import { pause } from "../../store/retry.ts";
import { RemoteMember } from "./remote-member.ts";

type BuiltInLine = NonNullable<Extract<Request, { type: "add" }>["builtIn"]>;

/** The part of a request for a chat that is used here. */
interface Chat {
  messages: { content: string }[];
  structured_outputs: { choice: string[] };
}

/** Makes a member of the browser's model. Throws Remote if it names no letters. */
export async function connectBuiltIn(
  source: MemberSource,
  { port, context }: BuiltInLine,
  module: RemoteModule,
  signal: AbortSignal,
): Promise<RemoteMember> {
  const line = new Line(port);
  const elsewhere = {
    host: "",
    base: "http://localhost/v1",
    place: "The browser's language model",
    context,
    wire: (signal: AbortSignal) => line.wire(signal),
    close: () => port.close(),
  };
  return RemoteMember.at(elsewhere, { ...source, judge: true }, module, signal);
}

const json = (value: unknown, status = 200): Sent => ({
  status,
  body: new TextEncoder().encode(JSON.stringify(value)),
});

/** The requesting end of the port. */
class Line {
  readonly #port: MessagePort;
  readonly #waiting = new Map<number, (sent: Sent) => void>();
  #next = 0;

  constructor(port: MessagePort) {
    this.#port = port;
    port.onmessage = ({ data }) => {
      const said = parseSaid(data);
      const answered = this.#waiting.get(said.id);
      if (said.type === "said")
        return answered?.(json({ choices: [{ message: { content: said.text } }] }));
      const error = fromRecord(said.error);
      answered?.(
        error instanceof ContextFull
          ? json({ error: { message: "too long for its context" } }, 400)
          : { failed: "passing", why: error.message.replace(/\.$/, "") },
      );
    };
  }

  /** Answers the requests of one move as a server would. */
  wire(signal: AbortSignal): Wire {
    return {
      send: async (_url, body, _authorization, ms) =>
        body === undefined
          ? json({ data: [{ id: "LanguageModel", owned_by: "browser" }] })
          : this.#ask(JSON.parse(body) as Chat, AbortSignal.timeout(Math.ceil(ms)), signal),
      pause: (ms) => pause(ms, signal),
    };
  }

  /** Its answer, constrained to one of the letters. */
  async #ask(
    { messages, structured_outputs }: Chat,
    time: AbortSignal,
    signal: AbortSignal,
  ): Promise<Sent> {
    const id = this.#next++;
    const answer = new Promise<Sent>((resolve) => this.#waiting.set(id, resolve));
    const [question, letters] = [messages[0]?.content ?? "", structured_outputs.choice];
    this.#port.postMessage({ type: "ask", id, question, letters } satisfies Asked);
    try {
      return await unlessAborted(answer, AbortSignal.any([signal, time]));
    } catch {
      this.#port.postMessage({ type: "stop", id } satisfies Asked);
      return { failed: signal.aborted ? "stopped" : "late" };
    } finally {
      this.#waiting.delete(id);
    }
  }
}
