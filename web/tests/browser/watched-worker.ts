/**
 * Runs before the engine's worker: counts kernel launches by name, refuses those that a test names,
 * and may rename the adapter. Tests read `watched` there.
 */

/** Options of a test. */
export interface Watch {
  /** Kernels that the driver can't compile. */
  refuse?: string[];
  /** The adapter's vendor name. */
  vendor?: string;
}

export interface Watched {
  /** Dispatches of each kernel. */
  launched: Record<string, number>;
  refused: string[];
}

interface Labelled {
  label: string;
}
type Method = (this: object, ...args: unknown[]) => unknown;

const scope = globalThis as unknown as Record<string, { prototype: Record<string, Method> }> & {
  given: Watch;
  watched: Watched;
};
const { refuse = [], vendor } = scope.given;
const watched: Watched = (scope.watched = { launched: {}, refused: [] });

function wrap(type: string, name: string, instead: (own: Method) => Method): void {
  const prototype = scope[type]!.prototype;
  prototype[name] = instead(prototype[name]!);
}

wrap(
  "GPUDevice",
  "createComputePipelineAsync",
  (own) =>
    function (descriptor) {
      const { label } = descriptor as Labelled;
      if (!refuse.includes(label)) return own.call(this, descriptor);
      watched.refused.push(label);
      return Promise.reject(new GPUPipelineError("The compiler gave up.", { reason: "internal" }));
    },
);

const set = new WeakMap<object, string>();
wrap(
  "GPUComputePassEncoder",
  "setPipeline",
  (own) =>
    function (pipeline) {
      set.set(this, (pipeline as Labelled).label);
      return own.call(this, pipeline);
    },
);
for (const dispatch of ["dispatchWorkgroups", "dispatchWorkgroupsIndirect"]) {
  wrap(
    "GPUComputePassEncoder",
    dispatch,
    (own) =>
      function (...args) {
        const label = set.get(this) ?? "";
        watched.launched[label] = (watched.launched[label] ?? 0) + 1;
        return own.apply(this, args);
      },
  );
}

if (vendor !== undefined) {
  const info = { vendor, architecture: "", device: "", description: "", isFallbackAdapter: false };
  Object.defineProperty(scope["GPUAdapter"]!.prototype, "info", { get: () => info });
  Object.defineProperty(scope["GPUDevice"]!.prototype, "adapterInfo", { get: () => info });
}

declare class GPUPipelineError extends DOMException {
  constructor(message: string, options: { reason: "internal" | "validation" });
}
