/**
 * A model's files, read from another thread: ranges are requested through a MessagePort and
 * transferred without a copy. The store and its locks stay in the first thread.
 */
import { bytes, number, shape, text, variant } from "../protocol/check.ts";
import type { ModelFiles } from "../protocol/model-files.ts";

const range = shape({ id: number, file: number, offset: number, length: number });
const answer = variant({
  read: shape({ id: number, data: bytes }),
  failed: shape({ id: number, message: text }),
});

/** The serving end. */
interface Served {
  /** The other end, to be transferred. */
  port: MessagePort;
  /** Ends all reading. */
  close(): void;
}

export function serveFiles(files: ModelFiles): Served {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data }) => {
    const { id, file, offset, length } = range(data, "range");
    files.read(file, offset, length).then(
      // A view of a larger buffer is copied, since its other users are unknown here.
      (read) =>
        port1.postMessage(
          { type: "read", id, data: read },
          read.byteLength === read.buffer.byteLength ? [read.buffer] : [],
        ),
      (error: unknown) =>
        port1.postMessage({
          type: "failed",
          id,
          message: error instanceof Error ? error.message : String(error),
        }),
    );
  };
  return { port: port2, close: () => port1.close() };
}

/** The requesting end. */
export class PortFiles implements ModelFiles {
  readonly files: ModelFiles["files"];
  readonly handles?: readonly FileSystemFileHandle[];
  readonly #port: MessagePort;
  readonly #waiting = new Map<
    number,
    { resolve: (data: Uint8Array) => void; reject: (error: Error) => void }
  >();
  #next = 0;

  constructor(
    files: ModelFiles["files"],
    port: MessagePort,
    handles?: readonly FileSystemFileHandle[],
  ) {
    this.files = files;
    if (handles) this.handles = handles;
    this.#port = port;
    port.onmessage = ({ data }) => {
      const reply = answer(data, "answer");
      const waiting = this.#waiting.get(reply.id);
      this.#waiting.delete(reply.id);
      if (reply.type === "read") waiting?.resolve(reply.data);
      else waiting?.reject(new Error(reply.message));
    };
  }

  read(file: number, offset: number, length: number): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      const id = this.#next++;
      this.#waiting.set(id, { resolve, reject });
      this.#port.postMessage({ id, file, offset, length });
    });
  }

  close(): void {
    this.#port.close();
  }
}
