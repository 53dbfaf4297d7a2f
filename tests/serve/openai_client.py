"""Tests `conclave serve`, with the bundled members, by OpenAI's unmodified Python client.

`cargo xtask test --only serve` starts the server, and passes its URL and key in CONCLAVE_SERVER and CONCLAVE_KEY.
"""

import os
import sys
import unittest

import openai

BASE, KEY = os.environ["CONCLAVE_SERVER"], os.environ["CONCLAVE_KEY"]
CLIENT = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
MESSAGES = [{"role": "user", "content": "What is 347 + 85?"}]
ASKED = {"model": "conclave", "messages": MESSAGES, "temperature": 0}


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


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    # In the format of Node's runner.
    print(f"# pass {result.testsRun - failed}\n# fail {failed}", flush=True)
    sys.exit(failed > 0)
