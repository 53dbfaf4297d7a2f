import { cpSync } from "node:fs";
import { buildSync } from "esbuild";

buildSync({ entryPoints: ["main.js"], bundle: true, format: "esm", target: "es2022", minify: true, outdir: "dist" });
cpSync("index.html", "dist/index.html");
// esbuild does not copy files that scripts name by `new URL`: they go into a folder, which main.js names.
cpSync("node_modules/conclave", "dist/conclave", { recursive: true });
