# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem: the many of `make programs`, each with a script in data/wide/.

Who uses it: tests/programs/cases.py. A script stops at the first command that fails, and prints
what has to be the same with and without hakmem. The programs' packages are in
tools/packages.sh (PACKAGES_PROGRAMS). It never runs anything by itself.
"""

import wide_servers
from stage import Case, Step

DATA = "tests/programs/data/"
SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


def wide(
    name: str,
    what: str,
    *needs: str,
    expect: str,
    probe: str = "",
    files: tuple[str, ...] = (),
    note: str = "",
    mask: tuple[tuple[str, str], ...] = (),
) -> Case:
    """A script of the same name in data/wide, run by bash with the system's own programs first."""
    return Case(
        name=name,
        what=what,
        needs=(*needs, "bash"),
        files=(f"{DATA}wide/{name}.sh", *files),
        play=(Step(("bash", "-e", "-o", "pipefail", f"{name}.sh"), env={"PATH": SYSTEM_PATH}),),
        expect=(expect,),
        probe=tuple(probe.split()) or (needs[0], "--version"),
        wide=True,
        note=note,
        mask=mask,
    )


def server(name: str, what: str, *needs: str, play: object, expect: str, note: str = "") -> Case:
    """A play of wide_servers."""
    return Case(
        name=name,
        what=what,
        needs=needs,
        play=play,  # type: ignore[arg-type]
        expect=(expect,),
        probe=(needs[0], "-V" if name in ("memcached", "postgres", "mariadb") else "-v"),
        mask=((r"-p \d+", "-p PORT"), (r"(backend> )?20\d\d-\d\d-[^\n]* LOG: [^\n]*", "LOG")),
        wide=True,
        note=note,
    )


MMAP = "keeps its objects in memory of its own from mmap; the rest of the process uses hakmem"
LISP = "its heap is its own, from mmap; the runtime uses hakmem"

WIDE: tuple[Case, ...] = (
    wide("zsh", "associative arrays, globs, substitutions", "zsh", expect="keys 997"),
    wide("dash", "loops, functions, pipes", "dash", expect="fib 144", probe="dash -c :"),
    wide("fish", "lists, string functions", "fish", expect="count 3000"),
    wide("ksh", "arrays, floating point, text", "ksh93", expect="seen 1009", probe="ksh93 -c :"),
    wide("numpy", "matrices, sorting, a transform", "/usr/bin/python3", expect="peak at 1024"),
    wide(
        "clang",
        "C and C++ compiled, linked, run",
        "clang-19",
        expect="operators 1500",
        files=(DATA + "containers.cc", "bench/programs/larson.c", "bench/programs/bench.h"),
    ),
    wide("gfortran", "a program compiled and run", "gfortran", expect="list +3000"),
    wide("gdb", "breakpoints and values in a program", "gdb", expect=r"value\\?.*= 10000|= 10000"),
    wide("binutils", "ld, ar, nm, objdump, readelf, strip", "objdump", expect="1200"),
    wide("nasm", "macros and 4000 labels", "nasm", expect=r"[0-9a-f]{64}  work.bin"),
    wide("parsers", "bison, flex and m4", "bison", "flex", "m4", expect="[0-9a-f]{64}"),
    wide(
        "go",
        "a program with cgo built and run",
        "/usr/bin/go",
        expect="7 [0-9a-f]{64}",
        probe="bash go.sh",
        note="keeps its objects in memory of its own from mmap; C.malloc is hakmem",
    ),
    wide("rust", "cargo builds and tests two crates", "/usr/bin/cargo", expect="words 4001"),
    wide("ruby", "objects, JSON, threads, collections", "ruby", expect="same true"),
    wide("lua", "tables, text, coroutines", "lua5.4", expect="keys\t50021", probe="lua5.4 -v"),
    wide("luajit", "FFI blocks, tables", "luajit", expect="sum", probe="luajit -v", note=LISP),
    wide("tcl", "dictionaries, lists, text", "tclsh", expect="keys 1009", probe="tclsh /dev/null"),
    wide("guile", "lists, big numbers", "guile", expect="4115", note=LISP + " (libgc)"),
    wide("ocaml", "native and byte code", "ocamlopt", expect="keys 5003", probe="ocaml -version"),
    wide(
        "erlang",
        "processes, tables, binaries",
        "erl",
        expect="same true",
        probe="erl -noshell -eval halt().",
        note="has allocators of its own over malloc and mmap",
    ),
    wide("sbcl", "compiled Lisp, big numbers", "sbcl", expect="keys 1009", note=LISP),
    wide(
        "prolog",
        "search, facts, big numbers",
        "swipl",
        expect="queens",
        note="loads tcmalloc, which hakmem comes before",
    ),
    wide(
        "php",
        "arrays, JSON, objects",
        "php",
        expect="same",
        probe="php -n --version",
        note="with its modules, which it loads with RTLD_DEEPBIND; played twice, with its own memory manager and with "
        "malloc alone",
    ),
    wide("r", "data frames, a model, matrices", "R", expect="words 9973"),
    wide(
        "gforth", "ALLOCATE, RESIZE, recursion", "gforth", expect=r"\d+ \d+", probe="gforth -e bye"
    ),
    wide(
        "ffmpeg",
        "video and sound, there and back",
        "ffmpeg",
        expect="MD5=",
        probe="ffmpeg -version",
    ),
    wide("imagemagick", "pictures made, changed, converted", "convert", expect="c.gif GIF 300x300"),
    wide(
        "ghostscript",
        "PostScript to pictures, PDF and text",
        "gs",
        expect="page-01.ppm",
        files=("bench/real/pages.ps",),
    ),
    wide("graphviz", "two layouts of a graph", "dot", expect="[0-9a-f]{64}", probe="dot -V"),
    wide("gnuplot", "a fit, plots", "gnuplot", expect="a 0.0100"),
    wide(
        "poppler",
        "a PDF as text, pictures, SVG",
        "pdftotext",
        "gs",
        expect="Pages:",
        probe="pdftotext -v",
        files=("bench/real/pages.ps",),
    ),
    wide("librsvg", "SVG to PNG and PDF", "rsvg-convert", expect="[0-9a-f]{64}  out.png"),
    wide("sox", "sounds made, changed, encoded", "sox", expect="Samples read"),
    wide("vim", "edits, macros, a script", "vim", expect="keys 9973"),
    wide("emacs", "Lisp on buffers, in batch mode", "emacs", expect="keys 1009"),
    wide("tmux", "a server with windows and panes", "tmux", expect="\n7\n8\n", probe="tmux -V"),
    wide("gawk", "arrays, regular expressions, big numbers", "gawk", expect="2568"),
    wide("jq", "a large document grouped and sorted", "jq", expect='"n":40'),
    wide(
        "compressors",
        "zstd, bzip2, lz4, brotli",
        "zstd",
        "bzip2",
        "lz4",
        "brotli",
        expect="all the same",
    ),
    wide("zip", "zip, unzip, 7zz", "7zz", "zip", "unzip", expect="300 files", probe="zip -v"),
    wide(
        "cmake",
        "cmake, ninja and make build a project",
        "cmake",
        "ninja",
        expect="ninja: no work to do",
    ),
    wide("make", "a graph of 1500 targets, functions", "make", expect="sum 1125750"),
    wide("gnupg", "encryption, keys, signatures", "gpg", expect="opened"),
    wide("subversion", "a repository, branch, merge", "svn", expect="svn|\n15\n|\n16\n"),
    wide("mercurial", "a repository, merge, verify", "hg", expect="11 [0-9a-f]+ merged"),
    wide("doxygen", "pages for forty headers", "doxygen", expect=r"\n\d\d+\n"),
    wide("pari", "factors, matrices, series", "gp", expect="7432339208719", probe="gp --version"),
    wide("libxml", "XPath, XSLT, formatting", "xsltproc", "xmllint", expect="well-formed"),
    wide("groff", "pages and tables typeset", "groff", expect="[0-9a-f]{64}"),
    wide("bc", "hundreds of digits", "bc", expect="3.14159265358979"),
    wide("rsync", "a tree copied with deltas", "rsync", expect="same"),
    wide("openssh", "keys, signatures, an agent", "ssh-keygen", expect="Good", probe="ssh -V"),
    wide("file", "file, diff and patch", "file", "diff", "patch", expect="patched"),
    server(
        "nginx",
        "nginx behind haproxy, asked by curl",
        "/usr/sbin/nginx",
        "/usr/sbin/haproxy",
        "curl",
        play=wide_servers.play_web,
        expect="400 of 400",
    ),
    server(
        "lighttpd",
        "lighttpd, asked by curl",
        "/usr/sbin/lighttpd",
        "curl",
        play=wide_servers.play_lighttpd,
        expect="400 of 400",
    ),
    server(
        "memcached",
        "20,000 items set, read, replaced",
        "memcached",
        play=wide_servers.play_memcached,
        expect="read 20000",
        note="items are in its own slabs, of malloc's memory",
    ),
    server(
        "postgres",
        "initdb, tables, indexes, joins",
        wide_servers.POSTGRES,
        play=wide_servers.play_postgres,
        expect="towns",
    ),
    server(
        "mariadb",
        "a server with tables, indexes, joins",
        "/usr/sbin/mariadbd",
        "mariadb",
        play=wide_servers.play_mariadb,
        expect="towns",
    ),
    server(
        "bind",
        "named with a zone, asked by dig",
        "/usr/sbin/named",
        "dig",
        play=wide_servers.play_bind,
        expect="host2999",
    ),
)
