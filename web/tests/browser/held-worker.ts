/** Runs before the engine's worker: pipelines stay pending until a test releases them. */
export interface HeldPipelines {
  /** Resolves when the first pipeline is requested. */
  asked: Promise<void>;
  release(): void;
}

type Create = (this: object, descriptor: unknown) => Promise<unknown>;

const scope = globalThis as unknown as {
  GPUDevice: { prototype: { createComputePipelineAsync: Create } };
  held: HeldPipelines;
};
let ask = (): void => {};
const asked = new Promise<void>((resolve) => (ask = resolve));
let release = (): void => {};
const released = new Promise<void>((resolve) => (release = resolve));
scope.held = { asked, release };

const { prototype } = scope.GPUDevice;
const create = prototype.createComputePipelineAsync;
prototype.createComputePipelineAsync = async function (descriptor) {
  ask();
  await released;
  return create.call(this, descriptor);
};
