/**
 * The driver against every case of tests/rounds/cases.json, with scripted members and the machine's
 * recorded moves. The same table tests the machine itself and the native driver
 * (crates/ensemble/tests/ensemble/moves.rs, crates/rounds/tests/cases.rs).
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type {
  Candidate,
  Draft,
  Rounds,
  RoundsEvent,
  RoundsMove,
  Stop,
} from "../protocol/engine.ts";
import { ConclaveError } from "../protocol/errors.ts";
import { ScriptedMember, settings, type Script } from "../testing/scripted.ts";
import type { Left, Round } from "./round-report.ts";
import { rounds } from "./round.ts";

interface Case {
  name: string;
  members: {
    drafts: (string | null)[];
    seconds?: Record<string, string>;
    surprises?: Record<string, number>;
    judgesOnly?: boolean;
    silent?: number[];
    fails?: Record<string, "contextFull" | "device" | "other">;
    stops?: string;
  }[];
  calls: string[];
  told: string[];
  text: string;
  end: string;
  accepted?: string[];
  moves: [RoundsEvent, RoundsMove][];
}

const table = new URL(
  "../../../tests/rounds/cases.json",
  `file://${process.env["CONCLAVE_WEB"]}src/worker/`,
);
const cases = JSON.parse(readFileSync(table, "utf8")) as Case[];

/** A machine that returns the recorded moves, and accepts only the recorded events. */
class Recorded implements Rounds {
  readonly #moves: [RoundsEvent, RoundsMove][];
  #at = 0;

  constructor(moves: [RoundsEvent, RoundsMove][]) {
    this.#moves = moves;
  }

  get over(): boolean {
    return this.#at === this.#moves.length;
  }

  next(event: RoundsEvent): RoundsMove {
    const [wanted, move] = this.#moves[this.#at++] ?? [];
    // As it crosses: undefined becomes null in a list, and is dropped elsewhere.
    assert.deepEqual(JSON.parse(JSON.stringify(event)), wanted);
    return structuredClone(move!);
  }

  resume = (text: string): string => text;
  weights = (): number[] => [];
  tokens = (): number => 0;
  rest = (): string => "";
  free = (): void => undefined;
}

const names = "0123";
const kinds = { contextFull: "ContextFull", device: "Engine", other: "Template" };

/** A member by its script in the table; calls are noted as there. */
class Member extends ScriptedMember {
  readonly #script: Case["members"][number];
  readonly #calls: string[];
  readonly #stop: () => void;
  readonly #made: Record<string, number> = {};
  readonly #place: string;

  constructor(place: string, script: Case["members"][number], calls: string[], stop: () => void) {
    super(place, [], { drafts: [], taste: () => 1 } satisfies Script);
    this.#place = place;
    this.#script = script;
    this.#calls = calls;
    this.#stop = stop;
  }

  get onlyJudges(): boolean {
    return this.#script.judgesOnly ?? false;
  }

  async #call(name: string, what: string): Promise<number> {
    this.#calls.push(`${this.#place} ${name}${what}`);
    const number = (this.#made[name] = (this.#made[name] ?? 0) + 1);
    if (this.#script.stops === `${name} ${number}`) this.#stop();
    await new Promise((resolve) => setImmediate(resolve));
    const kind = this.#script.fails?.[`${name} ${number}`];
    if (kind) throw Object.assign(new Error("scripted"), { name: kinds[kind] });
    return number;
  }

  override async draft(tokens: number, branch = 0, novel = false): Promise<Draft> {
    const number = await this.#call("draft", ` ${tokens}${novel ? " novel" : ""}`);
    const drafted = (text: string) => ({ text, ended: text.endsWith("."), tokens: text.length });
    const text = this.#script.drafts[Math.min(number, this.#script.drafts.length) - 1]!;
    if (text === null) return undefined as never;
    const second = branch > 0 ? this.#script.seconds?.[text] : undefined;
    return { ...drafted(text), ...(second && { second: drafted(second) }) };
  }

  override async verify(candidates: Candidate[]) {
    const texts = candidates.map(({ text }) => ` ${JSON.stringify(text)}`).join("");
    const number = await this.#call("verify", texts);
    if (this.#script.silent?.includes(number)) return [];
    return candidates.map(({ text }) => ({
      harmonic: -(this.#script.surprises?.[text] ?? 2),
      tokens: text.length,
    }));
  }

  override async keep(winner: number): Promise<void> {
    await this.#call("keep", ` ${winner}`);
  }

  override release(): void {
    this.#calls.push(`${this.#place} release`);
  }
}

/** A step of the answer in the table's form. */
const line = (step: Round | Left): string => {
  if ("left" in step) return `${step.left} leaves in round ${step.round}`;
  const writers = step.writers.map((j) => step.drafters[j]).join(" and ");
  const exits = step.exited.map((member) => `, ${member} exits`).join("");
  return `round ${step.round}: ${JSON.stringify(step.text)} by ${writers}${exits}`;
};

for (const { name, members: scripts, accepted = [], moves, ...wanted } of cases) {
  test(`driven as written: ${name}`, async () => {
    const calls: string[] = [];
    const stopping = new AbortController();
    const members = scripts.map(
      (script, index) => new Member(names[index]!, script, calls, () => stopping.abort()),
    );
    const machine = new Recorded(moves);
    const run = rounds(members, machine, settings, stopping.signal);
    const steps: (Round | Left)[] = [];
    let end: Stop | string;
    try {
      let step = await run.next();
      for (; !step.done; step = await run.next()) steps.push(step.value);
      end = step.value;
    } catch (error) {
      assert.ok(error instanceof ConclaveError, String(error));
      end = `${error.member} fails`;
    }
    assert.deepEqual([calls, steps.map(line), end], [wanted.calls, wanted.told, wanted.end]);
    assert.ok(machine.over, "no move is left out");
    const text = steps.flatMap((step) => ("left" in step ? [] : [step.text])).join("");
    assert.ok(wanted.text.startsWith(accepted.join("") + text), "but for what was withheld");
    for (const step of steps) {
      if ("left" in step) {
        assert.equal(step.error.member, names[step.left]);
        continue;
      }
      const drafters = step.drafters.map((member) => names[member]);
      assert.deepEqual(
        step.candidates.map(({ member }) => member),
        drafters,
      );
      // A member that is not asked does not abstain.
      const asked = (member: number) =>
        calls.some((call) => call.startsWith(`${names[member]} verify`));
      const silent = step.active.filter(
        (member, row) => step.scores[row]?.length === 0 && asked(member),
      );
      assert.deepEqual([step.abstained, step.remote], [silent, []]);
    }
  });
}

test("a member that fails is told once the others have settled", async () => {
  const failing = cases.find(({ name }) => name.startsWith("a member that fails to draft"))!;
  const calls: string[] = [];
  let settled = 0;
  const members = failing.members.map((script, index) => {
    const member = new Member(names[index]!, script, calls, () => undefined);
    const draft = member.draft.bind(member);
    if (index > 0)
      member.draft = async (tokens) => {
        await new Promise((resolve) => setTimeout(resolve, 30));
        const drafted = await draft(tokens);
        settled++;
        return drafted;
      };
    return member;
  });
  const run = rounds(members, new Recorded(failing.moves), settings, new AbortController().signal);
  for await (const step of run) if ("left" in step) break;
  assert.equal(settled, 4, "two in each of two rounds");
});

test("a fault of the method is nobody's, and ends the answer", async () => {
  const [played] = cases;
  const machine = new Recorded(played!.moves.slice(0, 2));
  const next = machine.next.bind(machine);
  machine.next = (event) => {
    if (typeof event === "object" && "verified" in event) throw new Error("a score is not finite");
    return next(event);
  };
  const members = played!.members.map(
    (script, index) => new Member(names[index]!, script, [], () => undefined),
  );
  const run = rounds(members, machine, settings, new AbortController().signal);
  await assert.rejects(run.next(), { message: "a score is not finite" });
});
