/** Attached PDFs say which of their pages go with a question. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isWhole, pagesOf } from "./extent.ts";

test("the pages that a cut text has are counted, with the one that is cut", () => {
  const pages = { all: 5, ends: [10, 30, 30, 60] };
  const cases: [length: number, said: string][] = [
    [60, "pages 1 to 4 of 5; 1 of them has no text"],
    [59, "pages 1 to 3 of 5, and a part of page 4; 1 of them has no text"],
    [30, "pages 1 to 3 of 5; 1 of them has no text"],
    [29, "page 1 of 5, and a part of page 2"],
    [10, "page 1 of 5"],
    [3, "a part of page 1 of 5"],
  ];
  for (const [length, said] of cases) assert.equal(pagesOf("x".repeat(length), pages), said);
  assert.equal(pagesOf("x".repeat(9), { all: 2, ends: [4, 9] }), "all 2 pages");
  assert.equal(pagesOf("x", { all: 1, ends: [1] }), "its one page");
  assert.equal(
    pagesOf("xx", { all: 4, ends: [0, 0, 1, 2] }),
    "all 4 pages; 2 of them have no text",
  );
});

test("a file is whole if no page and no character is left out", () => {
  const file = (length: number, all: number): boolean =>
    isWhole({ name: "a.pdf", text: "x".repeat(length), whole: 9, pages: { all, ends: [4, 9] } });
  assert.deepEqual([file(9, 2), file(8, 2), file(9, 3)], [true, false, false]);
  assert.ok(isWhole({ name: "a", text: "abc", whole: 3 }));
  assert.ok(!isWhole({ name: "a", text: "ab", whole: 3 }));
});
