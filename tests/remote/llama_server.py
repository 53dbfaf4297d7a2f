"""Serves a GGUF file by llama.cpp's own server, on a free port of this machine.

    python llama_server.py MODEL.gguf [--key KEY] [--port PORT]     # prints its address, http://127.0.0.1:PORT

Ends when its standard input does, so that no test leaves one behind.
"""

import argparse
import os
import socket
import sys

import xllamacpp


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--key", help="the key that it asks for")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    wanted = xllamacpp.CommonParams()
    wanted.model.path = given.model
    wanted.model_alias = {os.path.basename(given.model).removesuffix(".gguf")}
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = given.port or free_port()
    wanted.api_keys = [given.key] if given.key else []
    # CORS allows a browser to send a key only if its header is named; * does not include it.
    wanted.cors_headers = "authorization,content-type"
    # Candidates are scored concurrently.
    wanted.n_parallel = 4
    wanted.n_ctx = 4 * 1024
    # Its threads busy-wait for each other: two of them beside a test's own, on two cores, take several times as long.
    wanted.cpuparams.n_threads = 1
    wanted.warmup = False
    # As exact as possible: keys and values in f32, and no flash attention, which rounds them to f16.
    wanted.cache_type_k = wanted.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    wanted.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(wanted)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
