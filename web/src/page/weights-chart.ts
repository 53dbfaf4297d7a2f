/**
 * Weights of an answer: the starting weights, if they differ, and a chart of feedback's changes by
 * round (uPlot), if any. Lines have the members' colours and their underlines' dashes.
 */
import "./language.ts";
import type uPlot from "uplot";
import type { RoundEvent } from "../protocol/messages.ts";
import { el } from "./dom.ts";
import { marks } from "./figures.ts";
import { spread } from "./spread.ts";
import { differ, haveMoved, steadyText } from "./starting-weights.ts";
import { trustRow } from "./trust-row.ts";

/** Dashes that match the underlines of voice-1 … voice-8 in style.css. */
const dashes: number[][] = [[], [6, 4], [2, 3], [10, 3, 2, 3], [], [6, 4], [2, 3], [10, 3, 2, 3]];

const height = 170;
/** Distance in pixels to which closer lines are moved apart: each line is two pixels wide. */
const apart = 3;
const top = (most: number): number => Math.min(1, Math.max(most * 1.15, 0.5));

/** `voices`: palette indices of the members; `start`: their weights before the first round. */
interface Weighed {
  names: readonly string[];
  voices: readonly number[];
  start: readonly number[];
  rounds: readonly RoundEvent[];
  open: number | undefined;
}

export class WeightsChart {
  readonly #trust = el("div", {});
  readonly #host = el("div", { class: "plot", role: "img" });
  readonly #steady = el("p", { class: "hint" });
  readonly #hint = el(
    "p",
    { class: "hint" },
    "A member's weight grows when the others prefer its drafts. Click a round for its details.",
  );
  readonly #onRound: (round: number) => void;
  #plot: uPlot | undefined;
  #names: string[] = [];
  #voices: number[] = [];
  /** Round whose weights are told; undefined for the last. */
  #round: number | undefined;
  /** Data of the chart: the round numbers, then a row of weights for each member. */
  #rows: (number | null)[][] = [];

  constructor(host: HTMLElement, onRound: (round: number) => void) {
    host.append(this.#trust, this.#host, this.#steady, this.#hint);
    this.hide();
    this.#onRound = onRound;
    new ResizeObserver(() =>
      this.#plot?.setSize({ width: this.#host.clientWidth, height }),
    ).observe(this.#host);
    const redraw = (): void => this.#plot?.redraw(false);
    for (const colours of ["(prefers-color-scheme: dark)", "(forced-colors: active)"])
      matchMedia(colours).addEventListener("change", redraw);
    addEventListener("conclave-theme", redraw);
  }

  /** Shows an answer's weights: after its open round, or after its last. */
  show({ names, voices, start, rounds, open }: Weighed): void {
    if (`${names}/${voices}` !== `${this.#names}/${this.#voices}`) {
      this.#plot?.destroy();
      this.#plot = undefined;
    }
    [this.#names, this.#voices, this.#round] = [[...names], [...voices], open];
    this.#rows = [
      [0, ...rounds.map(({ round }) => round)],
      ...names.map((_, member) => weightsOf(member, start[member] ?? null, rounds)),
    ];
    const first = names.flatMap((_, member) => (this.#rows[member + 1]?.[0] == null ? [] : member));
    const there = <T>(list: readonly T[]): T[] => first.map((member) => list[member]!);
    const trust = there(start);
    this.#trust.replaceChildren(
      ...(differ(trust) ? [trustRow(there(names), there(voices), trust)] : []),
    );
    this.#show();
  }

  /** Shows no answer's weights. */
  hide(): void {
    this.#trust.replaceChildren();
    for (const part of [this.#host, this.#steady, this.#hint]) part.hidden = true;
  }

  /** Steady weights are described in a sentence, since their chart would be a plain band. */
  #show(): void {
    const [, ...weights] = this.#rows;
    const drawn = haveMoved(weights);
    const steady = drawn ? "" : steadyText(weights, this.#round);
    this.#host.hidden = !drawn;
    this.#hint.hidden = !drawn;
    this.#steady.hidden = steady === "";
    this.#steady.textContent = steady;
    if (drawn && this.#plot) this.#plot.setData(this.#drawn());
    if (drawn && !this.#plot) void this.#begin().catch(() => undefined); // The next round tries.
    // Before a round there is nothing to plot, and the label stays that of the last plot.
    if (this.#rows[0]!.length > 1) this.#describe();
  }

  /** Loads uPlot, a script of its own, since few answers move weights, and draws what is shown. */
  async #begin(): Promise<void> {
    const { default: Plot } = await import("uplot");
    if (!this.#host.hidden) this.#plot ??= this.#draw(Plot);
  }

  #draw(Plot: typeof uPlot): uPlot {
    const style = (name: string) => () =>
      getComputedStyle(this.#host).getPropertyValue(name).trim();
    const axis: uPlot.Axis = {
      stroke: style("--soft"),
      font: "12px system-ui, sans-serif",
      grid: { stroke: style("--line"), width: 1 },
      ticks: { show: false },
      size: 28,
    };
    const voices = this.#voices;
    const plot = new Plot(
      {
        width: this.#host.clientWidth || 320,
        height,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
        scales: { x: { time: false }, y: { range: (_plot, _low, high) => [0, top(high)] } },
        axes: [
          { ...axis, incrs: [1, 2, 5, 10, 20, 50], space: 30 },
          { ...axis, size: 36, values: (_plot, ticks) => marks(ticks) },
        ],
        series: [
          {},
          ...this.#names.map(
            (label, index): uPlot.Series => ({
              label,
              stroke: style(`--voice-${((voices[index] ?? index) % 8) + 1}`),
              width: 2,
              dash: dashes[(voices[index] ?? index) % 8] ?? [],
              points: { show: false },
            }),
          ),
        ],
      },
      this.#drawn(),
      this.#host,
    );
    plot.over.addEventListener("click", () => {
      const index = plot.cursor.idx;
      if (index) this.#onRound(index);
    });
    return plot;
  }

  /** The lines as drawn; the legend shows the true weights. */
  #drawn(): uPlot.AlignedData {
    const [rounds = [], ...weights] = this.#rows;
    const scale = top(Math.max(0, ...weights.flat().map((weight) => weight ?? 0)));
    return [rounds, ...spread(weights, (scale * apart) / (height - 40))] as uPlot.AlignedData;
  }

  #describe(): void {
    const round = this.#round ?? (this.#rows[0]?.length ?? 1) - 1;
    const told = this.#names.map((name, member) => {
      const weight = this.#rows[member + 1]?.[round];
      return `${name} ${weight == null ? "has no vote" : weight.toFixed(3)}`;
    });
    this.#host.setAttribute("aria-label", `Weights after round ${round}: ${told.join(", ")}`);
  }
}

/** Weights of a member before the first round and after each; none where it does not vote. */
function weightsOf(
  member: number,
  start: number | null,
  rounds: readonly RoundEvent[],
): (number | null)[] {
  const weights = rounds.map((round) => round.weights[round.active.indexOf(member)] ?? null);
  // A member that joined later had no vote at the start.
  const joined = weights[0] === null && weights.some((weight) => weight !== null);
  return [joined ? null : start, ...weights];
}
