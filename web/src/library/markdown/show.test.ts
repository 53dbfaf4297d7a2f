/** Shown answers: each part in its segment, elements kept while the answer grows, code by kind. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { colourCode } from "./code.ts";
import { copiedCode, showMarkdown } from "./show.ts";

const { window, document } = parseHTML("<!doctype html><html><body></body></html>");
Object.assign(globalThis, { window, document, Element: window.Element });

const host = (): HTMLElement => document.createElement("div") as unknown as HTMLElement;
const written = (...texts: string[]) =>
  texts.map((text, index) => ({
    text,
    attributes: { class: `segment s${index}`, "data-round": String(index + 1) },
  }));
/** Text of each segment, joined over its elements. */
function credited(shown: HTMLElement): Record<string, string> {
  const found: Record<string, string> = {};
  for (const part of shown.querySelectorAll<HTMLElement>(".segment"))
    found[part.dataset["round"]!] = (found[part.dataset["round"]!] ?? "") + part.textContent;
  return found;
}

test("each part is credited to its segment, across elements and inside them", () => {
  const shown = host();
  showMarkdown(
    shown,
    written("Take **two", " eggs** and\n\n- sa", "lt\n- pepper\n\n```py\nx = ", "1\n```"),
  );
  assert.deepEqual(credited(shown), {
    "1": "Take two",
    "2": " eggs andsa",
    "3": "ltpepperx = ",
    "4": "1",
  });
  assert.equal(shown.querySelector("strong")?.children.length, 2, "two wrote the bold words");
  assert.deepEqual(
    [...shown.querySelectorAll("li")].map((item) => item.textContent),
    ["salt", "pepper"],
  );
});

test("an escape or entity belongs to the segment that begins it", () => {
  const shown = host();
  showMarkdown(shown, written("a &am", "p; b"));
  assert.equal(shown.textContent, "a & b");
  assert.deepEqual(credited(shown), { "1": "a &", "2": " b" });
});

test("elements stay while the answer grows, and only what is new is added", () => {
  const shown = host();
  showMarkdown(shown, written("One.\n\n- two"));
  const [first, list] = [...shown.children];
  const words = first!.querySelector(".segment");
  words!.setAttribute("tabindex", "0");
  showMarkdown(shown, written("One.\n\n- two", " and a half\n- three"));
  assert.equal(shown.children[0], first);
  assert.equal(shown.children[1], list);
  assert.equal(first!.querySelector(".segment"), words);
  assert.equal(words!.getAttribute("tabindex"), "0");
  assert.equal(list!.querySelectorAll("li").length, 2);
  showMarkdown(shown, written("Other"));
  assert.equal(shown.textContent, "Other");
  assert.equal(shown.children.length, 1);
});

test("code keeps its text, with a button that copies it", () => {
  const shown = host();
  const code = 'def f(a):\n    return a + 1  # "one"\n';
  showMarkdown(shown, written("```python\n", code, "```\n"));
  const block = shown.querySelector(".code")!;
  assert.equal(block.querySelector(".code-head span")?.textContent, "python");
  assert.equal(block.querySelector("code")?.textContent, code.trimEnd());
  assert.equal(copiedCode(block.querySelector("button")), code.trimEnd());
  assert.equal(copiedCode(block.querySelector("code")), undefined);
  const kinds = [...block.querySelectorAll("code span")].map((part) => [
    /code-(\w+)/.exec(part.className)?.[1],
    part.textContent,
  ]);
  assert.deepEqual(
    kinds.filter(([kind]) => kind),
    [
      ["keyword", "def"],
      ["keyword", "return"],
      ["number", "1"],
      ["comment", '# "one"'],
    ],
  );
});

test("colouring loses no character and never hangs", () => {
  const codes = ["'open", '"a\\', "/* x", "`a$b`", "a'b'c", "--x", "#", "\\'", "'''a\nb"];
  for (const code of [...codes, codes.join("\n").repeat(200)])
    for (const language of ["", "js", "py", "sql", "html"])
      assert.equal(
        colourCode(code, language)
          .map(({ text }) => text)
          .join(""),
        code,
      );
  assert.deepEqual(colourCode("SELECT a -- b", "sql"), [
    { text: "SELECT", kind: "keyword" },
    { text: " a " },
    { text: "-- b", kind: "comment" },
  ]);
});
