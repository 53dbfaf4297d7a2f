/**
 * Members on a server are there again after a reload. The page keeps their address, and a key only
 * if the visitor ticks the box for it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";
import { isAlone, writing } from "./with-writer.ts";

const stand = stage("none");
const key = "sk-very-secret-0123456789";
const writer = writing();
writer.answer = "It is still here.";

/** Keys of the requests from now on. */
function keysFrom(): () => string[] {
  const from = writer.asked.length;
  return () => {
    const keys = writer.asked.slice(from).map(({ headers }) => headers.authorization);
    return [...new Set(keys)].filter((each) => each !== undefined); // Preflights have none.
  };
}

const stored = ({ page }: Visitor): Promise<string> =>
  page.evaluate(() => JSON.stringify([localStorage, sessionStorage]));

async function reloads(keeps: boolean): Promise<void> {
  const visitor = await Visitor.arrive(stand.browser, stand.site, {
    also: new URL(writer.address).origin,
  });
  const { page } = visitor;
  if (keeps) {
    await page.locator("#add-model").click();
    await page.locator(".remote").evaluate((details: HTMLDetailsElement) => (details.open = true));
    await page.getByLabel("Address", { exact: true }).fill(writer.address);
    await page.getByLabel("Model", { exact: true }).fill("words");
    await page.getByLabel("Key", { exact: true }).fill(key);
    await page.getByLabel("Keep the key in this browser").check();
    assert.match(
      (await page.locator("#remote-hint").textContent()) ?? "",
      /The key is kept in this browser, as plain text, until the member is removed\.$/,
    );
    await page.getByRole("button", { name: "Ask it to join" }).click();
  } else await visitor.join({ base: writer.address, key, name: "words" });
  await isAlone(visitor, writer);
  assert.equal(await visitor.answer("Are you here?"), "It is still here.");
  assert.equal((await stored(visitor)).includes(key), keeps);
  const keys = keysFrom();
  await page.reload();
  await isAlone(visitor, writer);
  assert.equal(await visitor.answer("And now?"), "It is still here.");
  assert.deepEqual(keys(), keeps ? [`Bearer ${key}`] : []);
  assert.equal((await stored(visitor)).includes(key), keeps);
  await page.getByRole("button", { name: "Remove words" }).click();
  await page.locator('.member[data-state="ready"]').nth(2).waitFor();
  assert.ok(!(await stored(visitor)).includes(key), "it goes with its member");
  await page.reload();
  await visitor.state("ready");
  assert.equal(await page.locator(".member").count(), 3, "the toys");
  await visitor.leaveClean();
}

test("a member behind a server is there after a reload, without its key", () => reloads(false));

test("a member behind a server is there after a reload, with its key", () => reloads(true));

test("a server that asks for a key after a reload says so, and stays remembered", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site, {
    also: new URL(writer.address).origin,
  });
  const { page } = visitor;
  await visitor.join({ base: writer.address, key, name: "words" });
  await isAlone(visitor, writer);
  for (let time = 0; time < 4; time++)
    writer.faults.push({
      path: "",
      fault: {
        status: 401,
        headers: { "access-control-allow-origin": "*", "access-control-allow-headers": "*" },
      },
    });
  await page.reload();
  await page.locator(".member", { hasText: "asks for a key. Add words again" }).waitFor();
  assert.ok((await stored(visitor)).includes(writer.address));
  visitor.complaints.length = 0; // The browser reports each refusal.
  await visitor.leave();
});
