"""Trains all members in turns on two processes, in slices, so that early files of all exist soon.

    python schedule.py --generator PATH --work DIR --out DIR [--budget 50]

Always runs the member that has trained least and is not running; resumes where it stopped.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

from roster import MEMBERS

parser = argparse.ArgumentParser()
parser.add_argument("--generator", required=True)
parser.add_argument("--work", required=True, type=pathlib.Path)
parser.add_argument("--out", required=True)
parser.add_argument("--budget", type=float, default=44, help="minutes of training a member")
parser.add_argument("--first", type=float, default=3, help="minutes of each member's first slice")
parser.add_argument("--slice", type=float, default=12)
parser.add_argument("--processes", type=int, default=2)
options = parser.parse_args()


def minutes():
    """Minutes trained so far, by member."""
    done = dict.fromkeys(MEMBERS, 0.0)
    log = options.work / "log.jsonl"
    if log.exists():
        for line in log.read_text().splitlines():
            report = json.loads(line)
            done[report["name"]] = report["minutes"]
    return done


running = {}
while True:
    for name in [n for n, process in running.items() if process.poll() is not None]:
        if running.pop(name).returncode:
            sys.exit(f"training {name} failed: see its log in {options.work}")
    done = minutes()
    waiting = [n for n in MEMBERS if n not in running and done[n] < options.budget - 0.01]
    if not waiting and not running:
        break
    while waiting and len(running) < options.processes:
        name = waiting.pop(waiting.index(min(waiting, key=done.get)))
        length = options.first if done[name] == 0 else min(options.slice, options.budget - done[name])
        options.work.mkdir(parents=True, exist_ok=True)
        log = open(options.work / f"{name}.log", "a")
        running[name] = subprocess.Popen(
            [sys.executable, "train.py", name, "--generator", options.generator, "--work", str(options.work),
             "--out", options.out, "--budget", str(options.budget), "--slice", str(length)],
            stdout=log, stderr=subprocess.STDOUT, cwd=pathlib.Path(__file__).parent)
    time.sleep(2)
