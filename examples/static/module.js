/** Loads the bundled toys at the first question and asks them; earlier questions stay in the conversation. */
import { Conclave, ConclaveError, isFatal } from "./conclave/conclave.js";

const form = document.querySelector("form");
const stop = document.querySelector("#stop");
const answer = document.querySelector("#answer");
const told = document.querySelector("#told");

/** Conversation so far; roles alternate. */
const messages = [];
let conclave;

async function ask(question) {
  const controller = new AbortController();
  const { signal } = controller;
  stop.onclick = () => controller.abort();
  stop.disabled = false;
  answer.textContent = "";
  let text = "";
  try {
    conclave ??= await Conclave.load({
      signal,
      onProgress: ({ member, phase, loaded, total }) => (told.textContent = `${member}: ${phase} ${loaded} of ${total} bytes`),
    });
    told.textContent = conclave.why;
    for await (const event of conclave.ask([...messages, { role: "user", content: question }], { signal })) {
      if (event.type === "round") {
        text += event.text;
        answer.textContent = text;
        told.textContent = `Round ${event.round}: ${event.candidates[event.winner].member} wrote this.`;
      }
      if (event.type === "end") told.textContent = `Over (${event.stop}) after ${Math.round(event.ms)} ms.`;
    }
  } catch (error) {
    if (signal.aborted) told.textContent = "Stopped.";
    else if (error instanceof ConclaveError) {
      told.textContent = error.message; // says what to do next; what was accepted stays in the answer
      if (isFatal(error)) {
        conclave?.close();
        conclave = undefined;
      }
    } else throw error;
  } finally {
    stop.disabled = true;
    if (text !== "") messages.push({ role: "user", content: question }, { role: "assistant", content: text });
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const question = new FormData(form).get("question").trim();
  if (question !== "" && stop.disabled) void ask(question);
});
