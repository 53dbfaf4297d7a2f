"""Tests `conclave serve` by the command line tool `llm`, which learns of it by its extra-openai-models.yaml.

`cargo xtask test --only long` starts the server, and passes its URL and key in CONCLAVE_SERVER and CONCLAVE_KEY.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BASE, KEY = os.environ["CONCLAVE_SERVER"], os.environ["CONCLAVE_KEY"]
MODELS = f"""
- model_id: conclave
  model_name: conclave
  api_base: {BASE}
  api_key_name: conclave
  supports_schema: true
"""
LIMITS = ["-m", "conclave", "-o", "temperature", "0", "-o", "max_tokens", "200"]


class Llm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        (folder / "extra-openai-models.yaml").write_text(MODELS)
        (folder / "keys.json").write_text(json.dumps({"conclave": KEY}))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def llm(self, *arguments):
        command = [sys.executable, "-m", "llm", *arguments]
        environment = {**os.environ, "LLM_USER_PATH": self.folder.name}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_a_text_is_the_same_whole_and_streamed(self):
        whole = self.llm(*LIMITS, "--no-stream", "What is 347 + 85?")
        self.assertIn("432", whole)
        self.assertEqual(self.llm(*LIMITS, "What is 347 + 85?"), whole)

    def test_a_conversation_goes_on(self):
        self.llm(*LIMITS, "What is 347 + 85?")
        self.assertTrue(self.llm("-c", "-o", "max_tokens", "16", "And 3 + 4?"))

    def test_an_answer_has_its_schema(self):
        schema = {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "green"]}, "sure": {"type": "boolean"}},
            "required": ["colour", "sure"],
            "additionalProperties": False,
        }
        found = json.loads(self.llm(*LIMITS, "--schema", json.dumps(schema), "Which colour has grass?"))
        self.assertIn(found["colour"], ("red", "green"))
        self.assertIsInstance(found["sure"], bool)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    # In the format of Node's runner.
    print(f"# pass {result.testsRun - failed}\n# fail {failed}", flush=True)
    sys.exit(failed > 0)
