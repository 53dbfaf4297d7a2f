"""Tests `conclave serve`, with the bundled members, by OpenAI's unmodified Python client.

`cargo xtask test --only serve` starts the server, and passes its URL and key in CONCLAVE_SERVER and CONCLAVE_KEY.
"""

import json
import math
import os
import sys
import unittest

import openai

BASE, KEY = os.environ["CONCLAVE_SERVER"], os.environ["CONCLAVE_KEY"]
CLIENT = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
MESSAGES = [{"role": "user", "content": "What is 347 + 85?"}]
ASKED = {"model": "conclave", "messages": MESSAGES, "temperature": 0}
PAINT = {
    "type": "function",
    "function": {
        "name": "paint",
        "description": "Paints the wall",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "green"]}},
            "required": ["colour"],
            "additionalProperties": False,
        },
    },
}


class Served(unittest.TestCase):
    def test_an_answer_is_the_clients_with_who_wrote_what_beside_it(self):
        answer = CLIENT.chat.completions.create(**ASKED)
        choice = answer.choices[0]
        self.assertIn("432", choice.message.content)
        self.assertEqual(choice.finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        told = answer.model_extra["conclave"]
        self.assertEqual("".join(segment["text"] for segment in told["segments"]), choice.message.content)

    def test_a_stream_is_whole_and_ends_with_its_usage(self):
        whole = CLIENT.chat.completions.create(**ASKED)
        stream = CLIENT.chat.completions.create(**ASKED, stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage, whole.usage)
        self.assertEqual(chunks[-2].choices[0].finish_reason, "stop")

    def test_a_question_has_several_answers(self):
        story = [{"role": "user", "content": "Tell me a story about a fox."}]
        answer = CLIENT.chat.completions.create(
            model="conclave", messages=story, temperature=2, top_p=1, seed=5, max_tokens=16, n=2
        )
        first, second = (choice.message.content for choice in answer.choices)
        self.assertNotEqual(first, second)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertTrue(all(choice.model_extra["conclave"]["segments"] for choice in answer.choices))

    def test_many_at_once_are_all_answered(self):
        import asyncio

        async def ask():
            async with openai.AsyncOpenAI(base_url=BASE, api_key=KEY, max_retries=0) as client:
                return await asyncio.gather(*(client.chat.completions.create(**ASKED) for _ in range(12)))

        answers = {answer.choices[0].message.content for answer in asyncio.run(ask())}
        self.assertEqual(len(answers), 1)

    def test_limits_refusals_and_a_wrong_key_are_the_clients_own(self):
        short = CLIENT.chat.completions.create(**ASKED, max_completion_tokens=3)
        self.assertEqual(short.choices[0].finish_reason, "length")
        with self.assertRaises(openai.BadRequestError) as refused:
            CLIENT.chat.completions.create(**ASKED, n=17)
        self.assertEqual(refused.exception.param, "n")
        with self.assertRaises(openai.NotFoundError):
            CLIENT.chat.completions.create(**{**ASKED, "model": "other"})
        stranger = openai.OpenAI(base_url=BASE, api_key="another-key", max_retries=0)
        with self.assertRaises(openai.AuthenticationError):
            stranger.models.list()

    def test_texts_are_continued_and_judged(self):
        self.assertEqual([model.id for model in CLIENT.models.list()], ["conclave", "Ada", "Quill", "Juno"])
        text = "What is 3 + 4?"
        judged = CLIENT.completions.create(model="Ada", prompt=text, echo=True, max_tokens=0, logprobs=1)
        logprobs = judged.choices[0].logprobs
        self.assertEqual("".join(logprobs.tokens), text)
        self.assertTrue(all(one < 0 for one in logprobs.token_logprobs[1:]))
        continued = CLIENT.completions.create(model="conclave", prompt=text, max_tokens=6, temperature=0)
        self.assertTrue(continued.choices[0].text)

    def test_a_required_call_is_whole_and_streamed(self):
        asked = {**ASKED, "tools": [PAINT], "tool_choice": "required", "parallel_tool_calls": False}
        choice = CLIENT.chat.completions.create(**asked).choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        with CLIENT.chat.completions.stream(**asked) as stream:
            streamed = stream.get_final_completion().choices[0]
        for message in (choice.message, streamed.message):
            (call,) = message.tool_calls
            self.assertEqual(call.function.name, "paint")
            self.assertIn(json.loads(call.function.arguments)["colour"], ("red", "green"))
        result = {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "done"}
        messages = [*MESSAGES, choice.message, result]
        answer = CLIENT.chat.completions.create(model="conclave", messages=messages, tools=[PAINT], max_tokens=4)
        self.assertTrue(answer.choices)

    def test_a_response_is_the_clients_whole_and_by_its_events(self):
        asked = {"model": "conclave", "input": "What is 347 + 85?", "temperature": 0}
        whole = CLIENT.responses.create(**asked)
        self.assertIn("432", whole.output_text)
        with CLIENT.responses.stream(**asked) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            self.assertEqual(stream.get_final_response().output_text, text)
        self.assertEqual(text, whole.output_text)
        tool = {"type": "function", "strict": True, **PAINT["function"]}
        called = CLIENT.responses.create(**asked, tools=[tool], tool_choice="required", parallel_tool_calls=False)
        (call,) = called.output
        self.assertIn(json.loads(call.arguments)["colour"], ("red", "green"))

    def test_texts_and_tokens_are_embedded(self):
        asked = {"model": "Ada", "input": ["A cat sat on the mat.", "What is 3 + 4?"]}
        # Without a format the client asks for base 64, and decodes it.
        packed, plain = (CLIENT.embeddings.create(**asked, **more) for more in ({}, {"encoding_format": "float"}))
        self.assertEqual([one.index for one in packed.data], [0, 1])
        self.assertNotEqual(packed.data[0].embedding, packed.data[1].embedding)
        self.assertGreater(packed.usage.prompt_tokens, 0)
        for one, other in zip(packed.data, plain.data):
            self.assertAlmostEqual(math.hypot(*one.embedding), 1, places=4)
            self.assertEqual(len(one.embedding), len(other.embedding))
            self.assertTrue(all(abs(a - b) < 1e-6 for a, b in zip(one.embedding, other.embedding)))
        cut = CLIENT.embeddings.create(**asked, dimensions=16).data[0].embedding
        first = plain.data[0].embedding[:16]
        self.assertTrue(all(abs(a - b / math.hypot(*first)) < 1e-5 for a, b in zip(cut, first, strict=True)))
        tokens = CLIENT.embeddings.create(model="Ada", input=[[5, 6, 7], [5, 6]])
        self.assertEqual((len(tokens.data), tokens.usage.prompt_tokens), (2, 5))
        with self.assertRaises(openai.BadRequestError) as refused:
            CLIENT.embeddings.create(**{**asked, "model": "conclave"})
        self.assertEqual(refused.exception.param, "model")

    def test_a_member_alone_tells_probabilities(self):
        answer = CLIENT.chat.completions.create(**{**ASKED, "model": "Ada"}, logprobs=True, top_logprobs=2)
        tokens = answer.choices[0].logprobs.content
        self.assertEqual("".join(token.token for token in tokens).lstrip(), answer.choices[0].message.content)
        self.assertTrue(all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in tokens))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    # In the format of Node's runner.
    print(f"# pass {result.testsRun - failed}\n# fail {failed}", flush=True)
    sys.exit(failed > 0)
