# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: how all of them look on the command line.

    app = cli.new_app()
    @app.command(epilog=cli.examples(("hakmem top", "choose a process")))
    def main() -> None: cli.run(app, "top")

Errors are one line on standard error, `hakmem NAME: what; what to do`, and the exit statuses are
those of errors.py. Help ends with examples. Who uses it: the cli of each tool.
"""

import errno
import os
import shutil
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import NoReturn

import typer
from rich.console import Console

from hakmem_tools.common.errors import FAILED, INTERRUPTED, USAGE, ToolError


def new_app() -> typer.Typer:
    """An application: plain help that fits a pipe and 80 columns, no options of the framework's."""
    return typer.Typer(
        add_completion=False,
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    )


def examples(*lines: tuple[str, str], more: str = "") -> str:
    """The end of the help: what one would type, and what for."""
    width = max(len(command) for command, _ in lines)
    shown = [f"  {command:{width}}   {what}" for command, what in lines]
    text = "\b\nExamples:\n" + "\n".join(shown)
    return f"{text}\n\n{more}" if more else text


LEAST_WIDTH, MOST_WIDTH = 40, 1000


def width(otherwise: int) -> int:
    """Of a page: what COLUMNS says, else the terminal, else `otherwise`."""
    columns = shutil.get_terminal_size((otherwise, 24)).columns
    return min(max(columns, LEAST_WIDTH), MOST_WIDTH)


def console() -> Console:
    """Standard output; without a terminal a file is as wide as COLUMNS says, or 100."""
    return Console(width=width(100))


def has(characters: str) -> bool:
    """Whether the encoding of standard output has these characters."""
    try:
        characters.encode(sys.stdout.encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def fail(name: str, message: str, status: int) -> NoReturn:
    """One line and the end."""
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()
    print(f"hakmem {name}: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(status)


def prepare_output() -> None:
    """Standard output and error, as whoever started us left them, such that text can be written.

    What their encoding does not have is shown as a question mark. An output that is closed fails
    when something is written to it, and not before: with -o FILE nothing may be.
    """
    if sys.stdout is None:
        # For reading: a write is an error, and no file that is opened later takes its number.
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 1)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def drop_output() -> None:
    """What is still to be written goes nowhere: the interpreter would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def closed_pipe() -> NoReturn:
    """Who read our output has seen enough, as `| head` does: that is no error to talk about."""
    drop_output()
    sys.exit(FAILED)


def failed_output(name: str, error: OSError) -> NoReturn:
    """Standard output is closed, or what it goes to is full."""
    drop_output()
    why = "it is closed" if error.errno == errno.EBADF else error.strerror
    fail(name, f"cannot write to standard output: {why}", FAILED)


NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"


def usage_message(error: typer.TyperException, name: str) -> str:
    """What was wrong with the command line."""
    message = error.format_message().rstrip(".").replace(NO_INTEGER, "not a whole number")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else f"hakmem {name}"
    return f"{message}; see '{command} --help'"


def prepare_environment() -> None:
    """Nothing is preloaded into what we start, and no library has to make sense of COLUMNS."""
    os.environ.pop("LD_PRELOAD", None)
    columns = os.environ.get("COLUMNS", "")
    if not columns.isdecimal() or not columns.strip("0"):
        os.environ.pop("COLUMNS", None)


def run(app: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs an application as `hakmem NAME` and exits."""
    prepare_environment()
    prepare_output()
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = app(words, prog_name=f"hakmem {name}", standalone_mode=False)
        sys.stdout.flush()
    except ToolError as error:
        fail(name, str(error), error.status)
    except typer.TyperException as error:
        fail(name, usage_message(error, name), USAGE)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        closed_pipe()
    except OSError as error:
        if error.filename is None:
            failed_output(name, error)
        fail(name, f"{error.filename}: {error.strerror}", USAGE)  # a file that the user named
    sys.exit(status if isinstance(status, int) else 0)
