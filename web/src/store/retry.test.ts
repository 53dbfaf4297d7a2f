/** Waits: every case of the table that page and tool share. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { retryAfter, RetryableError, usualRetry, waitAfter } from "./retry.ts";

interface Table {
  retryAfter: { header: string; date?: string; seconds: number | null }[];
  waits: { status: number; retryAfter?: number; seconds: number[] }[];
}

const table = JSON.parse(
  readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}../tests/hub/waits.json`, "utf8"),
) as Table;

test("waits are those that page and tool agreed on", () => {
  for (const { header, date, seconds } of table.retryAfter) {
    const headers = new Headers({ "retry-after": header, ...(date === undefined ? {} : { date }) });
    assert.equal(retryAfter(headers), seconds === null ? undefined : seconds * 1000, header);
  }
  for (const { status, retryAfter: asked, seconds } of table.waits) {
    const setback = new RetryableError("busy", {
      slowDown: status === 429,
      waitMs: asked === undefined ? undefined : asked * 1000,
    });
    const waits = Array.from(
      { length: usualRetry.tries - 1 },
      (_, index) => waitAfter(setback, index + 1, usualRetry) / 1000,
    );
    assert.deepEqual(
      waits.filter((wait) => wait * 1000 <= usualRetry.patienceMs),
      seconds,
    );
  }
});
