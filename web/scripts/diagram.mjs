/**
 * Draws the diagram of ARCHITECTURE.md as docs/architecture/parts.svg, for readers whose program
 * draws no Mermaid: the book, editors, the package's pages. `--check` only compares.
 */
import dagre from "@dagrejs/dagre";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));
const file = `${root}docs/architecture/parts.svg`;

const source = readFileSync(`${root}ARCHITECTURE.md`, "utf8");
const [, drawing] = /```mermaid\nflowchart TD\n(.*?)```/s.exec(source) ?? [];
if (drawing === undefined) throw new Error("ARCHITECTURE.md has no diagram.");

/** Longest line of a box, in characters. */
const most = 19;
const lineHeight = 16;
/** Width of a character at 12 pixels, on average; a box has some room to spare. */
const characterWidth = 6.7;
const padding = 8;

/** A description in lines of at most {@link most} characters. */
function wrapped(text) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (longer.length <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

const graph = new dagre.graphlib.Graph();
graph.setGraph({ rankdir: "TB", nodesep: 10, ranksep: 30, edgesep: 6, marginx: 8, marginy: 8 });
graph.setDefaultEdgeLabel(() => ({}));

/** Names a node where its label is given; returns its id. */
function node(end) {
  const [, id, label] = /^(\w+)(?:\["(.+)"\])?$/.exec(end.trim()) ?? [];
  if (id === undefined) throw new Error(`ARCHITECTURE.md: ${end} is no box.`);
  if (label !== undefined) {
    const [name, about] = label.split(" — ");
    const lines = [name, ...wrapped(about ?? "")];
    // The name is bold.
    const longest = Math.max(name.length * 1.08, ...lines.map((line) => line.length));
    graph.setNode(id, {
      lines,
      width: Math.round(longest * characterWidth) + 2 * padding,
      height: lines.length * lineHeight + 2 * padding,
    });
  }
  return id;
}

for (const line of drawing.trim().split("\n")) {
  const [, from, label, to] = /^\s*(.+?) (?:-->|-\. (\w+) \.->) (.+)$/.exec(line) ?? [];
  if (from === undefined) throw new Error(`ARCHITECTURE.md: ${line} is no arrow.`);
  graph.setEdge(node(from), node(to), label === undefined ? {} : { label, dashed: true });
}
const unnamed = graph.nodes().filter((id) => graph.node(id) === undefined);
if (unnamed.length > 0) throw new Error(`ARCHITECTURE.md: ${unnamed.join(", ")} has no label.`);
dagre.layout(graph);

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const at = (number) => String(Math.round(number));

function box(id) {
  const { x, y, width, height, lines } = graph.node(id);
  const top = y - height / 2 + padding + 12;
  const texts = lines.map(
    (line, place) =>
      `<text x="${at(x)}" y="${at(top + place * lineHeight)}"${place === 0 ? ' class="name"' : ""}>${escaped(line)}</text>`,
  );
  return `<rect x="${at(x - width / 2)}" y="${at(y - height / 2)}" width="${at(width)}" height="${at(height)}" rx="6"/>\n${texts.join("\n")}`;
}

/** An arrow as a smooth line through the points of the layout. */
function arrow(edge) {
  const { points, dashed, label } = graph.edge(edge);
  const [first, ...others] = points;
  const middle = (a, b) => `${at((a.x + b.x) / 2)} ${at((a.y + b.y) / 2)}`;
  const last = others.at(-1);
  const curves = others
    .slice(0, -1)
    .map((point, place) => `Q${at(point.x)} ${at(point.y)} ${middle(point, others[place + 1])}`);
  const path = `M${at(first.x)} ${at(first.y)} ${curves.join(" ")} L${at(last.x)} ${at(last.y)}`;
  const line = `<path d="${path}"${dashed ? ' stroke-dasharray="4 3"' : ""} marker-end="url(#tip)"/>`;
  const half = points[points.length >> 1];
  return label === undefined
    ? line
    : `${line}\n<text x="${at(half.x + 34)}" y="${at(half.y + 4)}">${escaped(label)}</text>`;
}

const { width, height } = graph.graph();
const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${at(width)} ${at(height)}" width="${at(width)}" height="${at(height)}" role="img">
<title>Parts of Conclave, and which uses which</title>
<style>
svg { background: #fff }
rect { fill: #f4f1ea; stroke: #8a8272 }
text { font: 12px system-ui, sans-serif; text-anchor: middle; fill: #3b3a36 }
.name { font-weight: 600 }
path { fill: none; stroke: #6b6558 }
#tip path { fill: #6b6558 }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
${graph.edges().map(arrow).join("\n")}
${graph.nodes().map(box).join("\n")}
</svg>
`;

if (!process.argv.includes("--check")) writeFileSync(file, svg);
else if (readFileSync(file, "utf8") !== svg)
  throw new Error("docs/architecture/parts.svg is not ARCHITECTURE.md's: node scripts/diagram.mjs");
