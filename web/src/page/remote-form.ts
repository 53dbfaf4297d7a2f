/**
 * Form for a member behind a server: its address, model and key, and which host receives what. The
 * key is passed to the engine, and stored in this browser only if the visitor wants that.
 */
import { remoteAddress, typed } from "../library/conclave.ts";
import type { MemberSource } from "../protocol/messages.ts";
import { usualTimeout } from "../protocol/remote.ts";
import { technical } from "./dialog.ts";
import { el } from "./dom.ts";

export class RemoteForm {
  readonly root: HTMLElement;
  readonly #address = el("input", {
    ...technical,
    id: "remote-address",
    inputmode: "url",
    placeholder: "https://example.org/v1",
    "aria-describedby": "remote-hint",
  });
  readonly #model = el("input", {
    ...technical,
    id: "remote-model",
    placeholder: "the server's only one",
  });
  readonly #key = el("input", {
    id: "remote-key",
    type: "password",
    autocomplete: "off",
    placeholder: "if it asks for one",
  });
  readonly #seconds = el("input", {
    id: "remote-seconds",
    type: "number",
    min: 1,
    max: 600,
    step: 1,
    value: usualTimeout / 1000,
    required: true,
  });
  readonly #judge = el("input", { id: "remote-judge", type: "checkbox" });
  readonly #keepsKey = el("input", { id: "remote-keeps-key", type: "checkbox" });
  readonly #hint = el("p", { class: "hint", id: "remote-hint", role: "status" });
  /** The entered address is invalid; reset when it changes. */
  #refused = false;

  /** `onAdd` is called with the member, and whether its key is kept in this browser. */
  constructor(onAdd: (source: MemberSource, keepsKey: boolean) => void) {
    const field = (label: string, input: HTMLInputElement): HTMLElement =>
      el("div", { class: "remote-field" }, el("label", { for: input.id }, label), input);
    const form = el(
      "form",
      { class: "add-form" },
      el(
        "p",
        { class: "hint" },
        "A model too large for this machine, on any server that speaks OpenAI's protocol: " +
          "vLLM, llama.cpp, a provider's. One that can only chat judges what the others draft. " +
          "One that exceeds its time limit has no vote in that round.",
      ),
      field("Address", this.#address),
      field("Model", this.#model),
      field("Key", this.#key),
      el("label", { class: "remote-judge" }, this.#keepsKey, "Keep the key in this browser"),
      field("Wait, s", this.#seconds),
      el("label", { class: "remote-judge" }, this.#judge, "It only judges"),
      this.#hint,
      el("p", { class: "actions" }, el("button", { type: "submit" }, "Ask it to join")),
    );
    this.root = el(
      "details",
      { class: "remote" },
      el("summary", {}, "A member behind a server"),
      form,
    );
    this.#check();
    this.#keepsKey.addEventListener("change", () => this.#check());
    this.#address.addEventListener("input", () => {
      this.#refused = false;
      this.#check();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#refused = true;
      const address = this.#check();
      if (!address) return this.#address.focus();
      const model = this.#model.value.trim();
      const key = this.#key.value.trim();
      const name = model.split("/").at(-1) || address.host;
      const source = {
        name,
        remote: address.href,
        ...(model === "" ? {} : { model }),
        ...(key === "" ? {} : { key }),
        ...(this.#judge.checked ? { judge: true } : {}),
        timeout: this.#seconds.valueAsNumber * 1000,
      };
      onAdd(source, this.#keepsKey.checked);
      // The next server may be another party's.
      this.#key.value = "";
      this.#keepsKey.checked = false;
      this.#check();
    });
  }

  /** Parses the address as it is typed, and shows which host receives what, or what is wrong. */
  #check(): URL | undefined {
    const text = this.#address.value.trim();
    let address: URL | undefined;
    let fault = "";
    try {
      address = remoteAddress(text);
    } catch (error) {
      fault = typed(error).message;
    }
    // Half-typed addresses are not marked as wrong.
    const wrong = address === undefined && this.#refused;
    const key = this.#keepsKey.checked
      ? "The key is kept in this browser, as plain text, until the member is removed."
      : "The key is forgotten when this page closes.";
    this.#hint.textContent = address
      ? `What is asked and answered goes to ${address.host}, and the key with it. ${key}`
      : wrong
        ? fault
        : `What is asked and answered goes to the server. ${key}`;
    this.#hint.classList.toggle("error", wrong);
    this.#address.setAttribute("aria-invalid", String(wrong));
    return address;
  }
}
