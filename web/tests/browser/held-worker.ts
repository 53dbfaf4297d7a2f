/**
 * Runs in the engine's worker before it: pipelines that are asked for stay under way until a test
 * lets them be finished.
 */
export interface Held {
  /** Resolves when the first pipeline is asked for. */
  asked: Promise<void>;
  release(): void;
}

type Create = (this: object, descriptor: unknown) => Promise<unknown>;

const scope = globalThis as unknown as {
  GPUDevice: { prototype: { createComputePipelineAsync: Create } };
  held: Held;
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
