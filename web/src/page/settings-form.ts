/**
 * The settings of the method and of sampling as a form: defaults from the engine, one line of help
 * each.
 */
import type { BackendChoice } from "../protocol/backend.ts";
import {
  defaultRule,
  type Ranges,
  type Rule,
  type Rules,
  type Sampling,
  type Settings,
  type Thinking,
} from "../protocol/engine.ts";
import { defaultSampling, samplingControls } from "../protocol/generated-settings.ts";
import { button, el } from "./dom.ts";

interface NumberField {
  label: string;
  help: string;
  step: number;
  /** For the method's own numbers the engine reports the range. */
  min?: number;
  max?: number;
}

/** The method's numbers in the form. */
const numbers = {
  segmentTokens: {
    label: "Segment length L",
    help: "Tokens a member drafts in one round, at most.",
    step: 1,
  },
  maxRounds: {
    label: "Rounds, at most",
    help: "The answer stops after so many segments.",
    step: 1,
  },
  trust: {
    label: "Trust in size",
    help: "How much more larger models' votes count; 0: all the same.",
    step: 0.05,
  },
  discount: {
    label: "Discount",
    help:
      "Share of its votes kept by a draft that repeats, " +
      "or that ends unsurely while others go on.",
    step: 0.05,
  },
  alone: {
    label: "Alone if sure, nats",
    help:
      "The largest model answers by itself if its answer surprises it by no more, " +
      "in a conversation only with a new word; 0: all always vote.",
    step: 0.1,
  },
  alpha: {
    label: "Feedback strength α",
    help: "0 keeps all weights equal.",
    step: 0.1,
  },
} satisfies Partial<Record<keyof Settings, NumberField>>;
const numbered = Object.keys(numbers) as (keyof typeof numbers)[];
const sampled = Object.keys(samplingControls) as (keyof typeof samplingControls)[];
/** The method's choices in the form. */
const chosen = ["scoring", "reward", "rate", "update"] as const;
const ticked = ["scoreEnd", "selfVotes", "level", "agree", "fast"] as const;
/** Longest answer, in characters: more than any member has room for here. */
const mostCharacters = 200_000;
/** Value of the rule's select after a switch was changed. */
const own = "own";
export interface ChosenSettings {
  settings: Settings;
  sampling: Partial<Sampling>;
  thinking: Thinking;
}

export class SettingsForm {
  readonly #form: HTMLFormElement;
  /**
   * All controls except the engine's: disabled until the defaults, which replace their values, are
   * known.
   */
  readonly #method: (HTMLFieldSetElement | HTMLButtonElement)[];
  readonly #closed = el("p", { class: "hint" }, "These open as soon as an engine runs.");
  #rules: Rules | undefined;
  /** Rule that the switches were last filled from; also supplies settings that the form lacks. */
  #rule: Rule = defaultRule;

  constructor(
    form: HTMLFormElement,
    backend: BackendChoice,
    onBackend: (choice: BackendChoice) => void,
  ) {
    this.#form = form;
    const backendChoice = select<BackendChoice>(
      "backend",
      "Runs on",
      "WebGPU where there is a graphics card, else the CPU.",
      {
        auto: "Automatic",
        webgpu: "GPU (WebGPU)",
        cpu: "CPU (wasm SIMD)",
      },
    );
    const reset = button(
      "Back to the defaults",
      () => {
        this.reset();
        form.dispatchEvent(new Event("change"));
      },
      { class: "quiet" },
    );
    const groups = [
      group(
        "Drafting",
        numeric("segmentTokens", numbers.segmentTokens),
        numeric("maxRounds", numbers.maxRounds),
        ...sampled.map((name) => numeric(name, samplingControls[name])),
        seed(),
        select<Thinking>(
          "thinking",
          "Thinking",
          "Whether members that can think aloud do so first. " +
            "It is shown folded, and no part of the answer.",
          {
            off: "Off",
            on: "On",
            auto: "As each model has it",
          },
        ),
      ),
      group(
        "Voting",
        rule(),
        select<Settings["scoring"]>(
          "scoring",
          "Scoring",
          "What votes are computed from. " +
            "The harmonic score depends mostly on a draft's least likely words.",
          {
            harmonic: "Harmonic",
            logit: "Mean raw logit",
            likelihood: "Likelihood",
          },
        ),
        tick(
          "scoreEnd",
          "Score the end",
          "Where a draft ends the answer, members also score that it ends there.",
        ),
        tick(
          "selfVotes",
          "Members score their own candidates",
          "Off: only the others' scores count.",
        ),
        tick(
          "level",
          "Level votes",
          "Each member's favourite draft gets the same vote, however sure the member is.",
        ),
        tick(
          "agree",
          "Same answers agree",
          "Drafts that say the same in another form share their votes.",
        ),
        numeric("trust", numbers.trust),
        numeric("discount", numbers.discount),
        numeric("alone", numbers.alone),
        tick(
          "leader",
          "Leader drafts",
          "One member drafts for all, and the others only if a member doubts it. " +
            "Quicker when members mostly agree.",
        ),
        tick("fast", "Fast mode", "Take a candidate that ends the answer at once, without a vote."),
      ),
      group(
        "Feedback",
        select<Settings["reward"]>(
          "reward",
          "Reward",
          "What increases a weight. With two members only shares distinguish them.",
          {
            shares: "The others' shares",
            counts: "How often preferred",
          },
        ),
        select<Settings["rate"]>(
          "rate",
          "Learning rate",
          "How fast weights move from round to round. A fixed share adapts in mid-answer.",
          {
            code: "The authors' code",
            printed: "The paper's print",
            "fixed-share": "A fixed share",
          },
        ),
        numeric("alpha", numbers.alpha),
        select<Settings["update"]>(
          "update",
          "Weights change",
          "Before: a round's own feedback counts in its vote.",
          {
            before: "Before the vote",
            after: "After the vote",
          },
        ),
        tick("exit", "Model exit", "Members that fall clearly behind leave the question early."),
      ),
    ];
    this.#method = [...groups, reset];
    for (const control of this.#method) control.disabled = true;
    form.append(
      this.#closed,
      ...groups,
      group("Engine", backendChoice),
      el("p", { class: "actions" }, reset),
    );
    this.setBackend(backend);
    const control = backendChoice.querySelector("select");
    control?.addEventListener("change", () => onBackend(control.value as BackendChoice));
    this.#control("rule").addEventListener("change", () =>
      this.#follow(this.#control("rule").value as Rule),
    );
    for (const method of this.#method) method.addEventListener("change", () => this.#nameRule());
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /**
   * Applies the engine's rules and ranges; the first time also the default rule's settings. Later
   * the visitor's choices stay. Returns whether it was the first time.
   */
  setRules(rules: Rules, ranges: Ranges): boolean {
    const first = this.#rules === undefined;
    this.#rules = rules;
    for (const name of numbered) {
      const range = ranges[name];
      if (range)
        for (const [end, value] of Object.entries({ min: range.low, max: range.high }))
          this.#control(name).setAttribute(end, String(value));
    }
    if (!first) return false;
    this.reset();
    this.#closed.remove();
    for (const control of this.#method) control.disabled = false;
    return true;
  }

  /** All values of the form but the engine's, to keep them. */
  get values(): Record<string, string | boolean> {
    const values = this.#kept().map((control): [string, string | boolean] => [
      control.name,
      isBox(control) ? control.checked : control.value,
    ]);
    return { rule: this.#rule, ...Object.fromEntries(values) };
  }

  /** Sets kept values; ignores those of controls that are gone, or of another kind. */
  restore(values: unknown): void {
    if (typeof values !== "object" || values === null) return;
    const { rule } = values as { rule?: unknown };
    if (typeof rule === "string" && this.#rules && Object.hasOwn(this.#rules, rule))
      this.#follow(rule as Rule);
    for (const control of this.#kept()) {
      const value: unknown = (values as Record<string, unknown>)[control.name];
      if (isBox(control)) {
        if (typeof value === "boolean") control.checked = value;
      } else if (typeof value === "string") {
        const before = control.value;
        control.value = value;
        if (!control.validity.valid) control.value = before;
      }
    }
    this.#nameRule();
  }

  #kept(): (HTMLInputElement | HTMLSelectElement)[] {
    return [...this.#form.elements].filter(
      (control) =>
        (control instanceof HTMLInputElement || control instanceof HTMLSelectElement) &&
        control.name !== "backend" &&
        control.name !== "rule",
    ) as (HTMLInputElement | HTMLSelectElement)[];
  }

  setBackend(choice: BackendChoice): void {
    this.#control("backend").value = choice;
  }

  reset(): void {
    for (const name of sampled) this.#control(name).value = String(defaultSampling[name]);
    this.#control("seed").value = "";
    this.#control("thinking").value = "off";
    if (this.#rules) this.#control("maxRounds").value = String(this.#rules[defaultRule].maxRounds);
    this.#follow(defaultRule);
  }

  /** Sets all switches of the method to a rule's; the number of rounds is not part of a rule. */
  #follow(rule: Rule): void {
    const settings = this.#rules?.[rule];
    if (!settings) return;
    this.#rule = rule;
    for (const name of numbered)
      if (name !== "maxRounds") this.#control(name).value = String(settings[name]);
    for (const name of chosen) this.#control(name).value = settings[name];
    for (const name of ticked) this.#box(name).checked = settings[name];
    this.#box("exit").checked = settings.exit !== null;
    this.#box("leader").checked = settings.leader !== null;
    this.#nameRule();
  }

  /** Shows the rule that the switches match. */
  #nameRule(): void {
    const rules = this.#rules;
    const settings = this.#settings();
    if (!rules || !settings) return;
    const serialised = (settings: Settings): string =>
      JSON.stringify({ ...settings, maxRounds: 0 });
    const rule = (Object.keys(rules) as Rule[]).find(
      (name) => serialised(rules[name]) === serialised(settings),
    );
    this.#control("rule").value = rule ?? own;
  }

  /** Current settings, in range or not. */
  #settings(): Settings | undefined {
    const base = this.#rules?.[this.#rule];
    if (!base) return undefined;
    const value = <K extends (typeof chosen)[number]>(name: K): Settings[K] =>
      this.#control(name).value as Settings[K];
    return {
      ...base,
      ...entries(numbered, (name) => this.#number(name)),
      ...entries(ticked, (name) => this.#box(name).checked),
      scoring: value("scoring"),
      reward: value("reward"),
      rate: value("rate"),
      update: value("update"),
      leader: this.#box("leader").checked
        ? (base.leader ?? this.#rules?.leader.leader ?? null)
        : null,
      // The threshold is a share of 1/n: half an equal vote, as in the paper's example.
      exit: this.#box("exit").checked
        ? (base.exit ?? { warmup: 3, temperature: 6, threshold: 0.5 })
        : null,
    };
  }

  get thinking(): Thinking {
    return this.#control("thinking").value as Thinking;
  }

  /** The form's values; undefined if one is out of range, which the browser then reports. */
  read(): ChosenSettings | undefined {
    const settings = this.#settings();
    if (!settings) return undefined;
    if (!this.#form.checkValidity()) {
      const details = this.#form.closest("details");
      if (details) details.open = true;
      this.#form.reportValidity();
      return undefined;
    }
    const seedText = this.#control("seed").value;
    return {
      // The members' context ends an answer, not a number of characters.
      settings: { ...settings, maxCharacters: Math.max(settings.maxCharacters, mostCharacters) },
      sampling: {
        ...entries(sampled, (name) => this.#number(name)),
        ...(seedText === "" ? {} : { seed: Number(seedText) }),
      },
      thinking: this.thinking,
    };
  }

  #number(name: string): number {
    return Number(this.#control(name).value);
  }

  #control(name: string): HTMLInputElement | HTMLSelectElement {
    const control = this.#form.elements.namedItem(name);
    if (control instanceof HTMLInputElement || control instanceof HTMLSelectElement) return control;
    throw new Error(`The settings form has no control called ${name}`);
  }

  #box(name: string): HTMLInputElement {
    const control = this.#control(name);
    if (control instanceof HTMLInputElement) return control;
    throw new Error(`${name} is no box to tick`);
  }
}

const isBox = (control: HTMLInputElement | HTMLSelectElement): control is HTMLInputElement =>
  control instanceof HTMLInputElement && control.type === "checkbox";

function group(title: string, ...fields: HTMLElement[]): HTMLFieldSetElement {
  return el("fieldset", {}, el("legend", {}, title), ...fields);
}

function field(name: string, label: string, help: string, control: HTMLElement): HTMLElement {
  control.setAttribute("id", `setting-${name}`);
  control.setAttribute("name", name);
  control.setAttribute("aria-describedby", `help-${name}`);
  return el(
    "div",
    { class: "field" },
    el("label", { for: `setting-${name}` }, label),
    control,
    el("small", { id: `help-${name}` }, help),
  );
}

/** An object with the value of each name. */
function entries<K extends string, V>(names: readonly K[], value: (name: K) => V): Record<K, V> {
  return Object.fromEntries(names.map((name) => [name, value(name)])) as Record<K, V>;
}

function numeric(name: string, { label, help, ...ends }: NumberField): HTMLElement {
  return field(
    name,
    label,
    help,
    el("input", { type: "number", ...ends, required: true, inputmode: "decimal" }),
  );
}

function seed(): HTMLElement {
  const control = el("input", {
    type: "number",
    min: 0,
    max: 2 ** 31 - 1,
    step: 1,
    placeholder: "new each time",
    inputmode: "numeric",
  });
  return field(
    "seed",
    "Seed",
    "The same seed draws the same text again, on the same device.",
    control,
  );
}

/** A select with all values of `V`; a missing one does not compile. */
function select<V extends string>(
  name: string,
  label: string,
  help: string,
  options: Record<V, string>,
): HTMLElement {
  return field(
    name,
    label,
    help,
    el(
      "select",
      {},
      ...Object.entries<string>(options).map(([value, text]) => el("option", { value }, text)),
    ),
  );
}

function rule(): HTMLElement {
  const names: Record<Rule, string> = {
    harmonic: "Does best where measured (harmonic)",
    leader: "A leader drafts",
    paper: "The paper's",
  };
  const element = select<Rule>(
    "rule",
    "Rule",
    "The best in measurements; the same with leader drafts; the method as published. " +
      "Sets every switch of the method.",
    names,
  );
  element.classList.add("wide");
  element
    .querySelector("select")
    ?.append(el("option", { value: own, disabled: true, hidden: true }, "Your own"));
  return element;
}

function tick(name: string, label: string, help: string): HTMLElement {
  const element = field(name, label, help, el("input", { type: "checkbox" }));
  element.classList.add("tick");
  return element;
}
