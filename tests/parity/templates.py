"""Results of transformers for published chat templates, those in llama.cpp's source package.

    python templates.py --tools DIR --out FILE

Renders every template with 20 conversations, with and without the beginning of an answer, and also without
thinking if it is supported. FILE gets the conversations, and each template's text and renderings in that order:
a text, `{"refused": …}` if the template raises an exception, or null for another failure. The templates are not
stored in this repository.
"""

import argparse
import datetime
import json
import pathlib
import sys
import tarfile
from unittest import mock

import jinja2
import transformers.utils.chat_template_utils as chat_template_utils

import tools

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "fixtures"))
from text_reference import messages  # noqa: E402
from text_samples import CONVERSATIONS  # noqa: E402

# The clock of the template tests.
NOW = datetime.datetime(2024, 11, 21, 8, 9, 10)

MORE = [
    [("user", "<|channel>thought\nhm<channel|> [THINK]no[/THINK] <|think|>"), ("assistant", "<|channel>x<channel|>y"),
     ("user", "z")],
    [("system", "Réponds en français.\n\n- court\n- poli"), ("user", "| a | b |\n|---|---|\n| 1 | 2 |")],
    [("user", '{"name": "f", "arguments": {"x": [1, 2.5, null, true]}}'), ("assistant", '{"y": "\\u00e9"}'),
     ("user", "{{ x }} {% if y %}")],
    [("user", "a"), ("assistant", ""), ("user", "b")],
    [("user", "\r\n\r\n"), ("assistant", "\t"), ("user", "  ")],
    [("user" if turn % 2 == 0 else "assistant", f"turn {turn} of a long conversation. " * 5) for turn in range(11)],
    [("system", "s"), ("user", "u"), ("assistant", "<think></think>\n\nA <think>again</think> B"), ("user", "v"),
     ("assistant", "w")],
]


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def published(folder):
    """Names and texts of the templates in the package's archive."""
    [archive] = list(folder.glob("llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as archive:
        for member in archive:
            path = pathlib.PurePosixPath(member.name)
            if path.suffix == ".jinja" and path.parent.parts[-2:] == ("models", "templates"):
                yield path.stem, archive.extractfile(member).read().decode()


def rendering(template, turns, **options):
    try:
        (text,), _ = chat_template_utils.render_jinja_template(
            [messages(turns)], chat_template=template, bos_token="<bos>", eos_token="<eos>", **options)
        return text
    except Exception as error:
        return {"refused": str(error)} if type(error) is jinja2.exceptions.TemplateError else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="where the package is, or goes")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    tools.converter(arguments.tools)
    conversations = CONVERSATIONS + MORE
    found = {}
    with mock.patch.object(chat_template_utils, "datetime", Clock):
        for name, template in published(arguments.tools):
            thinking = [{}, {"enable_thinking": False}] if "enable_thinking" in template else [{}]
            found[name] = {"template": template, "cases": [
                rendering(template, turns, add_generation_prompt=opening, **options)
                for turns in conversations for options in thinking for opening in (True, False)]}
    if not found:
        raise SystemExit("the package holds no templates")
    conversations = [messages(turns) for turns in conversations]
    arguments.out.write_text(json.dumps({"conversations": conversations, "templates": found}))


if __name__ == "__main__":
    main()
