/** The question box. It is as high as what is in it, within the style sheet's bounds. */
export class QuestionBox {
  readonly #area: HTMLTextAreaElement;
  /** Browsers that know field-sizing need no help. */
  readonly #byScript = !CSS.supports("field-sizing", "content");

  constructor(area: HTMLTextAreaElement) {
    this.#area = area;
    if (!this.#byScript) return;
    area.addEventListener("input", () => this.#fit());
    // Another width breaks other lines.
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

  #fit(): void {
    const { style } = this.#area;
    style.height = "auto";
    const { scrollHeight, offsetHeight, clientHeight } = this.#area;
    style.height = `${scrollHeight + offsetHeight - clientHeight}px`;
  }
}
