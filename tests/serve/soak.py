"""Asks `conclave serve` by 64 clients at once, a third of whose streams they leave in the middle.

CONCLAVE_SERVER and CONCLAVE_KEY name the server, as for openai_client.py, CONCLAVE_SERVER_ID its process, whose memory
is read (on Linux), CONCLAVE_INNER and CONCLAVE_INNER_ID the server that it has as a member, if it has one, and
CONCLAVE_SOAK the seconds, 600 if not given. Each client that stays gets a whole answer, the same as a single client got
before; no server's memory grows, and no client that went holds a place of one. A line for each server:

    | clients, time | answers | left | lost | resident after a tenth | at the end |
"""

import http.client
import json
import os
import random
import re
import sys
import threading
import time
import urllib.parse

NAMES = [name for name in ("CONCLAVE_SERVER", "CONCLAVE_INNER") if name in os.environ]
SERVERS, KEY = [urllib.parse.urlsplit(os.environ[name]) for name in NAMES], os.environ["CONCLAVE_KEY"]
SECONDS, CLIENTS = float(os.environ.get("CONCLAVE_SOAK", "600")), 64
# A server's memory after a tenth of the time and at the end: what may lie between, in bytes.
GROWTH = 8 << 20
QUESTIONS = ["What is 347 + 85?", "Sort these words: pear, apple, fig.", "How many legs has a spider?"]
PASSAGE = "A cat sat on the mat."


def ask(path, body=None, server=SERVERS[0]):
    """A connection with the response to a request."""
    connection = http.client.HTTPConnection(server.hostname, server.port, timeout=300)
    head = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection.request("POST" if body else "GET", path, body and json.dumps(body), head)
    return connection, connection.getresponse()


def read(path, body=None, server=SERVERS[0]):
    """A response's status and text."""
    connection, response = ask(path, body, server)
    text = response.read().decode()
    connection.close()
    return response.status, text


# The ensemble's first member, which embeds.
MEMBER = json.loads(read("/v1/models")[1])["data"][1]["id"]


def chat(question, stream):
    messages = [{"role": "user", "content": question}]
    return {"model": "conclave", "messages": messages, "temperature": 0, "stream": stream}


def chunk(line):
    """The text of a stream's line, and whether it is the last."""
    data = line.decode().strip().removeprefix("data: ")
    if data == "[DONE]":
        return "", True
    choices = json.loads(data)["choices"] if data.startswith("{") else []
    return "".join(choice["delta"].get("content") or "" for choice in choices), False


def streamed(response):
    """The text of a whole stream; None if it broke off."""
    text = ""
    for line in response:
        more, over = chunk(line)
        text += more
        if over:
            return text
    return None


def resident(name):
    """Bytes of a server's memory; 0 where they can't be told."""
    try:
        with open(f"/proc/{os.environ[f'{name}_ID']}/status", encoding="ascii") as status:
            return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])
    except (KeyError, OSError):
        return 0


class Client(threading.Thread):
    """Asks until the time is over, and keeps count."""

    def __init__(self, number, wanted, end):
        super().__init__()
        self.random, self.wanted, self.end = random.Random(number), wanted, end
        self.answers, self.left, self.busy, self.lost = 0, 0, 0, []

    def run(self):
        while time.monotonic() < self.end:
            try:
                self.once()
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                self.lost.append(repr(error))

    def once(self):
        draw, question = self.random.random(), self.random.choice(QUESTIONS)
        if draw < 1 / 3:
            return self.leave(question)
        stream = draw < 2 / 3
        embeds = draw > 0.9
        path = "/v1/embeddings" if embeds else "/v1/chat/completions"
        body = {"model": MEMBER, "input": PASSAGE} if embeds else chat(question, stream)
        connection, response = ask(path, body)
        if response.status == 429:
            self.busy += 1
            connection.close()
            return time.sleep(self.random.random())
        if response.status != 200:
            return self.lost.append(f"{response.status}: {response.read()[:200]}")
        if stream:
            found = streamed(response)
        else:
            whole = json.loads(response.read())
            found = whole["data"][0]["embedding"] if embeds else whole["choices"][0]["message"]["content"]
        connection.close()
        wanted = self.wanted[PASSAGE if embeds else question]
        if found == wanted:
            self.answers += 1
        else:
            self.lost.append(f"{found!r} for {wanted!r}")

    def leave(self, question):
        """Hangs up, before the answer or after some of its chunks."""
        connection, response = ask("/v1/chat/completions", chat(question, True))
        for _ in range(self.random.randrange(8)):
            response.readline()
        connection.sock and connection.sock.close()
        response.close()
        connection.close()
        self.left += 1


def references():
    wanted = {}
    for question in QUESTIONS:
        status, text = read("/v1/chat/completions", chat(question, False))
        assert status == 200, text
        wanted[question] = json.loads(text)["choices"][0]["message"]["content"]
    _, text = read("/v1/embeddings", {"model": MEMBER, "input": PASSAGE})
    return wanted | {PASSAGE: json.loads(text)["data"][0]["embedding"]}


def place_held(server):
    """A queue's load some seconds after the last client; None if it is empty."""
    for _ in range(100):
        _, text = read("/health", server=server)
        load = json.loads(text)
        if not load["busy"] and not load["waiting"]:
            return None
        time.sleep(0.1)
    return load


def waits(server):
    return "conclave_waiting 0\n" not in read("/metrics", server=server)[1]


def main():
    wanted = references()
    end = time.monotonic() + SECONDS
    clients = [Client(number, wanted, end) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    time.sleep(SECONDS / 10)
    early = [resident(name) for name in NAMES]
    for client in clients:
        client.join()
    held = [load for server in SERVERS if (load := place_held(server))]
    late = [resident(name) for name in NAMES]
    lost = [one for client in clients for one in client.lost]
    answers, left, busy = (sum(getattr(client, name) for client in clients) for name in ("answers", "left", "busy"))
    checks = {
        "every client that stayed has its answer": not lost and answers >= CLIENTS,
        "some clients left": left > 0,
        "memory does not grow": all(last <= first + GROWTH for first, last in zip(early, late)),
        "no client that went holds a place": not held and not any(map(waits, SERVERS)),
        "the next client has the same answers": references() == wanted,
    }
    print("\n".join(sorted(set(lost))[:10] + [f"a queue holds {load}" for load in held]), file=sys.stderr)
    for first, last in zip(early, late):
        mib = " | ".join(f"{bytes_ / (1 << 20):.1f} MiB" for bytes_ in (first, last))
        print(f"| {CLIENTS} clients, {SECONDS:.0f} s | {answers} | {left} | {len(lost)} | {mib} |")
    print(f"{busy} requests were asked to come again")
    for name, passed in checks.items():
        print(f"{'ok' if passed else 'not ok'} - {name}")
    failed = list(checks.values()).count(False)
    # In the format of Node's runner.
    print(f"# pass {len(checks) - failed}\n# fail {failed}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
