import assert from "node:assert/strict";
import { test } from "node:test";
import {
  adapterName,
  backendNamed,
  chooseBackend,
  coreNamed,
  isSoftware,
  type Gpu,
  type GpuAdapter,
} from "./backend.ts";
import { NoGpu } from "./errors.ts";

const gpu = (adapter: GpuAdapter | null): Gpu => ({ requestAdapter: async () => adapter });
const hardware: GpuAdapter = {
  info: { vendor: "nvidia", architecture: "ampere", description: "NVIDIA GeForce RTX 3060" },
};
const swiftshader: GpuAdapter = {
  info: { vendor: "google", architecture: "swiftshader", description: "" },
};

test("auto takes the GPU only where a hardware adapter answers", async () => {
  assert.equal((await chooseBackend("auto", gpu(hardware))).backend, "webgpu");
  assert.equal((await chooseBackend("auto", gpu(swiftshader))).backend, "cpu");
  assert.equal((await chooseBackend("auto", gpu(null))).backend, "cpu");
  assert.equal((await chooseBackend("auto", undefined)).backend, "cpu");
  const throws: Gpu = { requestAdapter: () => Promise.reject(new Error("blocked")) };
  assert.equal((await chooseBackend("auto", throws)).backend, "cpu");
});

test("what is chosen by name is taken, or refused with what to do", async () => {
  assert.equal((await chooseBackend("cpu", gpu(hardware))).backend, "cpu");
  assert.equal((await chooseBackend("webgpu", gpu(swiftshader))).backend, "webgpu");
  await assert.rejects(
    chooseBackend("webgpu", undefined),
    (error) => error instanceof NoGpu && /CPU backend/.test(error.message),
  );
  await assert.rejects(chooseBackend("webgpu", gpu(null)), NoGpu);
});

test("software adapters are known by flag and by name", () => {
  assert.ok(isSoftware({ isFallbackAdapter: true }));
  assert.ok(isSoftware({ info: { isFallbackAdapter: true } }));
  assert.ok(isSoftware({ info: { description: "llvmpipe (LLVM 15.0.6, 256 bits)" } }));
  assert.ok(isSoftware({ info: { description: "Microsoft Basic Render Driver" } }));
  assert.ok(!isSoftware(hardware));
  assert.ok(!isSoftware({}), "a browser that hides the names is given the benefit of the doubt");
});

test("an adapter is named by what the browser tells", () => {
  assert.equal(adapterName(hardware), "NVIDIA GeForce RTX 3060");
  assert.equal(adapterName(swiftshader), "google swiftshader");
  assert.equal(adapterName({}), "unnamed adapter");
});

test("the address names the backend, nonsense is auto", () => {
  assert.equal(backendNamed("cpu"), "cpu");
  assert.equal(backendNamed("webgpu"), "webgpu");
  assert.equal(backendNamed("cuda"), "auto");
  assert.equal(backendNamed(null), "auto");
});

test("the address names the core, nonsense names none", () => {
  assert.equal(coreNamed("burn"), "burn");
  assert.equal(coreNamed("fused"), "fused");
  assert.equal(coreNamed("candle"), undefined);
  assert.equal(coreNamed(null), undefined);
});
