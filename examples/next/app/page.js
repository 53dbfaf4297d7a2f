import { Chat } from "./chat.js";

export default function Page() {
  return (
    <main>
      <h1>Ask the bundled toys</h1>
      <Chat />
    </main>
  );
}
