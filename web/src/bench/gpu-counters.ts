/**
 * Counts an engine's WebGPU calls from outside: wraps the prototypes of a page's or worker's scope
 * before they are used. Counts are independent of the machine's speed and of the engine's own
 * reports.
 */

/** Counts since the page began; {@link since} gives the difference of two. */
export interface GpuCounts {
  /** Buffers mapped for reading, and the bytes mapped. */
  readbacks: number;
  readBytes: number;
  submits: number;
  encoders: number;
  passes: number;
  dispatches: number;
  /** Copies and clears recorded outside of passes. */
  copies: number;
  /** `writeBuffer` calls and their bytes. */
  writes: number;
  writtenBytes: number;
  buffers: number;
  bufferBytes: number;
  bindGroups: number;
  pipelines: number;
  shaders: number;
  /** `onSubmittedWorkDone`, `popErrorScope`: waits for the GPU without reading. */
  waits: number;
  /**
   * Milliseconds from the first to the last WebGPU call of each task, summed: the time to record
   * the work, not to run it.
   */
  recordMs: number;
  /**
   * Part of `recordMs` inside the WebGPU calls, which is the browser's own time. The rest of
   * `recordMs` is the engine's.
   */
  callMs: number;
}

type Method = (this: object, ...args: unknown[]) => unknown;

const mapRead = 1;
const number = (value: unknown): number => (typeof value === "number" ? value : 0);

export class GpuCounters {
  readonly #counts: GpuCounts = {
    readbacks: 0,
    readBytes: 0,
    submits: 0,
    encoders: 0,
    passes: 0,
    dispatches: 0,
    copies: 0,
    writes: 0,
    writtenBytes: 0,
    buffers: 0,
    bufferBytes: 0,
    bindGroups: 0,
    pipelines: 0,
    shaders: 0,
    waits: 0,
    recordMs: 0,
    callMs: 0,
  };
  /** Bytes of a buffer still allocated; 0 after it was destroyed. */
  readonly #left = new WeakMap<object, { bytes: number }>();
  readonly #collected = new FinalizationRegistry<{ bytes: number }>(
    (left) => (this.#liveBytes -= left.bytes),
  );
  #liveBytes = 0;
  /** Times in ms of the present task's first and last WebGPU call; `#open`: it has made one. */
  #first = 0;
  #last = 0;
  #open = false;
  readonly #turn = new MessageChannel();

  private constructor() {
    this.#turn.port1.onmessage = () => this.#closeBurst();
    // Node, where the tests run, waits for open ports; browsers do not.
    (this.#turn.port1 as { unref?: () => void }).unref?.();
  }

  /** Wraps the scope's WebGPU; undefined without one. */
  static install(scope: object = globalThis): GpuCounters | undefined {
    if (!("GPUDevice" in scope)) return undefined;
    const counters = new GpuCounters();
    counters.#wrap(scope as Record<string, { prototype: Record<string, Method> } | undefined>);
    return counters;
  }

  /** All counts up to now. */
  read(): GpuCounts {
    this.#closeBurst();
    return { ...this.#counts };
  }

  /** Bytes of buffers that exist now: neither destroyed nor known to be collected. */
  get liveBytes(): number {
    return this.#liveBytes;
  }

  #wrap(scope: Record<string, { prototype: Record<string, Method> } | undefined>): void {
    const counts = this.#counts;
    const wrap = (
      type: string,
      names: string[],
      before: (self: object, args: unknown[]) => void,
      after?: (result: object) => void,
    ): void => {
      const prototype = scope[type]?.prototype;
      if (!prototype) return;
      const counters = this;
      for (const name of names) {
        const own = prototype[name];
        if (!own) continue;
        prototype[name] = function (this: object, ...args: unknown[]): unknown {
          counters.#enter();
          before(this, args);
          const called = performance.now();
          const result = own.apply(this, args);
          counters.#last = performance.now();
          counts.callMs += counters.#last - called;
          after?.(result as object);
          return result;
        };
      }
    };
    wrap("GPUQueue", ["submit"], () => counts.submits++);
    wrap("GPUQueue", ["writeBuffer"], (_, [, , data, offset, size]) => {
      counts.writes++;
      counts.writtenBytes += written(data, number(offset), size);
    });
    wrap("GPUQueue", ["onSubmittedWorkDone"], () => counts.waits++);
    wrap("GPUCommandEncoder", ["beginComputePass"], () => counts.passes++);
    wrap("GPUCommandEncoder", ["copyBufferToBuffer", "clearBuffer"], () => counts.copies++);
    wrap("GPUCommandEncoder", ["finish"], () => undefined);
    wrap(
      "GPUComputePassEncoder",
      ["dispatchWorkgroups", "dispatchWorkgroupsIndirect"],
      () => counts.dispatches++,
    );
    wrap("GPUComputePassEncoder", ["setPipeline", "setBindGroup", "end"], () => undefined);
    wrap("GPUBuffer", ["mapAsync"], (self, [mode, offset, size]) => {
      if (!(number(mode) & mapRead)) return;
      counts.readbacks++;
      counts.readBytes +=
        typeof size === "number" ? size : number((self as { size?: number }).size) - number(offset);
    });
    wrap("GPUBuffer", ["destroy"], (self) => this.#forget(self));
    let asked = 0;
    wrap(
      "GPUDevice",
      ["createBuffer"],
      (_, [descriptor]) => (asked = number((descriptor as { size?: number }).size)),
      (buffer) => {
        counts.buffers++;
        counts.bufferBytes += asked;
        this.#remember(buffer, asked);
      },
    );
    wrap("GPUDevice", ["createBindGroup"], () => counts.bindGroups++);
    wrap("GPUDevice", ["createCommandEncoder"], () => counts.encoders++);
    wrap(
      "GPUDevice",
      ["createComputePipeline", "createComputePipelineAsync"],
      () => counts.pipelines++,
    );
    wrap("GPUDevice", ["createShaderModule"], () => counts.shaders++);
    wrap("GPUDevice", ["popErrorScope"], () => counts.waits++);
  }

  /** Begins a call; a task's first begins its burst. */
  #enter(): void {
    if (this.#open) return;
    this.#open = true;
    this.#first = this.#last = performance.now();
    this.#turn.port2.postMessage(null);
  }

  #closeBurst(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#counts.recordMs += this.#last - this.#first;
  }

  #remember(buffer: object, bytes: number): void {
    const left = { bytes };
    this.#liveBytes += bytes;
    this.#left.set(buffer, left);
    this.#collected.register(buffer, left);
  }

  #forget(buffer: object): void {
    const left = this.#left.get(buffer);
    if (!left) return;
    this.#liveBytes -= left.bytes;
    left.bytes = 0;
  }
}

/** Bytes of a `writeBuffer`: offset and size count elements of a typed array, bytes of a buffer. */
function written(data: unknown, offset: number, size: unknown): number {
  const { byteLength, BYTES_PER_ELEMENT = 1 } = data as {
    byteLength: number;
    BYTES_PER_ELEMENT?: number;
  };
  return typeof size === "number"
    ? size * BYTES_PER_ELEMENT
    : byteLength - offset * BYTES_PER_ELEMENT;
}

/** Difference of two readings. */
export function since(before: GpuCounts, after: GpuCounts): GpuCounts {
  const difference = { ...after };
  for (const key of Object.keys(difference) as (keyof GpuCounts)[]) difference[key] -= before[key];
  return difference;
}
