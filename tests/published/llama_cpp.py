"""What llama.cpp makes of a GGUF file: ids, text, and how well the model foretells a text.

Through the HTTP interface of llama-server, which the package `xllamacpp` brings ready-built.
"""

import json
import math
import urllib.request

import xllamacpp

VERSION = f"llama.cpp of xllamacpp {xllamacpp.__version__}"


class LlamaCpp:
    """A model served by llama.cpp on this machine's CPU."""

    def __init__(self, path, context=4096):
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers = context, 1, 0
        # Several threads wait for each other at every product, for long on a busy machine.
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        parameters.port = 0
        parameters.warmup, parameters.verbosity = False, 0
        # Otherwise a window that has moved on is recomputed for each token of `perplexity`.
        parameters.swa_full = True
        self.server = xllamacpp.Server(parameters)

    def call(self, path, body):
        request = urllib.request.Request(
            self.server.listening_address + path, json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())

    def ids(self, text, begin=False, controls=False):
        """Ids of a text: with BOS if `begin` and the model uses one, control tokens parsed from their text if `controls`."""
        return self.call("/tokenize", {"content": text, "add_special": begin, "parse_special": controls})["tokens"]

    def text(self, ids):
        return self.call("/detokenize", {"tokens": ids})["content"]

    def rendered(self, messages):
        return self.call("/apply-template", {"messages": messages})["prompt"]

    def logprob(self, before, token):
        """ln p of a token after others."""
        # A few candidates are quick to get, and nearly always include the token.
        for count in (1000, 1 << 20):
            answer = self.call("/completion", {
                "prompt": before, "n_predict": 1, "n_probs": count, "temperature": 0, "cache_prompt": True})
            assert answer["tokens_evaluated"] == len(before), "llama.cpp has cut the prompt"
            for choice in answer["completion_probabilities"][0]["top_logprobs"]:
                if choice["id"] == token:
                    return choice["logprob"]
        raise RuntimeError(f"llama.cpp knows no token {token}")

    def perplexity(self, ids):
        """exp(−1/(n − 1) Σ ln p(id_i | ids before it)) over all ids but the first, in one window."""
        logprobs = [self.logprob(ids[:index], ids[index]) for index in range(1, len(ids))]
        assert all(math.isfinite(logprob) for logprob in logprobs)
        return math.exp(-sum(logprobs) / len(logprobs))
