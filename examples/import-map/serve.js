import { createServer } from "node:http";
import sirv from "sirv";

createServer(sirv(".")).listen(8000);
// The package is on its own origin, which allows other origins' pages to read it.
const setHeaders = (response) => response.setHeader("Access-Control-Allow-Origin", "*");
createServer(sirv("node_modules/conclave", { setHeaders })).listen(8001);
console.log("http://localhost:8000");
