/**
 * Serves a folder on this machine: `node scripts/serve.mjs FOLDER PORT [HEADERS]`; HEADERS is a
 * JSON object of headers for every response. Uses a free port if that one is taken, and prints the
 * address.
 */
import { createServer } from "node:http";
import sirv from "sirv";

const [folder, port, headers = "{}"] = process.argv.slice(2);
if (folder === undefined || port === undefined) {
  console.error("usage: node scripts/serve.mjs FOLDER PORT [HEADERS]");
  process.exit(2);
}
const always = Object.entries(JSON.parse(headers));
// Always the latest build.
const files = sirv(folder, {
  dev: true,
  setHeaders: (response) => always.forEach(([name, value]) => response.setHeader(name, value)),
});
const server = createServer((request, response) => {
  files(request, response, () => {
    always.forEach(([name, value]) => response.setHeader(name, value));
    response.writeHead(404, { "content-type": "text/plain" }).end("Not found");
  });
});
server.on("error", (error) => {
  if (error.code !== "EADDRINUSE" || port === "0") throw error;
  console.log(`Port ${port} is taken.`);
  server.listen(0, "127.0.0.1");
});
server.on("listening", () => console.log(`http://127.0.0.1:${server.address().port}/`));
server.listen(Number(port), "127.0.0.1");
