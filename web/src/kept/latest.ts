/** Writes the latest of quickly changing values: one write at a time, and none that is outdated. */
export class Latest<T> {
  readonly #write: (value: T) => Promise<void>;
  #next: { value: T } | undefined;
  #writing: Promise<void> | undefined;

  constructor(write: (value: T) => Promise<void>) {
    this.#write = write;
  }

  /** Resolves once this value, or a later one, is written. */
  set(value: T): Promise<void> {
    this.#next = { value };
    return (this.#writing ??= this.#run());
  }

  /** Drops a value that is not being written yet. */
  drop(): void {
    this.#next = undefined;
  }

  async #run(): Promise<void> {
    try {
      for (let next = this.#next; next; next = this.#next) {
        this.#next = undefined;
        await this.#write(next.value);
      }
    } finally {
      this.#writing = undefined;
    }
  }
}
