/** Invalid replies from a worker fail all pending requests, so that none waits for ever. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Port } from "../protocol/start-worker.ts";
import { Wire } from "./wire.ts";

/** A connection to a worker that answers nothing by itself. */
function line(): { wire: Wire; port: Port; ended: () => boolean } {
  let ended = false;
  const port: Port = {
    postMessage: () => undefined,
    terminate: () => void (ended = true),
    onmessage: null,
    onmessageerror: null,
    onerror: null,
  };
  return { wire: new Wire(port, "engine.js"), port, ended: () => ended };
}

const faults: [what: string, told: RegExp, happen: (port: Port) => void][] = [
  ["what can't be read", /can't be read here/, (port) => port.onmessageerror?.({} as MessageEvent)],
  [
    "what is no reply",
    /sent an invalid message/,
    (port) => port.onmessage?.({ data: { type: "nonsense", id: 1 } } as MessageEvent),
  ],
  ["an error", /unreachable/, (port) => port.onerror?.({ message: "unreachable" } as ErrorEvent)],
];

for (const [what, told, happen] of faults) {
  test(`a worker that sends ${what} fails all that wait for it, and all that comes after`, {
    timeout: 10_000,
  }, async () => {
    const { wire, port, ended } = line();
    const failed: Error[] = [];
    wire.listen(wire.id(), {
      reply: () => assert.fail(),
      fail: (error) => void failed.push(error),
    });
    const waiting = wire.request({ type: "models", id: wire.id() });
    happen(port);
    const wanted = { kind: "Engine", message: told };
    await assert.rejects(waiting, wanted);
    assert.match(failed.map(({ message }) => message).join(), told);
    assert.ok(ended(), "the worker is ended");
    await assert.rejects(wire.request({ type: "models", id: wire.id() }), wanted);
  });
}
