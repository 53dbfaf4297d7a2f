"""A proxy in front of `conclave serve` that records what a client sends.

The bundled members read 1,024 tokens, so they are passed each request with its texts cut short. What is recorded is
whole.
"""

import http.client
import http.server
import json
import threading
import urllib.parse

# Characters of a text, tools, and characters of a text among a call's arguments that the members are passed.
TEXT, TOOLS, ARGUMENT = 80, 1, 12
# Headers that say something of the client; others are of the connection or this machine.
HEADERS = ("accept", "accept-encoding", "content-type", "user-agent")
OF_THE_CONNECTION = ("host", "connection", "content-length", "transfer-encoding", "accept-encoding")


def short(value):
    """A part of a request with its texts cut short."""
    if isinstance(value, dict):
        limit = {"maxLength": ARGUMENT} if value.get("type") == "string" else {}
        return {name: short(part) for name, part in value.items()} | limit
    if isinstance(value, list):
        return [short(part) for part in value]
    return value[:TEXT] if isinstance(value, str) else value


class Recorder(http.server.ThreadingHTTPServer):
    """Listens at `url` for a server at `upstream`; a request's name is what the client was asked to do."""

    daemon_threads = True

    def __init__(self, upstream):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = urllib.parse.urlsplit(upstream)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.name, self.calls, self.requests = "", False, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def named(self, name, calls=False):
        """Names the requests to come; `calls` has the first that offers tools answered by a call."""
        self.name, self.calls = name, calls

    def passed(self, body):
        """The body that the members can read."""
        body = short(body)
        if "tools" in body:
            body["tools"] = body["tools"][:TOOLS]
            if self.calls:
                self.calls = False
                body |= {"tool_choice": "required", "parallel_tool_calls": False}
        # The answer to a question matters, not its length.
        return json.dumps({"max_tokens": 200, **body})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        size = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(size)) if size else None
        headers = {name: self.headers[name] for name in HEADERS if name in self.headers}
        of = {"name": self.server.name, "method": self.command, "path": self.path, "headers": headers}
        self.server.requests.append(of | ({"body": body} if body else {}))
        upstream = self.server.upstream
        connection = http.client.HTTPConnection(upstream.hostname, upstream.port, timeout=300)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in OF_THE_CONNECTION}
        connection.request(self.command, self.path, body and self.server.passed(body), kept)
        answer = connection.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OF_THE_CONNECTION:
                self.send_header(name, value)
        # The end of the answer is the connection's.
        self.send_header("connection", "close")
        self.end_headers()
        while part := answer.read1(4096):
            self.wfile.write(part)
            self.wfile.flush()
        connection.close()
        self.close_connection = True

    do_GET = do_POST

    def log_message(self, *_):
        pass
