# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stateful tests: libhakmem-prefixed.so through ctypes.

Who uses it: machine.py. The prefixed library replaces nothing, so that every block it knows of is
one of the test's own. ctypes lets go of the interpreter's lock during a call: calls of several
threads do run at the same time.
"""

import ctypes
import json
import os
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "malloc": (c_void_p, (c_size_t,)),
    "calloc": (c_void_p, (c_size_t, c_size_t)),
    "realloc": (c_void_p, (c_void_p, c_size_t)),
    "reallocarray": (c_void_p, (c_void_p, c_size_t, c_size_t)),
    "free": (None, (c_void_p,)),
    "free_sized": (None, (c_void_p, c_size_t)),
    "free_aligned_sized": (None, (c_void_p, c_size_t, c_size_t)),
    "aligned_alloc": (c_void_p, (c_size_t, c_size_t)),
    "posix_memalign": (c_int, (c_void_p, c_size_t, c_size_t)),
    "malloc_usable_size": (c_size_t, (c_void_p,)),
    "malloc_trim": (c_int, (c_size_t,)),
    "mallopt": (c_int, (c_int, c_int)),
    "ctl": (c_int, (c_char_p, c_void_p, c_void_p)),
    "ctl_name": (c_char_p, (c_uint,)),
    "stats_json": (c_int, (c_char_p, c_size_t)),
    "last_failures": (c_int, (c_char_p, c_size_t)),
}


class Library:
    """The functions by their plain names, and those that answer with text as strings."""

    def __init__(self, path: str) -> None:
        self.handle = ctypes.CDLL(path, use_errno=True)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self.handle, "hakmem_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def get(self, name: str) -> int:
        """The value of a control; an error is a failed test."""
        value = c_uint64()
        error = self.ctl(name.encode(), byref(value), None)
        assert error == 0, f"{name}: {os.strerror(error)}"
        return value.value

    def set(self, name: str, value: int) -> int:
        """0 or an errno."""
        return int(self.ctl(name.encode(), None, byref(c_uint64(value))))

    def names(self) -> list[str]:
        """Of all controls that can be read."""
        found: list[str] = []
        while name := self.ctl_name(len(found)):
            found.append(name.decode())
        return found

    def figures(self) -> list[str]:
        """Of those that cannot be set."""
        return [name for name in self.names() if not name.startswith("option.")]

    def text(self, function: str) -> str:
        """What stats_json or last_failures writes: asked for its length first."""
        call = getattr(self, function)
        room = call(None, 0) + 1000
        buffer = ctypes.create_string_buffer(room)
        length = call(buffer, room)
        assert length == len(buffer.value) < room
        return buffer.value.decode()

    def statistics(self) -> dict[str, object]:
        """The figures as JSON has them."""
        parsed: dict[str, object] = json.loads(self.text("stats_json"))
        return parsed


def load() -> Library:
    """The library of the build that is tested."""
    return Library(os.environ["TEST_HAKMEM_PREFIXED"])
