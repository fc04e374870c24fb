# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: what went wrong, as the person at the terminal needs it. Any tool raises it; cli shows it.

Exit statuses, the same in all tools: 0 done, 1 the process or the file could not be read, 2 wrong
usage or something that has to be set up first, 130 interrupted.
"""

FAILED = 1
USAGE = 2
INTERRUPTED = 130


class ToolError(Exception):
    """One line that says what happened and, after a semicolon, what to do; and an exit status."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status
