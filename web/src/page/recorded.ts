/**
 * An answer of real models, recorded with `conclave chat --record` (web/recorded.json): what the
 * page shows of it. tests/browser/recorded.test.ts replays its winners by the method.
 */
import { flag, list, shape, text, whole, type Checked } from "../protocol/check.ts";

const index = whole(0, 7);
/** More of the recording is for its replay. */
const recorded = shape({
  question: text,
  members: list(text),
  rounds: list(
    shape({
      active: list(index),
      drafters: list(index),
      candidates: list(shape({ text, ended: flag })),
      totals: list((data: unknown) => Number(data)),
      turnedBy: list(index),
      winner: index,
    }),
  ),
});

type Parsed = Checked<typeof recorded>;
export type RecordedRound = Parsed["rounds"][number] & { writers: number[] };
export interface Recorded extends Parsed {
  rounds: RecordedRound[];
}

/** Checks a recording; all that drafted the kept words wrote them. */
function parseRecorded(data: unknown): Recorded {
  const parsed = recorded(data, "recorded");
  const rounds = parsed.rounds.map((round) => {
    const kept = JSON.stringify(round.candidates[round.winner]);
    const writers = [...round.candidates.keys()].filter(
      (place) => JSON.stringify(round.candidates[place]) === kept,
    );
    return { ...round, writers };
  });
  return { ...parsed, rounds };
}

/** Reads it; undefined if it is not there, since nothing depends on it. */
export async function readRecorded(): Promise<Recorded | undefined> {
  try {
    const response = await fetch(new URL("./recorded.json", document.baseURI));
    return response.ok ? parseRecorded(await response.json()) : undefined;
  } catch {
    return undefined;
  }
}
