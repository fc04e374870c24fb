# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: how all of them look on the command line.

    app = cli.new_app()
    @app.command(epilog=cli.examples(("hakmem top", "choose a process")))
    def main() -> None: cli.run(app, "top")

Errors are one line on standard error, `hakmem NAME: what; what to do`, and the exit statuses are
those of errors.py. Help ends with examples. Who uses it: the cli of each tool.
"""

import os
import sys
from collections.abc import Sequence
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


def console() -> Console:
    """Standard output; without a terminal a file is as wide as COLUMNS says, or 100."""
    if sys.stdout.isatty():
        return Console()
    return Console(width=int(os.environ.get("COLUMNS", "100")))


def fail(name: str, message: str, status: int) -> NoReturn:
    """One line and the end."""
    print(f"hakmem {name}: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(status)


def closed_pipe() -> NoReturn:
    """Who read our output has seen enough, as `| head` does: that is no error to talk about."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(FAILED)


NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"


def usage_message(error: typer.TyperException, name: str) -> str:
    """What was wrong with the command line."""
    message = error.format_message().rstrip(".").replace(NO_INTEGER, "not a whole number")
    return f"{message}; see 'hakmem {name} --help'"


def run(app: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs an application as `hakmem NAME` and exits."""
    os.environ.pop("LD_PRELOAD", None)
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
    except OSError as error:  # a file that the user named
        fail(name, f"{error.filename}: {error.strerror}" if error.filename else str(error), USAGE)
    sys.exit(status if isinstance(status, int) else 0)
