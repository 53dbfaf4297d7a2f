/** A registry like npm's that has the package alone, as a release would put it there. */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { packed } from "./project.ts";

/** Serves the package until the end of the test, and returns the registry's address. */
export async function registry(
  context: TestContext,
  { name, version }: { name: string; version: string },
): Promise<string> {
  const tarball = await readFile(packed());
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", address).pathname);
    if (path === `/${name}`) {
      const one = { name, version, dist: { tarball: `${address}package.tgz` } };
      const about = { name, "dist-tags": { latest: version }, versions: { [version]: one } };
      response.setHeader("content-type", "application/json").end(JSON.stringify(about));
    } else if (path === "/package.tgz") response.end(tarball);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return address;
}
