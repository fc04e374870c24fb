# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Profiles for `go tool pprof` and all that reads its format: gzip of a protobuf message.

The message is described here as a table of fields: numbers, names and types are facts of the
published format. protobuf makes the classes of it at run time. Who uses it: cli.
"""

import gzip
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from hakmem_tools.prof.raw import Mapping, Profile
from hakmem_tools.prof.stacks import Stack
from hakmem_tools.prof.symbols import Function, Symbolizer

PACKAGE = "perftools.profiles"

# Message: field: (number, type, repeated). Strings are numbers of places in string_table.
FIELDS: dict[str, dict[str, tuple[int, str, bool]]] = {
    "ValueType": {"type": (1, "int64", False), "unit": (2, "int64", False)},
    "Sample": {"location_id": (1, "uint64", True), "value": (2, "int64", True)},
    "Mapping": {
        "id": (1, "uint64", False),
        "memory_start": (2, "uint64", False),
        "memory_limit": (3, "uint64", False),
        "file_offset": (4, "uint64", False),
        "filename": (5, "int64", False),
        "build_id": (6, "int64", False),
        "has_functions": (7, "bool", False),
        "has_filenames": (8, "bool", False),
        "has_line_numbers": (9, "bool", False),
        "has_inline_frames": (10, "bool", False),
    },
    "Line": {"function_id": (1, "uint64", False), "line": (2, "int64", False)},
    "Location": {
        "id": (1, "uint64", False),
        "mapping_id": (2, "uint64", False),
        "address": (3, "uint64", False),
        "line": (4, "Line", True),
    },
    "Function": {
        "id": (1, "uint64", False),
        "name": (2, "int64", False),
        "system_name": (3, "int64", False),
        "filename": (4, "int64", False),
    },
    "Profile": {
        "sample_type": (1, "ValueType", True),
        "sample": (2, "Sample", True),
        "mapping": (3, "Mapping", True),
        "location": (4, "Location", True),
        "function": (5, "Function", True),
        "string_table": (6, "string", True),
        "time_nanos": (9, "int64", False),
        "period_type": (11, "ValueType", False),
        "period": (12, "int64", False),
        "comment": (13, "int64", True),
        "default_sample_type": (14, "int64", False),
    },
}

SAMPLE_TYPES = (
    ("alloc_objects", "count", "allocated_objects"),
    ("alloc_space", "bytes", "allocated_bytes"),
    ("inuse_objects", "count", "live_objects"),
    ("inuse_space", "bytes", "live_bytes"),
)


def message_class() -> Any:
    """The class of Profile messages."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="hakmem/profile.proto", package=PACKAGE, syntax="proto3"
    )
    for message, fields in FIELDS.items():
        described = file.message_type.add(name=message)
        for name, (number, kind, repeated) in fields.items():
            one = described.field.add(name=name, number=number)
            one.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if kind in FIELDS:
                one.type = kinds.TYPE_MESSAGE
                one.type_name = f".{PACKAGE}.{kind}"
            else:
                one.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Profile"))


class Writer:
    """Puts a profile together; strings, functions and locations once each."""

    def __init__(self, profile: Profile, symbols: Symbolizer) -> None:
        self.profile = profile
        self.symbols = symbols
        self.message = message_class()()
        self.strings: dict[str, int] = {}
        self.functions: dict[Function, int] = {}
        self.locations: dict[int, int] = {}
        self.mappings: dict[Mapping, int] = {}
        self.string("")

    def string(self, text: str) -> int:
        """The place of a string."""
        if text not in self.strings:
            self.strings[text] = len(self.strings)
            self.message.string_table.append(text)
        return self.strings[text]

    def function(self, function: Function) -> int:
        """The id of a function. A function of a file is one, whatever the line."""
        key = Function(function.name, function.file)
        if key not in self.functions:
            self.functions[key] = len(self.functions) + 1
            name = self.string(function.name)
            self.message.function.add(
                id=self.functions[key],
                name=name,
                system_name=name,
                filename=self.string(function.file),
            )
        return self.functions[key]

    def mapping(self, mapping: Mapping | None) -> int:
        """The id of a mapping; 0: none."""
        if mapping is None:
            return 0
        if mapping not in self.mappings:
            self.mappings[mapping] = len(self.mappings) + 1
            self.message.mapping.add(
                id=self.mappings[mapping],
                memory_start=mapping.start,
                memory_limit=mapping.end,
                file_offset=mapping.offset,
                filename=self.string(mapping.path),
                build_id=self.string(self.symbols.image(mapping).build_id),
                has_functions=True,
                has_filenames=True,
                has_line_numbers=True,
                has_inline_frames=True,
            )
        return self.mappings[mapping]

    def location(self, pc: int) -> int:
        """The id of a frame."""
        if pc not in self.locations:
            self.locations[pc] = len(self.locations) + 1
            location = self.message.location.add(
                id=self.locations[pc],
                mapping_id=self.mapping(self.profile.mapping_of(pc)),
                address=pc,
            )
            for function in self.symbols.functions(pc):
                location.line.add(function_id=self.function(function), line=function.line)
        return self.locations[pc]

    def program(self, stacks: list[Stack]) -> None:
        """The format has the program's own mapping as the first: where its code is, if it is in a stack."""
        if not self.profile.mappings:
            return
        lowest = min(self.profile.mappings, key=lambda mapping: mapping.start)
        used = {self.profile.mapping_of(pc) for stack in stacks for pc in stack.addresses}
        code = [m for m in used if m is not None and m.path == lowest.path]
        self.mapping(min(code, key=lambda mapping: mapping.start, default=lowest))

    def write(self, stacks: list[Stack]) -> bytes:
        """The message, packed."""
        self.program(stacks)
        for name, unit, _ in SAMPLE_TYPES:
            self.message.sample_type.add(type=self.string(name), unit=self.string(unit))
        for stack in stacks:
            values = [round(stack.value(value)) for _, _, value in SAMPLE_TYPES]
            self.message.sample.add(
                location_id=[self.location(pc) for pc in stack.addresses], value=values
            )
        self.message.period_type.type = self.string("space")
        self.message.period_type.unit = self.string("bytes")
        self.message.period = self.profile.period_bytes
        self.message.default_sample_type = self.string("inuse_space")
        self.message.comment.append(self.string(f"hakmem, process {self.profile.pid}"))
        return gzip.compress(self.message.SerializeToString(deterministic=True), mtime=0)


def read(packed: bytes) -> Any:
    """The message of a file, for tests and for whoever wants to look."""
    return message_class().FromString(gzip.decompress(packed))
