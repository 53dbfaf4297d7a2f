/** The bench's page: a plan to tick, a worker that runs it, tables, and the report to download. */
import { chooseBackend, type Gpu } from "../protocol/backend.ts";
import { mayShareMemory } from "../protocol/shared-memory.ts";
import { startWorker } from "../protocol/start-worker.ts";
import { byId, el } from "../page/dom.ts";
import { sentence } from "../page/figures.ts";
import { copyText } from "../library/markdown/copy.ts";
import { tableOf } from "./check.ts";
import { headlineOf } from "./headline.ts";
import {
  draftings,
  ensembleSizes,
  formats,
  largestLoad,
  nameOf,
  planFrom,
  planHere,
  prefixLengths,
} from "./plan.ts";
import type { BenchReply, BenchRequest, Models, Plan, Report } from "./report.ts";
import { shapes } from "./shapes.ts";
import { tablesOf, type Table } from "./tables.ts";

const form = byId("plan", HTMLFormElement);
const start = byId("start", HTMLButtonElement);
const cancel = byId("cancel", HTMLButtonElement);
const checking = byId("check", HTMLButtonElement);
const download = byId("download", HTMLAnchorElement);
const bar = byId("bar", HTMLProgressElement);
const status = byId("status", HTMLParagraphElement);
const failure = byId("failure", HTMLParagraphElement);
const results = byId("results", HTMLDivElement);
const headline = byId("headline", HTMLElement);
const headlineText = byId("headline-text", HTMLElement);
const copy = byId("copy-headline", HTMLButtonElement);

const workloads: Models[] = [
  { kind: "bundled" },
  ...shapes
    .slice(1)
    .flatMap(({ name }) =>
      formats.map((format) => ({ kind: "random", shape: name, format }) as const),
    ),
];

function group(
  title: string,
  name: string,
  type: "checkbox" | "radio",
  choices: [value: string, label: string][],
  taken: string[],
): HTMLElement {
  const labels = choices.map(([value, label]) =>
    el(
      "label",
      {},
      el("input", { type, name, value, checked: taken.includes(value) }),
      el("span", {}, label),
    ),
  );
  return el("fieldset", {}, el("legend", {}, title), ...labels);
}

function count(title: string, name: string, value: number, most: number): HTMLElement {
  return el(
    "fieldset",
    {},
    el("legend", {}, title),
    el(
      "label",
      {},
      el("input", { type: "number", name, value, min: 1, max: most, "aria-label": title }),
    ),
  );
}

/** `gpu`: whether there is one here. */
function draw(plan: Plan, gpu: boolean): void {
  const named = workloads.map((models): [string, string] => [
    nameOf(models),
    models.kind === "bundled" ? "the bundled members" : nameOf(models).replace(":", ", "),
  ]);
  form.replaceChildren(
    group("Models", "models", "checkbox", named, plan.models.map(nameOf)),
    group(
      "Members at a time",
      "ensembles",
      "checkbox",
      ensembleSizes.map((size) => [String(size), String(size)]),
      plan.ensembles.map(String),
    ),
    group(
      "Who drafts in a round",
      "drafting",
      "checkbox",
      draftings.map((drafting) => [drafting, drafting === "all" ? "all" : "one alone, undoubted"]),
      plan.drafting,
    ),
    group(
      "Prefix, tokens",
      "prefixes",
      "checkbox",
      prefixLengths.map((length) => [String(length), length.toLocaleString("en")]),
      plan.prefixes.map(String),
    ),
    group(
      "On",
      "backend",
      "radio",
      [
        ["webgpu", "GPU"],
        ["cpu", "CPU"],
      ],
      [plan.backend],
    ),
    count("Tokens a segment", "segmentTokens", plan.segmentTokens, 32),
    count("Repeats", "repeats", plan.repeats, 1000),
    count("At most, seconds each", "limitSeconds", plan.limitSeconds, 1_000_000),
    count("Threads on the CPU", "threads", plan.threads, 64),
  );
  const choice = form.querySelector<HTMLInputElement>('input[value="webgpu"]')!;
  if (gpu || choice.checked) return;
  choice.disabled = true;
  choice.nextElementSibling!.textContent = "GPU: none here";
}

/** The ticked plan. Throws a RangeError that says what is missing. */
function ticked(): Plan {
  const query = new URLSearchParams();
  for (const name of new Set(
    [...form.elements].map((element) => (element as HTMLInputElement).name).filter(Boolean),
  )) {
    const values = new FormData(form).getAll(name).map(String);
    if (values.length === 0)
      throw new RangeError(
        "Tick at least one model, one number of members, who drafts and one prefix.",
      );
    query.set(name, values.join(","));
  }
  return planFrom(query);
}

function weigh(): void {
  let text: string;
  try {
    const plan = ticked();
    const bytes = largestLoad(plan);
    const names = plan.models.map((models) =>
      models.kind === "bundled" ? "the bundled members" : nameOf(models).replace(/[:-]/g, " "),
    );
    const memory =
      bytes === 0
        ? ""
        : ` Up to ${(bytes / 1e9).toFixed(2)} GB of weights are in memory at a time.`;
    const place = plan.backend === "cpu" ? "CPU" : "GPU";
    text = `Measured on the ${place}: ${sentence(names)}.${memory}`;
  } catch (error) {
    text = (error as Error).message;
  }
  byId("size", HTMLParagraphElement).textContent = text;
}

/** A table with caption and note; scrolls by itself if wider than the page. */
function drawn({ caption, note, head, rows }: Table): HTMLElement {
  // Numeric columns are right-aligned.
  const numbers = head.map((_, column) =>
    rows.every((row) => /^($|[\d–])/.test(row[column] ?? "")),
  );
  const line = (tag: "th" | "td", cells: string[]): HTMLElement =>
    el(
      "tr",
      {},
      ...cells.map((cell, column) =>
        el(tag, { class: numbers[column] ? "number" : undefined }, cell),
      ),
    );
  const table = el(
    "table",
    {},
    el("thead", {}, line("th", head)),
    el("tbody", {}, ...rows.map((row) => line("td", row))),
  );
  const notes = note ? [el("p", { class: "hint" }, note)] : [];
  const shown =
    rows.length > 0
      ? [el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption }, table)]
      : [];
  return el("section", {}, el("h2", {}, caption), ...notes, ...shown);
}

/** Shows a report's first published model in a sentence, else the toys. */
function tell({ workloads, surroundings }: Report): void {
  const told = workloads.find(({ models }) => models !== "bundled") ?? workloads[0];
  const found = told && surroundings && headlineOf(told, surroundings);
  headline.hidden = !found;
  if (!found) return;
  headlineText.textContent = found.text;
  byId("headline-note", HTMLElement).textContent = found.note;
}

function fail(message: string): void {
  failure.textContent = message;
  failure.hidden = false;
}

/** The worker of the engine build for this page. */
const workerOf = (part: "bench" | "check"): string =>
  new URL(`./${part}-worker${mayShareMemory() ? "-shared" : ""}.js`, document.baseURI).href;

/** Measures a plan. */
function measure(plan: Plan): void {
  const worker = startWorker(workerOf("bench"), "conclave bench");
  run({ made: new Date().toISOString(), plan, surroundings: null, workloads: [] }, worker);
  worker.postMessage({ type: "run", plan } satisfies BenchRequest);
}

/** Compares the results of both engines on this GPU. */
function check(): void {
  const worker = startWorker(workerOf("check"), "conclave check");
  run({ made: new Date().toISOString(), plan: null, surroundings: null, workloads: [] }, worker);
  worker.postMessage(undefined);
}

/** Runs a worker until its end, failure or cancellation; its results so far are kept. */
function run(report: Report, worker: Worker): void {
  const finish = (state: "done" | "failed", message: string): void => {
    worker.terminate();
    window.removeEventListener("beforeunload", hold);
    if (state === "failed") report.failure = message;
    const json = JSON.stringify(report, undefined, 1);
    byId("report", HTMLPreElement).textContent = json;
    byId("raw", HTMLDetailsElement).hidden = false;
    URL.revokeObjectURL(download.href);
    download.href = URL.createObjectURL(new Blob([json], { type: "application/json" }));
    download.download = `conclave-bench-${report.made.slice(0, 19).replaceAll(":", "-")}.json`;
    download.hidden = report.workloads.length === 0 && !report.check;
    start.disabled = checking.disabled = false;
    // The two buttons replace each other, and the focus follows.
    if (document.activeElement === cancel) start.focus();
    cancel.hidden = bar.hidden = true;
    status.textContent = state === "done" ? "Done." : "";
    if (state === "failed") fail(message);
    document.body.dataset["state"] = state;
  };
  const hold = (event: Event): void => event.preventDefault();
  window.addEventListener("beforeunload", hold);
  cancel.onclick = () => finish("failed", "It was cancelled.");
  worker.onerror = (event) =>
    finish(
      "failed",
      `The worker failed: ${event.message || "it could not be started"}. ` +
        "Reload the page and try again.",
    );
  worker.onmessage = ({ data: reply }: MessageEvent<BenchReply>) => {
    switch (reply.type) {
      case "surroundings":
        report.surroundings = reply.surroundings;
        byId("software", HTMLParagraphElement).hidden = !reply.surroundings.adapter.software;
        break;
      case "progress":
        status.textContent = reply.what;
        if (reply.total > 0) bar.value = reply.done / reply.total;
        break;
      case "workload":
        report.workloads.push(reply.workload);
        tell(report);
        results.append(...tablesOf(reply.workload).map(drawn));
        break;
      case "check":
        report.check = reply.check;
        results.append(drawn(tableOf(reply.check)));
        break;
      case "end":
        finish("done", "");
        break;
      case "failed":
        finish("failed", reply.message);
        break;
    }
  };
  results.replaceChildren();
  failure.hidden = headline.hidden = true;
  cancel.hidden = bar.hidden = false;
  if (document.activeElement === start || document.activeElement === checking) cancel.focus();
  start.disabled = checking.disabled = true;
  download.hidden = true;
  bar.value = 0;
  status.textContent = "Starting the engine…";
  document.body.dataset["state"] = "running";
}

/** Shows the plan of the address, or the one for this machine. */
async function open(query: URLSearchParams): Promise<void> {
  const { gpu, hardwareConcurrency } = navigator as Navigator & { gpu?: Gpu };
  // A driver can't press the button, and names all that differs from the defaults.
  const driven = query.has("start");
  const { backend } = await chooseBackend("auto", gpu);
  const here = planHere(backend, mayShareMemory() ? hardwareConcurrency || 1 : 1);
  let asked = here;
  try {
    asked = driven ? planFrom(query) : planFrom(query, here);
  } catch (error) {
    fail((error as Error).message);
  }
  draw(asked, backend === "webgpu");
  weigh();
  byId("choices", HTMLDetailsElement).open = query.has("models");
  start.disabled = false;
  // It may also request what is not on the list.
  if (driven && failure.hidden) measure(asked);
  else if (query.has("check")) check();
}

form.addEventListener("change", weigh);
form.addEventListener("submit", (event) => event.preventDefault());
checking.addEventListener("click", check);
copy.addEventListener("click", () => void copyText(headlineText.textContent ?? "", copy));
start.addEventListener("click", () => {
  try {
    measure(ticked());
  } catch (error) {
    fail((error as Error).message);
  }
});
void open(new URLSearchParams(location.search));
