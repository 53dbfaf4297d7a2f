/**
 * Script that wasm-bindgen generates for a module; the build bundles it into the worker that starts
 * that module (scripts/build.mjs).
 */
declare module "engine-glue";
declare module "grammar-glue";
declare module "open-core-glue";
declare module "remote-glue";
