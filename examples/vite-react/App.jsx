import { useConclave } from "conclave/react";

export function App() {
  const { text, status, error, ask } = useConclave();

  function submit(event) {
    event.preventDefault();
    void ask(new FormData(event.target).get("question"));
  }

  return (
    <>
      <h1>Ask the bundled toys</h1>
      <form onSubmit={submit}>
        <input name="question" aria-label="Your question" defaultValue="What is 347 + 586?" />
        <button disabled={status === "loading" || status === "answering"}>Ask</button>
      </form>
      <p id="answer" aria-live="polite">{text}</p>
      <p role="status">{error ? error.message : status}</p>
    </>
  );
}
