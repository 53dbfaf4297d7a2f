/**
 * Writes docs/library.md from the doc comments of the library's exports; `--check` only checks that
 * the file is up to date. Reads types with the compiler, so that no other tool is needed.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const web = fileURLToPath(new URL("..", import.meta.url));
const target = fileURLToPath(new URL("../../docs/library.md", import.meta.url));
/** The chapters in order, each with the files whose exports it holds. */
const chapters = [
  [
    "Loading and asking",
    [
      "library/call-options.ts",
      "library/conclave.ts",
      "library/conversation.ts",
      "library/response-format.ts",
      "protocol/backend.ts",
    ],
  ],
  ["The element", ["library/element.ts"]],
  ["As OpenAI's client", ["library/openai.ts", "library/answer.ts"]],
  ["As a model of the AI SDK", ["library/ai-sdk.ts"]],
  ["As the browser's LanguageModel", ["library/language-model.ts"]],
  ["In React", ["library/react.ts", "library/react-chat.ts"]],
  ["Members, events and downloads", ["protocol/messages.ts"]],
  [
    "What the engine says and takes",
    ["protocol/engine.ts", "protocol/generated.ts", "protocol/remote.ts"],
  ],
  ["Errors", ["protocol/errors.ts"]],
  ["References and lists of members", ["store/reference.ts", "store/load.ts"]],
  ["Underneath", ["library/wire.ts"]],
];

const { config } = ts.readConfigFile(`${web}tsconfig.json`, ts.sys.readFile);
const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, web);
const scripts = ["conclave", "element", "openai", "ai-sdk", "language-model", "react"];
const entries = scripts.map((name) => `${web}src/library/${name}.ts`);
const program = ts.createProgram(entries, options);
const checker = program.getTypeChecker();
const flags = ts.TypeFormatFlags.NoTruncation;

/** Every exported symbol once, by its declaration. */
const exported = new Set(
  entries
    .flatMap((entry) =>
      checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry))),
    )
    .map((symbol) =>
      symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
    ),
);
const fileOf = (symbol) =>
  symbol.declarations[0].getSourceFile().fileName.slice(`${web}src/`.length);

/** A doc comment as one line of Markdown; links become code. */
function docOf(parts) {
  const text = ts.displayPartsToString(parts).replace(/\{@link ([^}]+?)\s*\}/g, "`$1`");
  return text.replace(/\s*\n\s*/g, " ").trim();
}
const symbolDoc = (symbol) => docOf(symbol.getDocumentationComment(checker));
const nodeDoc = (node) =>
  ts
    .getJSDocCommentsAndTags(node)
    .map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? "")
    .join(" ")
    .replace(/\s*\n\s*/g, " ")
    .trim();
const typeText = (type, node) => checker.typeToString(type, node, flags);
const cell = (text) => text.replaceAll("|", "\\|");

/**
 * Shapes with types written out in `protocol/generated.ts`, `protocol/engine.ts` and
 * `protocol/errors.ts`, by name.
 */
const namedShapes = {
  about: "About",
  adapter: "Adapter",
  failure: "ErrorRecord",
  message: "Message",
  ranges: "Ranges",
  rules: "Rules",
  sampling: "Sampling",
  score: "Score",
  settings: "Settings",
  thinking: "Thinking",
};
const plainChecks = { text: "string", flag: "boolean", number: "number", blob: "Blob" };

/** Declaration of an identifier, through imports and shorthand fields. */
function declarationOf(node) {
  const symbol = ts.isShorthandPropertyAssignment(node.parent)
    ? checker.getShorthandAssignmentValueSymbol(node.parent)
    : checker.getSymbolAtLocation(node);
  return (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol)
    .valueDeclaration;
}

/** The fields of a call `shape({…})` or `shape(name)`. */
function fieldsOf(call) {
  const [fields] = call.arguments;
  return (ts.isIdentifier(fields) ? declarationOf(fields).initializer : fields).properties;
}
const checkOf = (field) => field.initializer ?? field.name;
const isOptional = (field) =>
  ts.isCallExpression(checkOf(field)) && checkOf(field).expression.text === "optional";
const named = (field) => `${field.name.text}${isOptional(field) ? "?" : ""}`;

/**
 * The type that a check makes: `list(nullable(text))` is `(string | null)[]`. Exported shapes are
 * named.
 */
function checkText(node) {
  if (ts.isIdentifier(node)) {
    const declaration = declarationOf(node);
    if (declaration.getSourceFile().fileName.endsWith("/check.ts")) return plainChecks[node.text];
    return (
      typeOfShape.get(declaration) ?? namedShapes[node.text] ?? checkText(declaration.initializer)
    );
  }
  const [first, second] = node.arguments;
  const inner = () => checkText(first);
  switch (node.expression.text) {
    case "within":
    case "whole":
      return `number, ${first.getText()} to ${second.getText().replace("Number.MAX_SAFE_INTEGER", "2 ** 53 - 1")}`;
    case "oneOf":
      return ts.isSpreadElement(first)
        ? "ErrorKind"
        : node.arguments.map((one) => one.getText()).join(" | ");
    case "optional":
      return inner();
    case "nullable":
      return `${inner()} | null`;
    case "list":
      return /[|,]/.test(inner()) && !inner().startsWith("{") ? `(${inner()})[]` : `${inner()}[]`;
    case "shape":
    case "exact":
      return `{ ${fieldsOf(node)
        .map((field) => `${named(field)}: ${checkText(checkOf(field))}`)
        .join("; ")} }`;
    default:
      throw new Error(`${node.getText()} is no check that this script knows`);
  }
}

/**
 * The check that a type alias is made of: `Checked<typeof NAME>`, or one variant of such, with its
 * comment.
 */
function shapeOf(declaration) {
  const { type } = declaration;
  if (!type || !ts.isTypeReferenceNode(type)) return undefined;
  const [first, second] = type.typeArguments ?? [];
  if (type.typeName.text === "Checked") {
    const variable = declarationOf(first.exprName);
    return { variable, doc: nodeDoc(variable), call: variable.initializer };
  }
  if (type.typeName.text === "Extract") {
    const of = checker.getSymbolAtLocation(first.typeName).declarations[0];
    const variant = second.members[0].type.literal.text;
    const property = shapeOf(of)?.call.arguments[0].properties.find(
      (one) => one.name.text === variant,
    );
    return property && { variant, doc: nodeDoc(property), call: property.initializer };
  }
  return undefined;
}
const typeOfShape = new Map(
  [...exported].flatMap((symbol) => {
    const [declaration] = symbol.declarations;
    const variable = ts.isTypeAliasDeclaration(declaration) && shapeOf(declaration)?.variable;
    return variable ? [[variable, symbol.name]] : [];
  }),
);

/** The fields of a shape as a table, in order. */
function shapeFields({ call, variant }) {
  const rows = fieldsOf(call).map(
    (field) =>
      `| \`${named(field)}\` | \`${cell(checkText(checkOf(field)))}\` | ${cell(nodeDoc(field))} |`,
  );
  const type = variant ? [`| \`type\` | \`"${variant}"\` | |`] : [];
  return ["| field | type | |", "|---|---|---|", ...type, ...rows].join("\n");
}

/**
 * The fields of an interface as a table, types as written; without those inherited from another
 * package.
 */
function fields(type) {
  const own = checker
    .getPropertiesOfType(type)
    .filter(({ declarations }) =>
      declarations[0].getSourceFile().fileName.startsWith(`${web}src/`),
    );
  const rows = own.map((property) => {
    const [declaration] = property.declarations;
    const optional = property.flags & ts.SymbolFlags.Optional ? "?" : "";
    const written = ts.isMethodSignature(declaration)
      ? declaration.getText().slice(property.name.length)
      : declaration.type.getText();
    return `| \`${property.name}${optional}\` | \`${cell(written.replace(/;$/, ""))}\` | ${cell(symbolDoc(property))} |`;
  });
  return ["| field | type | |", "|---|---|---|", ...rows].join("\n");
}

/** A declaration without its body. */
function signature(node) {
  const copy = node
    .getText()
    .slice(0, node.body ? node.body.pos - node.pos - node.getLeadingTriviaWidth() : undefined);
  const type =
    node.initializer && ts.isPropertyDeclaration(node) && !node.type
      ? `: ${typeText(checker.getTypeAtLocation(node), node)}`
      : "";
  return `${copy
    .replace(/\s*\n\s*/g, " ")
    .replace(/;$/, "")
    .trim()}${type}`;
}

/** The public members of a class, each with its comment. */
function members(declaration) {
  const open = declaration.members.filter((member) => {
    const hidden =
      ts.getCombinedModifierFlags(member) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected);
    return (
      !hidden &&
      !ts.isConstructorDeclaration(member) &&
      !(member.name && ts.isPrivateIdentifier(member.name)) &&
      member.name?.getText() !== "disconnectedCallback"
    );
  });
  return open
    .map((member) =>
      [`\`\`\`ts\n${signature(member)}\n\`\`\``, nodeDoc(member)].filter(Boolean).join("\n"),
    )
    .join("\n\n");
}

function describe(symbol) {
  const declaration = symbol.declarations[0];
  const shape = ts.isTypeAliasDeclaration(declaration) ? shapeOf(declaration) : undefined;
  const parts = [`### ${symbol.name}`, symbolDoc(symbol) || shape?.doc || ""];
  if (ts.isClassDeclaration(declaration)) {
    const base = declaration.heritageClauses?.[0]?.types[0]?.getText();
    parts[1] ||= base ? `Extends \`${base}\`.` : "";
    parts.push(members(declaration));
  } else if (ts.isInterfaceDeclaration(declaration))
    parts.push(fields(checker.getDeclaredTypeOfSymbol(symbol)));
  else if (shape?.call.expression.text === "variant")
    parts.push("One of the events below, told apart by `type`.");
  else if (["shape", "exact"].includes(shape?.call.expression.text)) parts.push(shapeFields(shape));
  else if (shape) parts.push(`\`\`\`ts\ntype ${symbol.name} = ${checkText(shape.call)};\n\`\`\``);
  else if (ts.isTypeAliasDeclaration(declaration)) {
    parts.push(`\`\`\`ts\n${declaration.getText().replace(/^export /, "")}\n\`\`\``);
  } else if (ts.isFunctionDeclaration(declaration))
    parts.push(`\`\`\`ts\n${signature(declaration).replace(/^export /, "")}\n\`\`\``);
  else parts.push(`\`\`\`ts\nconst ${declaration.getText()}\n\`\`\``);
  return parts.filter(Boolean).join("\n\n");
}

const place = (symbol, order) => order.indexOf(fileOf(symbol));
const text = chapters.map(([title, files]) => {
  const here = [...exported].filter((symbol) => files.includes(fileOf(symbol)));
  here.sort(
    (a, b) => place(a, files) - place(b, files) || a.declarations[0].pos - b.declarations[0].pos,
  );
  return [`## ${title}`, ...here.map(describe)].join("\n\n");
});
const elsewhere = [...exported].filter(
  (symbol) => !chapters.some(([, files]) => files.includes(fileOf(symbol))),
);
if (elsewhere.length > 0)
  throw new Error(
    `no chapter has ${elsewhere.map((symbol) => `${symbol.name} of ${fileOf(symbol)}`).join(", ")}`,
  );
const page = `# The library

Everything that ${scripts
  .map((name) => `\`${name}.js\``)
  .join(", ")
  .replace(/, (?=[^,]*$)/, " and ")} export. [embedding.md](embedding.md) shows how to use it. This
page is written by \`npm run docs\` in \`web/\` from the comments of the sources: change those.

${text.join("\n\n")}
`;
const found = (() => {
  try {
    return readFileSync(target, "utf8");
  } catch {
    return undefined;
  }
})();
if (found === page) console.log("docs/library.md is up to date");
else if (process.argv.includes("--check")) {
  console.error("docs/library.md is not what the sources say: run `npm run docs` in web/");
  process.exit(1);
} else writeFileSync(target, page);
