/** The weights by round as a chart (uPlot). Lines bear the members' colours and their underlines' dashes. */
import "./language.ts";
import uPlot from "uplot";
import type { RoundEvent } from "../protocol/messages.ts";
import { marks } from "./figures.ts";
import { spread } from "./spread.ts";

/** Dashes that match the underlines of voice-1 … voice-8 in style.css. */
const dashes: number[][] = [[], [6, 4], [2, 3], [10, 3, 2, 3], [], [6, 4], [2, 3], [10, 3, 2, 3]];

const height = 170;
/** Lines closer than this, in pixels, are drawn so far apart: each is two wide. */
const apart = 3;
const top = (most: number): number => Math.min(1, Math.max(most * 1.15, 0.5));

export class WeightsChart {
  readonly #host: HTMLElement;
  readonly #onRound: (round: number) => void;
  #plot: uPlot | undefined;
  #names: string[] = [];
  #rows: (number | null)[][] = [];

  constructor(host: HTMLElement, onRound: (round: number) => void) {
    this.#host = host;
    this.#onRound = onRound;
    new ResizeObserver(() => this.#plot?.setSize({ width: host.clientWidth, height })).observe(host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#plot?.redraw(false));
  }

  /** Starts a chart of these members; `voices` are their places in the palette. */
  begin(names: string[], voices: number[]): void {
    this.#plot?.destroy();
    this.#names = names;
    this.#rows = [[0], ...names.map(() => [1 / names.length])];
    const style = (name: string) => () => getComputedStyle(this.#host).getPropertyValue(name).trim();
    const axis: uPlot.Axis = {
      stroke: style("--soft"),
      font: "12px system-ui, sans-serif",
      grid: { stroke: style("--line"), width: 1 },
      ticks: { show: false },
      size: 28,
    };
    this.#plot = new uPlot(
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
          ...names.map(
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
    this.#plot.over.addEventListener("click", () => {
      const index = this.#plot?.cursor.idx;
      if (index) this.#onRound(index);
    });
    this.#describe();
  }

  /** Adds the weights after a round; members that have left have none. */
  add(round: RoundEvent): void {
    this.#rows[0]?.push(round.round);
    this.#names.forEach((_, member) => {
      const place = round.active.indexOf(member);
      this.#rows[member + 1]?.push(place < 0 ? null : (round.weights[place] ?? null));
    });
    this.#plot?.setData(this.#drawn());
    this.#describe();
  }

  /** The lines as drawn; what is told of them is the weights themselves. */
  #drawn(): uPlot.AlignedData {
    const [rounds = [], ...weights] = this.#rows;
    const scale = top(Math.max(0, ...weights.flat().map((weight) => weight ?? 0)));
    return [rounds, ...spread(weights, (scale * apart) / (height - 40))] as uPlot.AlignedData;
  }

  #describe(): void {
    const last = this.#names.map((name, member) => {
      const weight = this.#rows[member + 1]?.at(-1);
      return `${name} ${weight == null ? "has left" : weight.toFixed(3)}`;
    });
    this.#host.setAttribute("aria-label", `Weights after round ${(this.#rows[0]?.length ?? 1) - 1}: ${last.join(", ")}`);
  }
}
