/** The question box, as high as its text within the style sheet's bounds. */
export class QuestionBox {
  readonly #area: HTMLTextAreaElement;
  /** Not needed in browsers with field-sizing. */
  readonly #byScript = !CSS.supports("field-sizing", "content");

  constructor(area: HTMLTextAreaElement) {
    this.#area = area;
    if (!this.#byScript) return;
    area.addEventListener("input", () => this.#fit());
    // Another width breaks lines elsewhere.
    addEventListener("resize", () => this.#fit());
  }

  get text(): string {
    return this.#area.value;
  }

  set text(text: string) {
    this.#area.value = text;
    if (this.#byScript) this.#fit();
  }

  focus(): void {
    this.#area.focus();
  }

  onKey(listener: (event: KeyboardEvent) => void): void {
    this.#area.addEventListener("keydown", listener);
  }

  /** Called for every change by the visitor. */
  onInput(listener: () => void): void {
    this.#area.addEventListener("input", listener);
  }

  #fit(): void {
    const { style } = this.#area;
    style.height = "auto";
    const { scrollHeight, offsetHeight, clientHeight } = this.#area;
    style.height = `${scrollHeight + offsetHeight - clientHeight}px`;
  }
}
