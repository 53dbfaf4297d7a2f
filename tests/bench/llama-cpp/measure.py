"""Times llama.cpp's CPU build on a GGUF file, for `cargo xtask bench --peer --on cpu`.

    measure.py MODEL.gguf [--prefixes 128,1024] [--segment-tokens 10] [--repeats 5]
        [--threads 1] [--limit-seconds 300]

Prints a JSON list, one object per prefix: PeerSeries of web/src/bench/report.ts. A decode step is one
`llama_decode` of one token and the choice of the most probable one, like ours; a prompt is run in
batches of 512. No rounds: it does not score given texts.
"""

import argparse
import json
import sys
import time

# Token ids that the bench's vocabularies have for every shape.
FIRST_TOKEN, TOKENS = 300, 600


def engine(path, context, threads):
    """Loads the model; returns it with a function that runs tokens and returns the most probable next one."""
    try:
        import numpy as np
        from llama_cpp import Llama, llama_get_logits_ith
    except ImportError as missing:
        sys.exit(f"{missing}. Install llama.cpp's Python package into {sys.executable}: "
                 f"{sys.executable} -m pip install llama-cpp-python (it needs a C++ compiler and builds for minutes)")
    model = Llama(str(path), n_ctx=context, n_threads=threads, n_threads_batch=threads, n_gpu_layers=0, verbose=False)

    def run(tokens):
        model.eval(tokens)
        logits = np.ctypeslib.as_array(llama_get_logits_ith(model._ctx.ctx, -1), shape=(model.n_vocab(),))
        if not np.isfinite(logits).all():
            sys.exit(f"{path}: a logit is no number")
        return int(logits.argmax())

    return model, run


def prompt(length, repeat):
    """A prompt that differs in every repeat, so that no cached state is reused."""
    return [FIRST_TOKEN + (index * 7 + repeat) % TOKENS for index in range(length)]


def once(model, run, tokens, segment_tokens):
    """Milliseconds of a prompt, and of each decode step after it."""
    model.reset()
    times = [time.perf_counter()]
    token = run(tokens)
    times.append(time.perf_counter())
    for _ in range(segment_tokens - 1):
        token = run([token])
        times.append(time.perf_counter())
    ms = [1000 * (after - before) for before, after in zip(times, times[1:])]
    return ms[0], ms[1:]


def series(model, run, prefix, options):
    """The first run is not counted, unless it alone exceeds the limit."""
    prefill, steps, spent, cold = [], [], 0.0, False
    for repeat in range(options.repeats + 1):
        started = time.perf_counter()
        first, rest = once(model, run, prompt(prefix, repeat), options.segment_tokens)
        spent += time.perf_counter() - started
        cold = repeat == 0 and spent > options.limit_seconds
        if repeat > 0 or cold:
            prefill.append(first)
            steps += rest
        if spent > options.limit_seconds:
            break
    print(f"llama.cpp: prefix {prefix}, {len(prefill)} repeats", file=sys.stderr)
    return {"prefix": prefix, "cold": cold, "prefillMs": prefill, "stepMs": steps, "stepCounts": None,
            "roundMs": [], "roundCounts": None, "atLeastMs": {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("gguf")
    parser.add_argument("--prefixes", type=lambda text: [int(part) for part in text.split(",")], default=[128])
    parser.add_argument("--segment-tokens", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit-seconds", type=float, default=300)
    options = parser.parse_args()
    model, run = engine(options.gguf, max(options.prefixes) + 2 * options.segment_tokens, options.threads)
    print(json.dumps([series(model, run, prefix, options) for prefix in options.prefixes]))


if __name__ == "__main__":
    main()
