/** Conversations in files: what goes out comes back. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { turnOf } from "../testing/kept-turn.ts";
import { fileName, fromFile, toJson, toMarkdown } from "./texts.ts";

const whole = {
  conversation: { id: "one", title: "Two questions", created: 5, changed: 9 },
  turns: [
    turnOf("How many?\n\n## Really?", ["Two", " of them.\n\n<!-- conclave question -->\nno"]),
    { ...turnOf("And now?", ["Three."]), at: 2 },
  ],
};

test("JSON keeps everything but the ids", () => {
  const back = fromFile(toJson(whole), 77);
  assert.notEqual(back.conversation.id, "one");
  assert.deepEqual(
    { ...back.conversation, id: "one" },
    { ...whole.conversation, changed: 77 },
    "it was created then, and came now",
  );
  assert.deepEqual(
    back.turns.map((turn, index) => ({ ...turn, id: whole.turns[index]!.id, conversation: "one" })),
    whole.turns,
  );
  assert.equal(new Set(back.turns.map(({ id }) => id)).size, 2);
});

test("Markdown keeps title, questions and answers, whatever they contain", () => {
  const text = toMarkdown(whole);
  assert.match(text, /^# Two questions$/m);
  assert.match(text, /^## And now\?$/m);
  for (const file of [text, text.replaceAll("\n", "\r\n")]) {
    const back = fromFile(file, 77);
    assert.equal(back.conversation.title, "Two questions");
    assert.deepEqual(
      back.turns.map(({ question, answer }) => [question, answer]),
      whole.turns.map(({ question, answer }) => [question, answer]),
    );
    assert.ok(back.turns[0]!.at < back.turns[1]!.at);
  }
});

test("Markdown has each question once: as its heading, or below one if it is long", () => {
  const long = `How many ${"very ".repeat(20)}small ones?`;
  const questions = [
    "How many?",
    "Question",
    "# 3?",
    long,
    "Two\nlines?",
    " wide ",
    "<!-- conclave answer -->",
    "\\<!-- conclave answer -->",
  ];
  const turns = questions.map((question) => turnOf(question, ["Two."]));
  const text = toMarkdown({ ...whole, turns });
  for (const question of ["How many?", long, "Two\nlines?"])
    assert.equal(text.split(question).length, 2, question);
  assert.match(text, /^## How many\?\n\n<!-- conclave answer -->$/m);
  assert.match(text, /^## Question\n\nTwo\nlines\?\n\n<!-- conclave answer -->$/m);
  const back = (file: string): string[] => fromFile(file).turns.map(({ question }) => question);
  assert.deepEqual(back(text), questions);
  const earlier = ["<!-- conclave conversation -->", "# Eggs", "", "<!-- conclave question -->"];
  earlier.push("## How many?", "", "How many?", "", "<!-- conclave answer -->", "Two.", "");
  assert.deepEqual(back(earlier.join("\n")), ["How many?"], "as files of earlier versions have it");
});

test("the name of an attached file is no part of a question that comes back", () => {
  const attached = { name: "a -->\nb.txt", text: "one", whole: 3 };
  const line = "<!-- conclave attached: notes.txt -->";
  const turns = [{ ...turnOf(`Which?\n${line}\nThis.`, [line]), attached }];
  const text = toMarkdown({ ...whole, turns });
  assert.match(text, /^<!-- conclave attached: a {3}b\.txt -->$/m);
  for (const file of [text, text.replaceAll("\n", "\r\n")])
    assert.deepEqual(
      fromFile(file).turns.map(({ question, answer }) => [question, answer]),
      [[turns[0]!.question, line]],
    );
});

test("separators of lines that Markdown has none of are part of the text", () => {
  const title = "One\u2028two";
  const attached = { name: "a\u2028b.txt", text: "one", whole: 3 };
  const line = "<!-- conclave attached: a\u2028b.txt -->";
  const questions = [title, `Three\u2029four`, `Which?\n${line}\nThis.`];
  const turns = questions.map((question) => ({ ...turnOf(question, ["Yes."]), attached }));
  const back = fromFile(toMarkdown({ conversation: { ...whole.conversation, title }, turns }));
  assert.equal(back.conversation.title, title);
  assert.deepEqual(
    back.turns.map(({ question }) => question),
    questions,
  );
});

test("a file that is no conversation is refused with the reason", () => {
  for (const [text, why] of [
    ["{", /it is no JSON/],
    ['{"format":"other"}', /conversation\.format must be/],
    ["# Some notes", /no conversation that this page has exported/],
    ["<!-- conclave conversation -->\n# Empty\n", /has no questions/],
  ] as const)
    assert.throws(() => fromFile(text), why);
});

test("a file's name is its title without what file systems refuse", () => {
  assert.equal(fileName("What is 3/4: “a half”?", "md"), "What is 34 a half.md");
  assert.equal(fileName("???", "json"), "conversation.json");
  assert.equal(fileName("हिन्दी में", "md"), "हिन्दी में.md", "with its combining marks");
  assert.equal(fileName("❤️", "md"), "conversation.md");
  assert.equal(fileName(`${"a".repeat(59)}𝒜`, "md"), `${"a".repeat(59)}.md`, "no half of it");
});
