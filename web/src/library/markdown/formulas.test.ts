/** Formulas in Markdown are found, and nothing else is taken for one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseMarkdown, type Part } from "./parse.ts";

/** TeX of all formulas, those on their own in brackets. */
function found(source: string): string[] {
  const look = (parts: readonly Part[]): string[] =>
    parts.flatMap((part) => {
      if ("text" in part) return [];
      const { formula, children } = part;
      if (!formula) return look(children);
      return [formula.display ? `[${formula.tex}]` : formula.tex];
    });
  return look(parseMarkdown(source));
}
const letters = (parts: readonly Part[]): string =>
  parts.map((part) => ("text" in part ? part.text : letters(part.children))).join("");

test("formulas are found in lines and on their own", () => {
  const cases: [source: string, formulas: string[]][] = [
    ["Since $x^2$, and $y_1*z_2*w$.", ["x^2", "y_1*z_2*w"]],
    ["so \\(a_b\\) and \\[c\\] end", ["a_b", "[c]"]],
    ["then $$E = mc^2$$ holds", ["[E = mc^2]"]],
    ["$$\na\n- b\n+ c\n$$\nand so on", ["[a\n- b\n+ c]"]],
    [
      "Text before:\n\\[\nx = \\frac{1}{2} \\\\\n= y\n\\]\n\nafter",
      ["[x = \\frac{1}{2} \\\\\n= y]"],
    ],
    ["1. first\n   $$\n   x\n   - y\n   $$\n2. second", ["[x\n- y]"]],
    ["> $$\n> a\n> b\n> $$\n\nc", ["[a\nb]"]],
    ["| a |\n|---|\n| $x$ |", ["x"]],
    ["it is $42$, **$k$** and ($n$)", ["42", "k", "n"]],
    ["$\\$5 + x$", ["\\$5 + x"]],
    ["$|x| = 3$", ["|x| = 3"]],
    ["$2 \\cdot 3$ and $2 x$-ish", ["2 \\cdot 3"]],
  ];
  for (const [source, formulas] of cases) assert.deepEqual(found(source), formulas, source);
});

test("money, variables, code and unclosed marks stay text", () => {
  const cases = [
    "It costs $5 and $6.",
    "between $5 and 10$ a day",
    "$5-$6, $1,000 or US$5 and CA$6",
    "$20/month, then $30/month",
    "from $5 (US$) to $7",
    "echo $HOME and $PATH, $HOME/$USER",
    "a $ b $ c",
    "`$x$` and ``\\(x\\)``",
    "```\n$$\nx\n$$\n```",
    "\\$x\\$",
    "$$ $$ and \\( \\)",
    "an open $x",
    "open \\(x",
    "open $$x",
    `$${"x".repeat(3000)}$`,
  ];
  for (const source of cases) assert.deepEqual(found(source), [], source);
  assert.equal(letters(parseMarkdown("It costs $5 and $6.")), "It costs $5 and $6.");
});

test("a formula that is still being written is its source, and swallows no more than it", () => {
  assert.equal(letters(parseMarkdown("$$\na_b*c*d\n- e")), "$$\na_b*c*d\n- e");
  assert.deepEqual(found("$$\nx\n\nA paragraph with $y$.\n\n$$\nz\n$$"), ["y", "[z]"]);
  assert.equal(letters(parseMarkdown("- a\n  $$\n  x\n- b")), "a$$\nxb");
  const whole = "So:\n\n\\[\nx_1 = 2\n\\]\n\nand $y$.\n";
  for (let end = 1; end <= whole.length; end++)
    assert.ok(letters(parseMarkdown(whole.slice(0, end))).length > 0, whole.slice(0, end));
});
