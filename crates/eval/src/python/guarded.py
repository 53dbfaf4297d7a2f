"""Runs the program in a file within limits, and exits with a status that says whether it came to
its end.

It keeps accidents small and is no sandbox: the program reads whatever its user may read, and one
that is written to get out gets out.
"""

import os
import sys
import types

PATH, PASSED, SECONDS, MEMORY, FILE = sys.argv[1], *map(int, sys.argv[2:6])

# Limit of standard output and of the program's own files; the rest is out of the tests' reach.
LIMITS = {
    "RLIMIT_CPU": SECONDS,
    "RLIMIT_AS": MEMORY,
    "RLIMIT_FSIZE": FILE,
    "RLIMIT_NOFILE": 64,
    "RLIMIT_NPROC": 0,
    "RLIMIT_CORE": 0,
}

REFUSED = ("socket.", "subprocess.", "ctypes.", "os.exec", "os.fork", "os.kill", "os.posix_spawn",
           "os.spawn", "os.startfile", "os.system", "pty.", "signal.pthread_kill", "urllib.")

CHANGES = ("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir",
           "os.setxattr", "os.symlink", "os.truncate", "os.utime", "shutil.")

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def unplug():
    """Leaves the network, where the kernel lets a program without rights do so."""
    if sys.platform.startswith("linux"):
        try:
            import ctypes

            ctypes.CDLL(None).unshare(0x10000000 | 0x40000000)  # CLONE_NEWUSER | CLONE_NEWNET
        except (ImportError, OSError, AttributeError):
            pass


def limit():
    try:
        import resource
    except ImportError:
        return
    for name, most in LIMITS.items():
        try:
            resource.setrlimit(getattr(resource, name), (most, most))
        except (AttributeError, OSError, ValueError):
            pass


def guard(folder):
    """Refuses the network, other programs, and changes outside of `folder`."""

    def inside(path):
        if isinstance(path, int) or path is None:
            return True
        path = os.path.realpath(os.fsdecode(path))
        return path == folder or path.startswith(folder + os.sep) or path == os.devnull

    def hook(event, args):
        refused = event.startswith(REFUSED)
        if event == "open" and isinstance(args[2], int) and args[2] & WRITES:
            refused = not inside(args[0])
        elif event.startswith(CHANGES):
            paths = [arg for arg in args if isinstance(arg, (str, bytes, os.PathLike))]
            # A number of 0 or above is an open folder to which names are relative.
            numbers = [arg for arg in args if isinstance(arg, int)]
            relative = event in ("os.remove", "os.rmdir") and any(fd >= 0 for fd in numbers)
            refused = relative or not all(map(inside, paths))
        if refused:
            raise PermissionError(f"{event} is not allowed here")

    sys.addaudithook(hook)


def main():
    with open(PATH, encoding="utf-8") as file:
        source = file.read()
    folder = os.path.realpath(os.getcwd())
    os.environ["TMPDIR"] = folder
    unplug()
    limit()
    module = types.ModuleType("answer")
    sys.modules["answer"] = module
    sys.argv = ["answer"]
    guard(folder)
    try:
        exec(compile(source, "answer.py", "exec"), module.__dict__)
    except BaseException:
        # Also for `exit()` in the answer, before the tests have run.
        os._exit(1)
    os._exit(PASSED)


main()
