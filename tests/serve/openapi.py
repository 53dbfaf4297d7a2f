"""Tests the OpenAPI document of `conclave serve` against the server itself, with generated requests.

CONCLAVE_SERVER and CONCLAVE_KEY name the server, as for openai_client.py. Every request has an answer of the
documented status, type and form, whatever its body; none is an internal error.
"""

import os
import subprocess
import sys

BASE, KEY = os.environ["CONCLAVE_SERVER"], os.environ["CONCLAVE_KEY"]
CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]

command = [
    *(sys.executable, "-m", "schemathesis.cli", "run", BASE.removesuffix("/v1") + "/openapi.json"),
    *("--header", f"Authorization: Bearer {KEY}"),
    *("--checks", ",".join(CHECKS)),
    *("--phases", "examples,coverage,fuzzing"),
    *("--max-examples", os.environ.get("CONCLAVE_EXAMPLES", "20")),
    *("--request-timeout", "60"),
    *("--seed", "1"),
]
result = subprocess.run(command, check=False).returncode
# In the format of Node's runner.
print(f"# pass {int(result == 0)}\n# fail {int(result != 0)}", flush=True)
sys.exit(result)
