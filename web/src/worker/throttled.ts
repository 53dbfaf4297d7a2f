import type { Progress } from "../protocol/messages.ts";

/** Throttles reports to ten per second; the first and the last of each phase always pass. */
export function throttled(tell: (progress: Progress) => void): (progress: Progress) => void {
  let last: { phase: string; note: string | undefined; at: number } | undefined;
  return (progress) => {
    const { phase, note, loaded, total } = progress;
    const now = performance.now();
    if (last?.phase === phase && last.note === note && loaded !== total && now - last.at < 100)
      return;
    last = { phase, note, at: now };
    tell(progress);
  };
}
