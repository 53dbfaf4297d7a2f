/**
 * Plays a recorded answer before the first question: drafts grow in their writers' colours, the
 * votes are drawn, and one draft is kept. It can be skipped and played again, and stands still for
 * visitors who prefer that.
 */
import { showMarkdown } from "../library/markdown/show.ts";
import { creditLine } from "./credits.ts";
import { button, el, voice } from "./dom.ts";
import { Drafting } from "./drafting.ts";
import { sentence } from "./figures.ts";
import { readRecorded, type Recorded, type RecordedRound } from "./recorded.ts";

/** Set in this browser once it was played: it moves by itself only at the first visit. */
const seen = "conclave recorded answer seen";

/** Shows it in `host`, and plays it at the first visit. */
export async function showRecorded(host: HTMLElement): Promise<void> {
  const recorded = await readRecorded();
  if (!recorded) return;
  const showing = new Showing(recorded);
  let first = true;
  try {
    first = localStorage.getItem(seen) === null;
    localStorage.setItem(seen, "yes");
  } catch {
    // Storage is off: every visit is the first.
  }
  if (!first) {
    const play = button(
      "Watch a recorded answer being written",
      () => {
        play.replaceWith(showing.root);
        void showing.play();
      },
      { class: "quiet" },
    );
    return host.replaceChildren(play);
  }
  host.replaceChildren(showing.root);
  await showing.play();
}

/** Times in ms: from draft to draft, to the vote, to its result, to the next round. */
const pace = { draft: 380, vote: 650, decide: 600, keep: 1300 };
/**
 * Number of rounds at the usual pace. Later ones are faster, since the visitor understands by then.
 */
const slow = 3;

class Showing {
  readonly root: HTMLElement;
  readonly #recorded: Recorded;
  readonly #answer = el("div", { class: "showing-answer prose", dir: "auto" });
  readonly #drafting: Drafting;
  readonly #stage = el("div", {});
  readonly #legend = el("p", { class: "showing-legend" });
  readonly #skip = button("Skip", () => this.#finish(), { class: "quiet" });
  readonly #again = button("Play again", () => void this.play(), { class: "quiet", hidden: true });
  /** Ends the play under way. */
  #playing: AbortController | undefined;

  constructor(recorded: Recorded) {
    this.#recorded = recorded;
    const voices = [...recorded.members.keys()];
    this.#drafting = new Drafting(recorded.members, voices);
    this.#stage.append(this.#answer, this.#drafting.root);
    this.root = el(
      "section",
      { class: "showing", "aria-label": "A recorded answer" },
      el(
        "div",
        { class: "showing-head" },
        el("p", {}, `Recorded: ${sentence(recorded.members)} answer as one`),
        this.#skip,
        this.#again,
      ),
      el("h2", { class: "question" }, recorded.question),
      this.#stage,
      this.#legend,
    );
  }

  /** Plays it from the start; at once complete where motion is unwanted. */
  async play(): Promise<void> {
    this.#playing?.abort();
    // As high as it will be, so that nothing below moves.
    this.#show(this.#recorded.rounds);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.#finish();
    const { signal } = (this.#playing = new AbortController());
    this.#again.hidden = true;
    this.#skip.hidden = false;
    this.#legend.hidden = true;
    this.#drafting.root.hidden = false;
    this.#stage.style.minBlockSize = `${this.#stage.offsetHeight}px`;
    this.#show([]);
    for (const [place, round] of this.#recorded.rounds.entries()) {
      await this.#round(round, place < slow ? 1 : 0.55, signal);
      if (signal.aborted) return;
      // A question was asked.
      if (!this.root.checkVisibility()) break;
      this.#show(this.#recorded.rounds.slice(0, place + 1));
    }
    this.#finish();
  }

  async #round(round: RecordedRound, speed: number, signal: AbortSignal): Promise<void> {
    const wait = (ms: number): Promise<void> => rest(ms * speed, signal);
    this.#drafting.end();
    this.#drafting.root.hidden = false;
    for (const [place, { text, ended }] of round.candidates.entries()) {
      this.#drafting.draft(round.drafters[place] ?? 0, text, ended);
      await wait(pace.draft);
    }
    await wait(pace.vote);
    if (signal.aborted) return;
    this.#drafting.vote();
    await wait(pace.decide);
    if (signal.aborted) return;
    this.#drafting.decide(round);
    await wait(pace.keep);
  }

  /** Shows the whole answer. */
  #finish(): void {
    const hadFocus = document.activeElement === this.#skip;
    this.#playing?.abort();
    this.#drafting.end();
    this.#stage.style.minBlockSize = "";
    this.#show(this.#recorded.rounds);
    const { members, rounds } = this.#recorded;
    this.#legend.replaceChildren(...creditLine(members, [...members.keys()], rounds));
    this.#legend.hidden = false;
    this.#skip.hidden = true;
    this.#again.hidden = false;
    if (hadFocus) this.#again.focus();
  }

  #show(rounds: readonly RecordedRound[]): void {
    showMarkdown(
      this.#answer,
      rounds.map(({ candidates, drafters, winner, writers }) => ({
        text: candidates[winner]?.text ?? "",
        attributes: {
          class: `wrote ${writers.length > 1 ? "alike" : voice(drafters[winner] ?? 0)}`,
          title: sentence(writers.map((place) => this.#recorded.members[drafters[place]!] ?? "")),
        },
      })),
    );
  }
}

/** Waits, but not beyond an abort. */
function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
