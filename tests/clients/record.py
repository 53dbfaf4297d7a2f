"""Records the requests of Continue and of Open WebUI, which web/tests/serve/recorded.test.ts sends again.

    cargo build -p conclave-tool && python3 tests/clients/record.py [continue] [open-webui]

Installs the clients below target/clients on first use (1.4 GB), starts `conclave serve` with the bundled
members, drives each client as its users do, checks that it shows the answers, and writes recorded/CLIENT.json.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

from recorder import Recorder

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
KEY = "the-key-of-the-tests"
SUM, PRODUCT, FRUITS = "What is 347 + 85?", "What is 3 * 4?", "Which fruits are in fruits.txt?"
CONTINUE, OPEN_WEBUI = "1.5.47", "0.12.4"

CONFIGURATION = """name: Conclave
version: 1.0.0
schema: v1
models:
  - {{name: Conclave, provider: openai, model: conclave, apiBase: "{url}", apiKey: "{key}"}}
"""


def ready(folder, *commands):
    """Runs the commands of an installation, unless a whole one is there."""
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for command in commands:
            subprocess.run(command, check=True, cwd=folder)
        (folder / "installed").touch()
    return folder


def continued(recorder, home):
    """Asks Continue's command line tool a question, goes on, and has it run a tool."""
    package = f"@continuedev/cli@{CONTINUE}"
    folder = ready(
        TARGET / "clients" / f"continue-{CONTINUE}",
        ["npm", "install", "--prefix", ".", "--ignore-scripts", "--no-audit", "--no-fund", package],
    )
    program = folder / "node_modules/@continuedev/cli/dist/cn.js"
    project = home / "project"
    project.mkdir()
    (project / "fruits.txt").write_text("pear, apple, fig\n")
    configuration = home / "config.yaml"
    configuration.write_text(CONFIGURATION.format(url=recorder.url, key=KEY))
    environment = {**os.environ, "HOME": str(home), "CONTINUE_TELEMETRY_ENABLED": "0"}

    def ask(*arguments):
        command = ["node", program, "--config", configuration, "--print", *arguments]
        done = subprocess.run(command, cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == 0 and done.stdout.strip(), done
        return done.stdout.decode()

    recorder.named("a question")
    ask(SUM)
    recorder.named("a conversation goes on")
    ask("--resume", PRODUCT)
    recorder.named("a tool is run", calls=True)
    ask(FRUITS)


class OpenWebUi:
    """An Open WebUI with one user."""

    def __init__(self, recorder, home):
        folder = TARGET / "clients" / f"open-webui-{OPEN_WEBUI}"
        python = "bin/python"
        # What needs PyTorch is imported only for speech and for searches in documents.
        needs = (
            "import importlib.metadata as m, re; print('\\n'.join(one for one in m.requires('open-webui')"
            " if 'extra' not in one and not re.match('accelerate|sentence-transformers|faster-whisper', one)))"
        )
        ready(
            folder,
            [sys.executable, "-m", "venv", "."],
            [python, "-m", "pip", "install", "--quiet", "uv"],
            [python, "-m", "uv", "pip", "install", "--quiet", "--no-deps", f"open-webui=={OPEN_WEBUI}"],
            ["sh", "-c", f'{python} -c "{needs}" > needs.txt'],
            [python, "-m", "uv", "pip", "install", "--quiet", "--requirement", "needs.txt"],
        )
        data = home / "data"
        data.mkdir()
        environment = os.environ | {
            "HOME": str(home),
            "DATA_DIR": str(data),
            "WEBUI_SECRET_KEY": uuid.uuid4().hex,
            "OPENAI_API_BASE_URL": recorder.url,
            "OPENAI_API_KEY": KEY,
            "ENABLE_OLLAMA_API": "False",
            "OFFLINE_MODE": "True",
            "RAG_EMBEDDING_ENGINE": "openai",
            "AUDIO_STT_ENGINE": "openai",
        }
        port = free_port()
        self.url, self.token = f"http://127.0.0.1:{port}", None
        program = [folder / "bin/open-webui", "serve", "--host", "127.0.0.1", "--port", str(port)]
        with open(home / "log", "w") as log:
            self.program = subprocess.Popen(program, env=environment, stdout=log, stderr=log, cwd=home)

    def enter(self):
        """Waits for the program, and signs up."""
        wait(lambda: self.ask("/health"), "Open WebUI does not start")
        new = {"name": "User", "email": "user@example.org", "password": uuid.uuid4().hex}
        self.token = self.ask("/api/v1/auths/signup", new)["token"]

    def ask(self, path, body=None):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(self.url + path, body and json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read())

    def chat(self, question, tasks):
        """Asks in a new chat, as the page does, and returns the answer's message."""
        user = {"id": str(uuid.uuid4()), "role": "user", "content": question, "parentId": None, "childrenIds": []}
        asked = {
            "model": "conclave",
            "stream": True,
            "messages": [{"role": "user", "content": question}],
            "parent_id": None,
            "user_message": user,
            "id": str(uuid.uuid4()),
            "session_id": str(uuid.uuid4()),
            "background_tasks": dict.fromkeys(tasks, True),
        }
        chat = self.ask("/api/chat/completions", asked)["chat_id"]

        def answer():
            messages = self.ask(f"/api/v1/chats/{chat}")["chat"]["history"]["messages"].values()
            return next((one for one in messages if one["role"] == "assistant" and one.get("done")), None)

        return wait(answer, "there is no answer")


def open_webui(recorder, home):
    """Adds the server to Open WebUI, asks a question with all that follows it, goes on, and has it run a tool."""
    recorder.named("models are listed")
    page = OpenWebUi(recorder, home)
    try:
        page.enter()
        page.ask("/openai/verify", {"url": recorder.url, "key": KEY})
        models = [model["id"] for model in page.ask("/api/models")["data"]]
        assert models[:2] == ["conclave", "Ada"], models
        recorder.named("a question with its title, tags and what may follow")
        before = len(recorder.requests)
        answer = page.chat(SUM, ["title_generation", "tags_generation", "follow_up_generation"])
        assert answer["content"], answer
        wait(lambda: len(recorder.requests) == before + 4, "a task is missing")
        recorder.named("a tool is run", calls=True)
        answer = page.chat("Which day is it?", [])
        assert any(one["type"] == "function_call" for one in answer["output"]), answer
        recorder.named("a conversation goes on")
        history = [{"role": "user", "content": SUM}, {"role": "assistant", "content": "347 + 85 = 432"}]
        asked = {"model": "conclave", "messages": [*history, {"role": "user", "content": PRODUCT}], "stream": False}
        whole = page.ask("/api/chat/completions", asked)
        assert whole["choices"][0]["message"]["content"], whole
    finally:
        page.program.terminate()
        page.program.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait(what, why, seconds=240):
    """What becomes true within some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := what():
                return found
        except OSError:
            pass
        time.sleep(0.5)
    raise TimeoutError(why)


def written(client, version, requests, home):
    """Writes the requests without this machine's paths, and the tools that they offer once."""
    offers = [body for request in requests if "tools" in (body := request.get("body", {}))]
    tools = offers[0]["tools"]
    for body in offers:
        assert body["tools"] == tools
        body["tools"] = "the same"
    found = {"client": client, "version": version, "tools": tools, "requests": requests}
    text = json.dumps(found, indent=1, ensure_ascii=False)
    text = text.replace(str(home), "/home/user")
    assert KEY not in text
    (pathlib.Path(__file__).parent / "recorded" / f"{client}.json").write_text(text + "\n")


CLIENTS = {"continue": (continued, CONTINUE), "open-webui": (open_webui, OPEN_WEBUI)}


def main():
    command = [TARGET / "debug/conclave", "serve", "--device", "cpu", "--port", "0"]
    environment = {**os.environ, "CONCLAVE_KEY": KEY}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            url = server.stdout.readline().decode().strip()
            for client in sys.argv[1:] or CLIENTS:
                drive, version = CLIENTS[client]
                recorder = Recorder(url)
                with tempfile.TemporaryDirectory() as home:
                    drive(recorder, pathlib.Path(home))
                    written(client, version, recorder.requests, home)
                print(f"{client} {version}: {len(recorder.requests)} requests")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
