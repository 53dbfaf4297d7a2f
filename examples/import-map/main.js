import { Conclave } from "conclave";

const answer = document.querySelector("#answer");
const loading = Conclave.load();

document.querySelector("form").addEventListener("submit", async (submitted) => {
  submitted.preventDefault();
  answer.textContent = "";
  const content = new FormData(submitted.target).get("question");
  for await (const event of (await loading).ask([{ role: "user", content }])) {
    if (event.type === "round") answer.textContent += event.text;
  }
});
