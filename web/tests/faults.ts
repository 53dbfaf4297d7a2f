/** Every fault the loopback hub knows, and what becomes of it: survived, or told in these words. */
import type { Fault } from "./hub.ts";

/** The model is of some sixteen chunks, in `owner/model/weights.gguf`. */
export interface Survived {
  name: string;
  faults: Fault[];
  /** How often the whole file is fetched beyond once, where that is certain. */
  extra?: number;
  /** What the progress says meanwhile. */
  note?: RegExp;
}

export interface Told {
  name: string;
  faults: Fault[];
  /** The reference, if not that of the model. */
  what?: string;
  says: RegExp;
  /** A page can't see it of another origin. */
  hidden?: boolean;
}

export const survived: Survived[] = [
  { name: "a line that breaks goes on at the byte", faults: [{ kind: "cut", after: 20_000, times: 5 }], extra: 0 },
  { name: "a line that breaks at once", faults: [{ kind: "cut", times: 3 }], extra: 0 },
  { name: "a line that stalls is cut and resumed", faults: [{ kind: "stall", after: 30_000, times: 2 }], extra: 0, note: /sent nothing/ },
  { name: "a host that is busy", faults: [{ kind: "503", times: 3 }], extra: 0, note: /busy \(503\)/ },
  { name: "a host that will not answer so early", faults: [{ kind: "425" }], extra: 0, note: /busy \(425\)/ },
  { name: "a host that asks to wait", faults: [{ kind: "429", retryAfter: 1 }], extra: 0, note: /too many requests.*1 s/ },
  { name: "a host that asks to wait, before it redirects", faults: [{ kind: "429", on: "resolve", retryAfter: 0 }], extra: 0, note: /too many requests/ },
  { name: "a list that is busy", faults: [{ kind: "503", on: "api", times: 2 }], extra: 0, note: /busy/ },
  { name: "a range that can't be satisfied, once", faults: [{ kind: "416" }], extra: 0 },
  { name: "another range than asked", faults: [{ kind: "wrong-range", times: 2, skip: 2 }], note: /another part/ },
  { name: "a body shorter than announced", faults: [{ kind: "wrong-length", times: 2 }], extra: 0 },
  { name: "a byte that arrives wrong: the file is fetched anew", faults: [{ kind: "flip", after: 1000, skip: 3 }], extra: 1 },
  { name: "ranges ignored once", faults: [{ kind: "no-range", skip: 4 }] },
  { name: "no ranges at all", faults: [{ kind: "no-range", times: 0 }], note: /can't resume/ },
  {
    name: "no ranges, and a line that breaks",
    faults: [
      { kind: "no-range", times: 4 },
      { kind: "cut", after: 500_000 },
      { kind: "no-range", times: 0 },
    ],
    note: /can't resume/,
  },
];

export const told: Told[] = [
  { name: "a gated repository", faults: [{ kind: "401", times: 0 }], says: /signed in.*choose the file/ },
  { name: "a forbidden file", faults: [{ kind: "403", times: 0 }], says: /accepted its terms/ },
  { name: "a file that is gone", faults: [{ kind: "404", times: 0 }], says: /has no weights\.gguf/ },
  { name: "a repository that is none", faults: [], what: "hf:owner/nothing/weights.gguf", says: /no repository/ },
  { name: "a revision that is none", faults: [], what: "hf:owner/model/weights.gguf@v9", says: /no such revision/ },
  { name: "a file that the repository lacks", faults: [], what: "hf:owner/model/other.gguf", says: /no other\.gguf.*hf:owner\/model\/weights\.gguf/ },
  { name: "a folder without a config", faults: [], what: "hf:owner/model", says: /no config\.json.*hf:owner\/model\/weights\.gguf/ },
  { name: "an address that leads nowhere", faults: [], what: "http://127.0.0.1:9/model.gguf", says: /can't be reached.*try again/ },
  { name: "a host that stays busy", faults: [{ kind: "503", times: 0 }], says: /busy \(503\).*4 times/ },
  { name: "a host that asks to wait for an hour", faults: [{ kind: "429", retryAfter: 3600 }], says: /60 minutes/, hidden: true },
  { name: "a line that breaks every time", faults: [{ kind: "cut", times: 0 }], says: /line to .* broke.*try again/ },
  { name: "a line that is always silent", faults: [{ kind: "stall", times: 0 }], says: /sent nothing/ },
  { name: "a range that can never be satisfied", faults: [{ kind: "416", times: 0 }], says: /shorter than it was listed/ },
];
