/** Separates lines of equal value on a chart, so that none hides another. */

/**
 * Returns `rows[series][x]` with close values moved apart. Values closer than `gap` at one x are
 * moved `gap` apart around their mean, in the order of the series. Missing values stay missing.
 */
export function spread(rows: (number | null)[][], gap: number): (number | null)[][] {
  const moved = rows.map((row) => [...row]);
  const width = Math.max(0, ...rows.map((row) => row.length));
  for (let x = 0; x < width; x++) {
    const here = rows
      .flatMap((row, series) => {
        const value = row[x];
        return value == null ? [] : [{ series, value }];
      })
      .sort((a, b) => a.value - b.value || a.series - b.series);
    for (let first = 0; first < here.length; ) {
      let last = first;
      while (here[last + 1] && here[last + 1]!.value - here[last]!.value < gap) last++;
      const group = here.slice(first, last + 1).sort((a, b) => a.series - b.series);
      const mean = group.reduce((sum, { value }) => sum + value, 0) / group.length;
      if (group.length > 1)
        group.forEach(
          ({ series }, place) =>
            (moved[series]![x] = mean + (place - (group.length - 1) / 2) * gap),
        );
      first = last + 1;
    }
  }
  return moved;
}
