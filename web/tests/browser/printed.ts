/** Measurements as printed in a terminal. */
import type { Measured } from "../../src/bench/report.ts";
import { figure, tablesOf, type Table } from "../../src/bench/tables.ts";

/** Columns aligned for a terminal and for Markdown. */
export function printed({ caption, note, head, rows }: Table): string {
  const widths = head.map((_, column) =>
    Math.max(...[head, ...rows].map((row) => row[column]!.length)),
  );
  const line = (cells: string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  return [
    caption,
    ...(note ? [note] : []),
    "",
    line(head),
    `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`,
    ...rows.map(line),
    "",
  ].join("\n");
}

/** Prints the environment and all tables. */
export function tell({ surroundings, workloads }: Measured): void {
  if (surroundings) {
    const { adapter, browser: name, cores, kernels, copyBytesPerSecond } = surroundings;
    const copy =
      copyBytesPerSecond === null ? "" : `, copies ${figure(copyBytesPerSecond / 1e9)} GB/s`;
    const chosen = kernels ? `; ${kernels}` : "";
    const software = adapter.software ? " (software: the counts hold, the times do not)" : "";
    const place = `${cores} cores, ${name ?? "natively"}`;
    console.log(`${adapter.name}${software}, ${place}${copy}${chosen}\n`);
  }
  for (const workload of workloads)
    for (const table of tablesOf(workload)) console.log(printed(table));
}
