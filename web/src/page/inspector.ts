/** Details of one round: candidates, scores by verifier, and weights. */
import type { Score, Settings } from "../protocol/engine.ts";
import type { RoundEvent } from "../protocol/messages.ts";
import { byOne } from "../protocol/rounds.ts";
import { button, el, nameTag, voice } from "./dom.ts";
import { duration, plural, sentence } from "./figures.ts";

interface InspectorContext {
  /** Names of the question's members, and their palette indices. */
  names: string[];
  voices: number[];
  settings: Settings;
  rounds: number;
  onRound: (round: number) => void;
  onClose: () => void;
}

/** The raw number that each scoring uses, and its description. */
const raws: Record<
  Settings["scoring"],
  { value: (score: Score) => number | undefined; name: string }
> = {
  harmonic: {
    value: surprise,
    name:
      "surprise in nats, which the least likely of its tokens decide; " +
      "twice the surprise is half of the share",
  },
  logit: { value: ({ meanLogit }) => meanLogit, name: "mean raw logit of its tokens" },
  likelihood: {
    value: ({ meanLogprob }) => meanLogprob,
    name: "mean log-probability of its tokens",
  },
};

/** Makes the panel of one round. */
export function inspector(round: RoundEvent, context: InspectorContext): HTMLElement {
  const writers = round.writers.map((place) => round.candidates[place]?.member ?? "");
  const close = button("Close", context.onClose, { class: "quiet", "data-control": "close" });
  const back = button("←", () => context.onRound(round.round - 1), {
    "aria-label": "Round before",
    "data-control": "back",
    disabled: round.round <= 1,
  });
  const on = button("→", () => context.onRound(round.round + 1), {
    "aria-label": "Round after",
    "data-control": "on",
    disabled: round.round >= context.rounds,
  });
  const taken =
    writers.length > 1
      ? `${sentence(writers)} drafted the same, and it was taken.`
      : `${sentence(writers)}'s draft was taken.`;
  const { draft, verify } = round.ms;
  const times = `Drafting took ${duration(draft)}, scoring ${duration(verify)}.`;
  return el(
    "section",
    { class: "inspector", "aria-label": `Round ${round.round}` },
    el(
      "div",
      { class: "inspector-head" },
      el("h3", {}, `Round ${round.round}`),
      el("p", {}, `${taken}${turning(round, context)} ${times}`),
      el("span", { class: "actions" }, back, on, close),
    ),
    candidates(round, context),
    round.shares.length > 0
      ? matrix(round, context)
      : el("p", { class: "hint" }, unvoted(round, context)),
    ...exits(round, context),
  );
}

/** ln(1 + Σ (1/p − 1)) over a candidate's tokens in nats; the engine returns its negative. */
function surprise(score: Score | undefined): number | undefined {
  return score?.harmonic === undefined ? undefined : Math.max(0, -score.harmonic);
}

/** Text on the member whose vote alone decided while all others agreed on another candidate. */
function turning({ active, turnedBy }: RoundEvent, { names }: InspectorContext): string {
  const turned = turnedBy.map((place) => names[active[place] ?? place] ?? "");
  return turned.length === 0
    ? ""
    : ` ${sentence(turned)}'s vote alone decided it, the others agreed on another.`;
}

/** Text on why a round was decided without a vote. */
function unvoted(round: RoundEvent, { names }: InspectorContext): string {
  if (round.scores.length === 0)
    return "Fast mode took this candidate as it ended the answer; it was not scored.";
  const member = round.candidates[round.winner]?.member ?? "";
  if (byOne(round)) {
    const own = round.scores.find((row) => row.length > 0)?.[round.winner];
    const nats = (surprise(own) ?? 0).toFixed(1);
    return (
      `${member}, the strongest member, was sure of its answer (surprise ${nats} nats), ` +
      "so that no other was asked."
    );
  }
  // Excludes members that abstained or only judge.
  const surprises = round.scores.flatMap(([score], place) => {
    const nats = surprise(score);
    return nats === undefined
      ? []
      : [`${names[round.active[place] ?? place] ?? ""} by ${nats.toFixed(1)}`];
  });
  return (
    `${member} drafted for all, and no member doubted the draft. ` +
    `It surprised ${sentence(surprises)} nats.`
  );
}

/** Marks the second candidate of a member that drafted two. */
const second = ({ drafters }: RoundEvent, j: number): HTMLElement | string =>
  j > 0 && drafters[j] === drafters[j - 1] ? el("small", {}, " second") : "";

function candidates(round: RoundEvent, { voices }: InspectorContext): HTMLElement {
  const most = Math.max(...round.totals, 0);
  const items = round.candidates.map((candidate, j) => {
    const taken = j === round.winner;
    const total = round.totals[j];
    const shown = candidate.text.trim();
    const text =
      shown === ""
        ? el(
            "em",
            {},
            candidate.ended
              ? "ends the answer here"
              : candidate.text === ""
                ? "nothing"
                : "white space",
          )
        : el("q", {}, shown);
    return el(
      "li",
      { class: `${voice(voices[round.drafters[j] ?? j] ?? j)}${taken ? " taken" : ""}` },
      el("span", { class: "name" }, candidate.member, second(round, j)),
      el(
        "span",
        { class: "candidate", dir: "auto" },
        text,
        candidate.ended && shown !== "" ? el("small", {}, " then ends") : "",
      ),
      el("small", {}, plural(candidate.tokens, "token")),
      total === undefined ? "" : el("progress", { max: most, value: total, "aria-hidden": "true" }),
      total === undefined ? "" : el("span", { class: "figure" }, total.toFixed(3)),
      taken
        ? el("strong", { class: "mark" }, "taken")
        : round.writers.includes(j)
          ? el("span", { class: "mark same" }, "the same")
          : total === 0
            ? el("span", { class: "mark same" }, "set aside")
            : "",
    );
  });
  return el("ol", { class: "candidates", "aria-label": "Candidates" }, ...items);
}

function matrix(round: RoundEvent, { names, voices, settings }: InspectorContext): HTMLElement {
  const { scoring, update, level } = settings;
  const raw = raws[scoring];
  const tag = (member: number): HTMLElement => nameTag(names, voices, member);
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, "scored by"),
    ...round.drafters.map((drafter, j) =>
      el("th", { scope: "col" }, tag(drafter), second(round, j)),
    ),
    // With update "after", the vote used the weights of the round before.
    el("th", { scope: "col" }, update === "after" ? "weight, afterwards" : "weight"),
  );
  const rows = round.shares.map((row, i) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, tag(round.active[i] ?? i)),
      ...(row.length === 0
        ? [el("td", { colspan: round.candidates.length }, el("small", {}, "abstained"))]
        : []),
      ...row.map((share, j) => {
        const score = round.scores[i]?.[j];
        const number = score && raw.value(score);
        const best = share === Math.max(...row);
        return el(
          "td",
          { class: best ? "best" : "" },
          `${(share * 100).toFixed(1)}\u00a0%`,
          el(
            "small",
            {},
            number === undefined
              ? score?.preference === undefined
                ? ""
                : "by letter"
              : number.toFixed(2),
          ),
        );
      }),
      el("td", { class: "figure" }, (round.weights[i] ?? 0).toFixed(3)),
    ),
  );
  const totals = el(
    "tr",
    {},
    el("th", { scope: "row" }, "total"),
    ...round.totals.map((total, j) =>
      el("td", { class: j === round.winner ? "best" : "" }, total.toFixed(3)),
    ),
    el("td", {}),
  );
  const divided = level
    ? ", each member's shares divided by its largest, as a share of all candidates' sums"
    : "";
  const cleared = round.totals.some((total) => total === 0)
    ? " A candidate is set aside if the other members prefer its drafter's first draft, " +
      "or the strongest member's where that goes on."
    : "";
  return el(
    "div",
    // It scrolls sideways on narrow screens, by keyboard, too.
    { class: "matrix", role: "region", tabindex: 0, "aria-label": "Scores" },
    el(
      "table",
      {},
      el(
        "caption",
        {},
        `Share each candidate got from each member; below it the ${raw.name}. ` +
          `The total is the weighted sum${divided}.${cleared}`,
      ),
      el("thead", {}, head),
      el("tbody", {}, ...rows),
      el("tfoot", {}, totals),
    ),
  );
}

function exits(round: RoundEvent, { names, rounds }: InspectorContext): HTMLElement[] {
  // After the last round there is nothing to leave.
  if (round.exited.length === 0 || round.round >= rounds) return [];
  const left = round.exited.map((member) => names[member] ?? "").join(" and ");
  return [el("p", { class: "hint" }, `${left} left the question after this round.`)];
}
