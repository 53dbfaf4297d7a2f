import assert from "node:assert/strict";
import { test } from "node:test";
import { openAccess } from "./access.ts";

test("a file that is not opened in time is given up, and closed if it is opened later", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let closed = 0;
  let resolve: (access: { close(): void }) => void = () => undefined;
  const promise = new Promise<{ close(): void }>((settle) => (resolve = settle));
  const file = { name: "part", createSyncAccessHandle: () => promise };
  const opened = openAccess(file as unknown as FileSystemFileHandle);
  t.mock.timers.tick(3000);
  t.mock.timers.tick(100);
  await assert.rejects(opened, { name: "TimeoutError", message: /did not open part in 3 seconds/ });
  resolve({ close: () => void closed++ });
  await promise;
  assert.equal(closed, 1);
});

test("a file that is opened while this thread computes is not late", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let resolve: (access: unknown) => void = () => undefined;
  const promise = new Promise((settle) => (resolve = settle));
  const access = { close: () => assert.fail("it is in use") };
  const file = { name: "part", createSyncAccessHandle: () => promise };
  const opened = openAccess(file as unknown as FileSystemFileHandle);
  t.mock.timers.tick(3000);
  resolve(access);
  assert.equal(await opened, access);
});
