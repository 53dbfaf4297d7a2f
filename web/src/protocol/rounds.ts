/** Facts about a round that its report implies. */

interface Rows {
  active: readonly number[];
  scores: readonly (readonly unknown[])[];
  totals: readonly number[];
}

/** Whether the strongest member was sure of its answer, so that no other was asked. */
export const byOne = ({ active, scores, totals }: Rows): boolean =>
  totals.length === 0 && active.length > 1 && scores.filter((row) => row.length > 0).length === 1;
