/** Markdown becomes the elements that a reader expects, and nothing that acts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseMarkdown, safeAddress, type Part } from "./parse.ts";

/** A tree as text: `p(one em(two))`; line breaks are `/`. */
function shown(parts: readonly Part[]): string {
  return parts
    .map((part) => {
      if ("text" in part) return part.text.replaceAll("\n", "/");
      const href = part.attributes?.["href"];
      return `${part.tag}${href ? `[${href}]` : ""}(${shown(part.children)})`;
    })
    .join("");
}

const cases: [string, string][] = [
  ["Just words.", "p(Just words.)"],
  ["a *b* **c** ~~d~~ `e f`", "p(a em(b) strong(c) del(d) code(e f))"],
  ["one\ntwo  \nthree", "p(one/two/three)"],
  ["- a\n- b\n  - c", "ul(li(p(a))li(p(b)ul(li(p(c)))))"],
  ["3. a\n4. b", "ol(li(p(a))li(p(b)))"],
  ["- [x] done\n- [ ] open", "ul(li(p(☑ done))li(p(☐ open)))"],
  ["> a\n> b", "blockquote(p(a/ b))"],
  [
    "| a | b |\n|---|--:|\n| 1 | **2** |\n|  | 3 |",
    "div(table(thead(tr(th(a)th(b)))tbody(tr(td(1)td(strong(2)))tr(td()td(3)))))",
  ],
  ["```py\nx = 1", "div(pre(code(x = 1)))"],
  ["---", "hr()"],
  ["\\*a\\* &amp; &lt;b&gt; &#65;&#x42; &bogus;", "p(*a* & <b> AB &bogus;)"],
  ["see [it](https://a.example/x) now", "p(see a[https://a.example/x](it) now)"],
  [
    "https://a.example and me@b.example",
    "p(a[https://a.example/](https://a.example) and a[mailto:me@b.example](me@b.example))",
  ],
  ["![a cat](https://a.example/cat.png)", "p(a[https://a.example/cat.png](a cat))"],
  ["f[0] and [1]", "p(f[0] and [1])"],
  ["a<br>b", "p(a/b)"],
  ["", ""],
];

test("what answers are written in becomes elements", () => {
  for (const [source, wanted] of cases) assert.equal(shown(parseMarkdown(source)), wanted, source);
});

test("raw HTML and links that act stay text", () => {
  const hostile: [string, string][] = [
    ["<script>alert(1)</script>", "p(<script>alert(1)</script>)"],
    ["a <img src=x onerror=alert(1)> b", "p(a <img src=x onerror=alert(1)> b)"],
    ["[x](javascript:alert(1))", "p(x)"],
    ["[x](JaVaScRiPt:alert(1))", "p(x)"],
    ["[x](java\tscript:alert(1))", "p([x](java\tscript:alert(1)))"],
    ["[x](data:text/html,<script>alert(1)</script>)", "p(x)"],
    ["![x](javascript:alert(1))", "p(x)"],
    ["<javascript:alert(1)>", "p(javascript:alert(1))"],
    ["[x](/relative)", "p(x)"],
  ];
  for (const [source, wanted] of hostile)
    assert.equal(shown(parseMarkdown(source)), wanted, source);
  for (const address of ["javascript:a", " javascript:a", "vbscript:a", "file:///a", "blob:x", "a"])
    assert.equal(safeAddress(address), undefined, address);
  assert.equal(safeAddress("www.a.example"), "https://www.a.example/");
});

test("headings skip no level, wherever an answer begins", () => {
  const levels = (source: string, top?: 2): string[] =>
    parseMarkdown(source, top).map((part) => ("tag" in part ? part.tag : ""));
  assert.deepEqual(levels("# a\n## b\n### c"), ["h3", "h4", "h5"]);
  assert.deepEqual(levels("### a\n# b\n### c\nd\n==="), ["h3", "h3", "h4", "h3"]);
  assert.deepEqual(levels("### a\n## b", 2), ["h2", "h3"]);
});

test("every text names its place in the source", () => {
  const source = [
    "# A *b*",
    "",
    "1. `c`",
    "   ```js",
    "   let d = 'e'; // f",
    "   g()",
    "   ```",
    "",
    "| h | [i](https://j.example) |",
    "|---|---|",
    "| k \\| l | m |",
    "",
    "> n",
    "> o",
  ].join("\n");
  let texts = 0;
  const look = (parts: readonly Part[]): void => {
    for (const part of parts) {
      if (!("text" in part)) look(part.children);
      else if (part.text.length === part.to - part.from) {
        assert.equal(source.slice(part.from, part.to), part.text);
        texts++;
      }
    }
  };
  look(parseMarkdown(source));
  assert.ok(texts > 15, String(texts));
});

test("an answer that is still being written keeps all its text, at every length", () => {
  const source = [
    "## Plan",
    "",
    "Take **two** `eggs`:",
    "",
    "- [ ] *beat* them",
    "- fry",
    "",
    "```js",
    "fry(2); // done",
    "```",
    "",
    "| a | b |",
    "|---|---|",
    "| 1 | 2 |",
    "",
  ].join("\n");
  const letters = (parts: readonly Part[]): string =>
    parts.map((part) => ("text" in part ? part.text : letters(part.children))).join("");
  for (let end = 1; end <= source.length; end++) {
    const part = source.slice(0, end);
    // The words are all there, whatever marks are still missing.
    for (const word of part.match(/[a-z]{3,}/gi) ?? [])
      if (!/^js?$/.test(word))
        assert.ok(letters(parseMarkdown(part)).includes(word), `${JSON.stringify(part)}: ${word}`);
  }
});

test("each block has the direction of its text, lists with all their items", () => {
  const directions = (parts: readonly Part[]): string[] =>
    parts.flatMap((part) =>
      "text" in part
        ? []
        : [...(part.attributes?.["dir"] ? [part.tag] : []), ...directions(part.children)],
    );
  const source = "a\n\n1. b\n   - c\n\n> d\n\n```\ne\n```\n\n| f |\n|---|\n| g |";
  assert.deepEqual(directions(parseMarkdown(source)), ["p", "ol", "blockquote", "div", "div"]);
  const code = parseMarkdown("```\ne\n```")[0];
  assert.ok(code && "tag" in code && code.attributes?.["dir"] === "ltr", "code runs to the right");
});
