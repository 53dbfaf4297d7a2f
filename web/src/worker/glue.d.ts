/**
 * What wasm-bindgen wrote beside a module; the build puts it into the worker that starts that
 * module (scripts/build.mjs).
 */
declare module "engine-glue";
declare module "grammar-glue";
declare module "open-core-glue";
