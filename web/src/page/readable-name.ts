/** Names of models as people say them, from the names of their files. */

/** Parts that tell how a file was made, not what it is. */
const technical =
  /^(?:gguf|instruct|it|chat|hf|imat|imatrix|unsloth|bf16|f16|f32|fp16|fp8|i?q\d\w*|k|m|s|l|xl|xs|0|1)$/i;
const size = /^(\d+(?:\.\d+)?)([mb])$/i;
/** Spellings that a capital letter does not give. */
const spelt: Record<string, string> = {
  smollm: "SmolLM",
  smollm2: "SmolLM2",
  smollm3: "SmolLM3",
  olmo: "OLMo",
  lfm2: "LFM2",
  tinyllama: "TinyLlama",
  ernie: "ERNIE",
};

/**
 * `SmolLM2-135M-Instruct.Q4_1` is SmolLM2 135M. A name without a size of a model stays as it is:
 * somebody chose it.
 */
export function readableName(name: string): string {
  const parts = name.split(/[\s_-]+|\.(?!\d)/).filter((part) => part !== "");
  const last = parts.findIndex((part) => size.test(part));
  if (last < 1) return name;
  const said = parts.filter((part, place) => place <= last || !technical.test(part));
  return said.map(spoken).join(" ");
}

function spoken(part: string): string {
  if (size.test(part)) return part.toUpperCase();
  const known = spelt[part.toLowerCase()];
  if (known) return known;
  return /^[a-z]/.test(part) ? part[0]!.toUpperCase() + part.slice(1) : part;
}
