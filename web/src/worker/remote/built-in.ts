/**
 * The browser's own language model as a judge by letters: it lives in the page, and is reached
 * through a port.
 */
import { parseSaid, type Asked } from "../../protocol/built-in.ts";
import { ContextFull, fromRecord, RemoteFailure } from "../../protocol/errors.ts";
import type { MemberSource, Request } from "../../protocol/messages.ts";
import { usualTimeout } from "../../protocol/remote.ts";
import { unlessAborted } from "../../protocol/unless-aborted.ts";
import { Judge, joining, knowsLetters, type Elsewhere } from "./judge.ts";
import { letterIn, letters, type NameLetter } from "./letters.ts";
import { Late, type Limit } from "./server.ts";

type BuiltInLine = NonNullable<Extract<Request, { type: "add" }>["builtIn"]>;

export class BuiltInJudge extends Judge {
  readonly #line: Line;

  private constructor(known: Elsewhere, line: Line, nameLetter: NameLetter) {
    super(known, nameLetter);
    this.#line = line;
  }

  /** Makes a member of the browser's model. Throws Remote if it names no letters. */
  static async connect(
    { name, timeout = usualTimeout }: MemberSource,
    { port, context }: BuiltInLine,
    signal: AbortSignal,
  ): Promise<BuiltInJudge> {
    const line = new Line(port, name);
    const nameLetter: NameLetter = async (question, n, limit) =>
      letterIn(await line.ask(question, [...letters.slice(0, n)], limit), n);
    try {
      if (!(await knowsLetters(nameLetter, joining(timeout, signal))))
        throw new RemoteFailure(
          `The browser's language model names no letter where ${name} is asked for one. ` +
            "Take another member.",
        );
    } catch (error) {
      line.close();
      throw error;
    }
    const remote = { host: "", model: "LanguageModel", can: "judges only", note: "" } as const;
    return new BuiltInJudge(
      { name, remote, context, parameters: 0, vocabulary: 0, timeoutMs: timeout },
      line,
      nameLetter,
    );
  }

  override free(): void {
    super.free();
    this.#line.close();
  }
}

/** The requesting end of the port. */
class Line {
  readonly #port: MessagePort;
  readonly #name: string;
  readonly #waiting = new Map<
    number,
    { resolve: (text: string) => void; reject: (error: unknown) => void }
  >();
  #next = 0;

  constructor(port: MessagePort, name: string) {
    this.#port = port;
    this.#name = name;
    port.onmessage = ({ data }) => {
      const said = parseSaid(data);
      const waiting = this.#waiting.get(said.id);
      if (said.type === "said") return waiting?.resolve(said.text);
      const error = fromRecord(said.error);
      // An immediate failure may not recur: it counts as late.
      waiting?.reject(
        error instanceof ContextFull ? error : new Late(`${error.message} Go on without ${name}.`),
      );
    };
  }

  /**
   * Its answer, constrained to one of these letters. Throws Late, ContextFull, or the signal's
   * reason.
   */
  async ask(question: string, letters: string[], { until, signal }: Limit): Promise<string> {
    const id = this.#next++;
    const time = AbortSignal.timeout(Math.max(0, Math.ceil(until - performance.now())));
    const answer = new Promise<string>((resolve, reject) =>
      this.#waiting.set(id, { resolve, reject }),
    );
    this.#port.postMessage({ type: "ask", id, question, letters } satisfies Asked);
    try {
      return await unlessAborted(answer, signal ? AbortSignal.any([signal, time]) : time);
    } catch (error) {
      this.#port.postMessage({ type: "stop", id } satisfies Asked);
      signal?.throwIfAborted();
      if (time.aborted)
        throw new Late(
          `The browser's language model did not answer ${this.#name} in time. ` +
            "Give it a longer `timeout`.",
        );
      throw error;
    } finally {
      this.#waiting.delete(id);
    }
  }

  close(): void {
    this.#port.close();
  }
}
