# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: figures as text, short enough for a column. Who uses it: every tool. It prints nothing."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size(count: float) -> str:
    """Bytes with a unit and three digits or so: 512 B, 1.5 KiB, 23.4 MiB."""
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    whole = unit == 0 or abs(value) >= 999.5
    return f"{value:.0f} {UNITS[unit]}" if whole else f"{value:.1f} {UNITS[unit]}"


def signed_size(count: float) -> str:
    """The same with its sign; nothing where it is nothing."""
    return "" if count == 0 else f"{'+' if count > 0 else '-'}{size(abs(count))}"


def number(count: float) -> str:
    """A count: whole up to 99,999, then in thousands, millions and so on."""
    value = float(count)
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < (100_000 if unit == "" else 10_000) or unit == "T":
            return f"{value:,.0f}{unit}"
        value /= 1000
    raise AssertionError("unreachable")


def rate(per_second: float) -> str:
    """A count a second; one digit where it is small."""
    return f"{per_second:.1f}" if 0 < per_second < 10 else number(per_second)


def percent(part: float, whole: float) -> str:
    """A part of a whole; a dash where there is no whole."""
    return f"{part / whole:.0%}" if whole else "-"


def duration(nanoseconds: float) -> str:
    """A time in the unit that suits it."""
    seconds = nanoseconds / 1e9
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, hours = seconds / 60, seconds / 3600
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} d"


def cut(text: str, width: int) -> str:
    """Text of at most so many characters; what is cut off is shown as an ellipsis."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def compact(count: float) -> str:
    """Bytes in at most six characters, as top shows them: 512, 1.5K, 23.4M."""
    value, unit = float(count), 0
    while abs(value) >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    if unit == 0:
        return f"{value:.0f}"
    return f"{value:.{0 if abs(value) >= 99.95 else 1}f}{UNITS[unit][0]}"


def signed_compact(count: float) -> str:
    """The same with its sign; 0 without one."""
    return "0" if count == 0 else f"{'+' if count > 0 else '-'}{compact(abs(count))}"
