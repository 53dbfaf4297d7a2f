import assert from "node:assert/strict";
import { test } from "node:test";
import { pickedFiles } from "../protocol/model-files.ts";
import { sortPicked } from "./picked.ts";

const sort = (...paths: string[]) => {
  const { models, complaints } = sortPicked(
    paths.map((path) => ({ path, file: new File([], path.slice(path.lastIndexOf("/") + 1)) })),
  );
  return {
    models: models.map(({ name, files }) => [name, ...files.map((file) => file.name)]),
    complaints,
  };
};

test("files become models: each GGUF, splits in order, of a folder what a loader reads", () => {
  assert.deepEqual(sort("a.gguf", "readme.md", "B.GGUF").models, [
    ["a", "a.gguf"],
    ["B", "B.GGUF"],
  ]);
  assert.deepEqual(sort("x-00002-of-00002.gguf", "x-00001-of-00002.gguf", "y.gguf").models, [
    ["y", "y.gguf"],
    ["x", "x-00001-of-00002.gguf", "x-00002-of-00002.gguf"],
  ]);
  const folder = sort(
    "me/SmolLM2/chat_template.json",
    "me/SmolLM2/config.json",
    "me/SmolLM2/model.safetensors",
    "me/SmolLM2/tokenizer.json",
    "me/SmolLM2/.git",
    "me/SmolLM2/onnx/model.onnx",
    "me/SmolLM2/additional_chat_templates/tool_use.jinja",
    "me/SmolLM2/additional_chat_templates/chat_template.jinja",
    "me/SmolLM2/additional_chat_templates/notes.txt",
    "me/SmolLM2/more/rag.jinja",
  );
  assert.deepEqual(folder, {
    models: [
      [
        "SmolLM2",
        "chat_template.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tool_use.jinja",
      ],
    ],
    complaints: [],
  });
  assert.deepEqual(
    sort("one/a.gguf", "two/config.json", "two/w.safetensors").models.map(([name]) => name),
    ["a", "two"],
  );
  assert.deepEqual(sort("config.json", "model.safetensors").models[0]?.[0], "Picked model");
});

test("what is no model, or not all of one, is told with what to do", () => {
  assert.match(sort("photo.jpg").complaints[0]!, /no model among/);
  assert.match(
    sort("x-00001-of-00003.gguf").complaints[0]!,
    /x comes in 3 parts, and one of them is here/,
  );
  assert.match(sort("model.safetensors").complaints[0]!, /whole folder/);
  assert.deepEqual(sort("x-00001-of-00003.gguf", "y.gguf").models, [["y", "y.gguf"]]);
});

test("named chat templates have their folder again, of which a browser does not tell", () => {
  const { models } = sortPicked(
    ["config.json", "w.safetensors", "additional_chat_templates/rag.jinja"].map((path) => ({
      path: `me/${path}`,
      file: new File(["."], path.slice(path.lastIndexOf("/") + 1)),
    })),
  );
  const { files } = pickedFiles(models[0]!.files, "me");
  assert.deepEqual(
    files.map(({ name }) => name),
    ["config.json", "w.safetensors", "additional_chat_templates/rag.jinja"],
  );
});
