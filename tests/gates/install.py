#!/usr/bin/env python3
"""Gate: what is installed can be used: find_package, pkg-config, the header, the command.

    install.py --build BUILD [--cmake CMAKE] [--cc CC] [--cxx CXX]

Installs with a prefix and a DESTDIR of its own, moves the whole, then builds and runs small programs against it; then
the same with hakmem as a part of another project, which has a generator, a build type and flags of its own.
Each asks hakmem for the size of a block of malloc or new: 0 unless that block is hakmem's.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gate

ROOT = Path(__file__).resolve().parents[2]

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(consumer C CXX)
find_package(hakmem 0.1 REQUIRED)
foreach(way hakmem static)
    foreach(language c cc)
        add_executable(replaced_${way}_${language} replaced.${language})
        target_link_libraries(replaced_${way}_${language} hakmem::${way})
    endforeach()
    add_executable(replaced_${way}_configured configured.c)
    target_link_libraries(replaced_${way}_configured hakmem::${way})
    set_target_properties(replaced_${way}_configured PROPERTIES C_VISIBILITY_PRESET hidden)
endforeach()
add_executable(replaced_static_probed replaced.c)
target_link_libraries(replaced_static_probed hakmem::static)
include(CheckIncludeFile)
check_include_file(sys/sdt.h HAVE_PROBES)
if(HAVE_PROBES)
    target_compile_definitions(replaced_static_probed PRIVATE PROBED)
endif()
foreach(way prefixed prefixed_static)
    add_executable(${way}_c prefixed.c)
    target_link_libraries(${way}_c hakmem::${way})
endforeach()
add_library(plugin MODULE plugin.c)
target_link_libraries(plugin hakmem::prefixed_static)
add_executable(prefixed_unloaded unloaded.c)
target_compile_definitions(prefixed_unloaded PRIVATE PLUGIN="$<TARGET_FILE:plugin>")
target_link_libraries(prefixed_unloaded hakmem::prefixed)
add_executable(prefixed_resource resource.cc)
target_compile_features(prefixed_resource PRIVATE cxx_std_17)
target_link_libraries(prefixed_resource hakmem::prefixed)
"""

AROUND = """
cmake_minimum_required(VERSION 3.25)
project(around C CXX)
add_subdirectory("${HAKMEM_SOURCE}" hakmem EXCLUDE_FROM_ALL)
add_executable(replaced_c replaced.c)
target_link_libraries(replaced_c hakmem::static)
add_executable(prefixed_c prefixed.c)
target_link_libraries(prefixed_c hakmem::prefixed)
"""

PROGRAMS = {
    "replaced.c": """
#include <hakmem.h>
#include <stdlib.h>
#ifdef PROBED
#include <sys/sdt.h>
#else
#define DTRACE_PROBE(of, name)
#endif
int main(void)
{
    DTRACE_PROBE(program, begun);
    return hakmem_malloc_usable_size(malloc(100)) >= 100 ? 0 : 1;
}
""",
    "replaced.cc": """
#include <hakmem.h>
#include <new>
int main() { return hakmem_malloc_usable_size(::operator new(100)) >= 100 ? 0 : 1; }
""",
    "configured.c": """
#include <hakmem.h>
#include <stdlib.h>
const char *hakmem_conf = "limit_mb:64";
int main(void)
{
    void *volatile small = malloc(32 << 20), *volatile large = malloc(128 << 20);
    return small != NULL && large == NULL ? 0 : 1;
}
""",
    "resource.cc": """
#include <hakmem.hpp>
#include <string>
int main()
{
    std::pmr::string text(1000, 'x', hakmem::resource());
    return hakmem_malloc_usable_size(text.data()) >= 1000 ? 0 : 1;
}
""",
    "plugin.c": """
#include <hakmem.h>
void *plugin_use(void *p) { hakmem_free(hakmem_malloc(100)); return p; }
""",
    "unloaded.c": """
#include <dlfcn.h>
#include <pthread.h>
static pthread_barrier_t met;
static void *run(void *use)
{
    ((void *(*)(void *))use)(NULL);
    pthread_barrier_wait(&met);
    pthread_barrier_wait(&met);
    return NULL;
}
int main(void)
{
    pthread_t thread;
    void *plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
    pthread_barrier_init(&met, NULL, 2);
    pthread_create(&thread, NULL, run, dlsym(plugin, "plugin_use"));
    pthread_barrier_wait(&met);
    dlclose(plugin);
    pthread_barrier_wait(&met);
    return pthread_join(thread, NULL);
}
""",
    "prefixed.c": """
#include <hakmem.h>
#include <stdlib.h>
int main(void)
{
    return hakmem_malloc_usable_size(malloc(100)) == 0 &&
           hakmem_malloc_usable_size(hakmem_malloc(100)) >= 100 ? 0 : 1;
}
""",
}


def attempt(*command: str | Path, env: dict[str, str] | None = None) -> str | None:
    """Runs a command; what it printed if it failed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})
    if done.returncode == 0:
        return None
    return f"{' '.join(words)} failed with status {done.returncode}:\n{done.stdout}{done.stderr}"


def install(build: Path, cmake: str, folder: Path) -> tuple[Path, str | None]:
    """Installs below folder and moves the result to where nobody expected it."""
    staging = folder / "staging"
    problem = attempt(cmake, "--install", build, "--prefix", "/opt/hakmem", env={"DESTDIR": str(staging)})
    prefix = folder / "moved"
    if problem is None:
        (staging / "opt" / "hakmem").rename(prefix)
    return prefix, problem


def check_files(prefix: Path, build: Path) -> list[str]:
    """The files that must be there."""
    files = ["lib*/**/libhakmem.so", "lib*/**/libhakmem.a",
             "lib*/**/libhakmem-hardened.so", "include/hakmem.h", "include/hakmem.hpp", "lib*/**/pkgconfig/hakmem.pc",
             "share/man/man1/hakmem.1", "share/gdb/auto-load/opt/hakmem/lib*/**/libhakmem.so.*-gdb.py"]
    if (build / "hakmem").exists():
        files.append("bin/hakmem")
    return [f"{name} was not installed" for name in files if not any(prefix.glob(name))]


def check_run(program: Path, libraries: Path) -> list[str]:
    """Runs a program of ours."""
    problem = attempt(program, env={"LD_LIBRARY_PATH": str(libraries)})
    return [problem] if problem else []


def compilers(tools: argparse.Namespace) -> list[str]:
    """The options that make CMake take the compilers that were asked for."""
    return [f"-DCMAKE_C_COMPILER={tools.cc}", f"-DCMAKE_CXX_COMPILER={tools.cxx}"]


def write_project(source: Path, project: str) -> Path:
    """A folder with the project and all programs."""
    source.mkdir()
    (source / "CMakeLists.txt").write_text(project, encoding="utf-8")
    for name, text in PROGRAMS.items():
        (source / name).write_text(text, encoding="utf-8")
    return source


def check_cmake(prefix: Path, libraries: Path, folder: Path, tools: argparse.Namespace) -> list[str]:
    """Programs that find the package with CMake."""
    source, build = write_project(folder / "consumer", PROJECT), folder / "consumer-build"
    options = ["-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *compilers(tools)]
    problem = attempt(tools.cmake, "-S", source, "-B", build, *options)
    problem = problem or attempt(tools.cmake, "--build", build)
    if problem:
        return [problem]
    programs = sorted(path for path in build.iterdir() if path.name.startswith(("replaced_", "prefixed")))
    if len(programs) != 11:
        return [f"expected 11 programs, built {len(programs)}"]
    return [problem for program in programs for problem in check_run(program, libraries)]


def check_around(folder: Path, tools: argparse.Namespace) -> list[str]:
    """Programs of a project that has hakmem as a part."""
    source, build = write_project(folder / "around", AROUND), folder / "around-build"
    options = [f"-DHAKMEM_SOURCE={ROOT}", *compilers(tools)]
    problem = attempt(tools.cmake, "-S", source, "-B", folder / "around-multi", "-G", "Ninja Multi-Config", *options)
    # No optimization, and no rules for files of other targets.
    options += ["-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_UNITY_BUILD=ON"]
    options += ["-DCMAKE_C_FLAGS=-flto", "-DCMAKE_CXX_FLAGS=-flto"]
    problem = problem or attempt(tools.cmake, "-S", source, "-B", build, *options)
    problem = problem or attempt(tools.cmake, "--build", build, "--parallel", "2")
    if problem:
        return [problem]
    return [problem for name in ("replaced_c", "prefixed_c") for problem in check_run(build / name, build / "hakmem")]


def check_pkg_config(prefix: Path, libraries: Path, folder: Path, tools: argparse.Namespace) -> list[str]:
    """A program that finds the library with pkg-config."""
    variables = {"PKG_CONFIG_PATH": str(libraries / "pkgconfig")}
    done = subprocess.run(["pkg-config", "--cflags", "--libs", "hakmem"], capture_output=True, text=True, check=False,
                          env={**os.environ, **variables})
    flags = done.stdout.split()
    if done.returncode != 0 or f"-I{(prefix / 'include')}" not in [os.path.normpath(f) for f in flags]:
        return [f"pkg-config: status {done.returncode}, flags {flags}: {done.stderr.strip()}"]
    source, program = folder / "replaced.c", folder / "by-pkg-config"
    source.write_text(PROGRAMS["replaced.c"], encoding="utf-8")
    problem = attempt(tools.cc, source, "-o", program, *flags)
    return [problem] if problem else check_run(program, libraries)


def check_absolute(folder: Path, tools: argparse.Namespace) -> list[str]:
    """Folders that are given whole, as some distributions do."""
    build, libraries, headers = folder / "absolute", folder / "elsewhere" / "lib", folder / "headers"
    options = ["-G", "Ninja", "-DHAKMEM_TESTS=OFF", f"-DCMAKE_INSTALL_PREFIX={folder / 'elsewhere'}",
               f"-DCMAKE_INSTALL_LIBDIR={libraries}", f"-DCMAKE_INSTALL_INCLUDEDIR={headers}", *compilers(tools)]
    problem = attempt(tools.cmake, "-S", ROOT, "-B", build, *options)
    if problem:
        return [problem]
    done = subprocess.run(["pkg-config", "--cflags", "--libs", build / "hakmem.pc"], capture_output=True, text=True,
                          check=False)
    problems = [f"pkg-config: {flag} is not among {done.stdout!r}, with absolute folders: {done.stderr.strip()}"
                for flag in (f"-I{headers}", f"-L{libraries}") if flag not in done.stdout.split()]
    if f'/gdb/auto-load{libraries}"' not in (build / "cmake_install.cmake").read_text(encoding="utf-8"):
        problems.append("the scripts for gdb do not go where it looks for them, with absolute folders")
    return problems


def check_make(folder: Path) -> list[str]:
    """`make install` by an administrator whose files nobody else may read."""
    staging = folder / "private"
    command = 'umask 077 && make -C "$1" -o build install PREFIX=/opt/hakmem DESTDIR="$2"'
    problem = attempt("sh", "-c", command, "sh", ROOT, staging)
    closed = [path for path in staging.rglob("*") if not path.stat().st_mode & 0o004]
    return [problem] if problem else [f"{path} was installed for its owner only" for path in closed[:5]]


def check_loader(folder: Path) -> list[str]:
    """The loader is told of what `make install` has put in its place, and of nothing that lies in DESTDIR."""
    ldconfig, told = folder / "ldconfig", folder / "told"
    ldconfig.write_text(f"#!/bin/sh\ntouch {told}\n", encoding="utf-8")
    ldconfig.chmod(0o755)
    words = ["make", "-C", ROOT, "-o", "build", "install", f"LDCONFIG={ldconfig}"]
    problem = attempt(*words, f"DESTDIR={folder / 'package'}")
    early = told.exists()
    problem = problem or attempt(*words, f"PREFIX={folder / 'here'}")
    if problem:
        return [problem]
    expected = os.geteuid() == 0  # nobody else can tell it
    return [] if not early and told.exists() == expected else ["make install told the loader too early, or not at all"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Installs hakmem and builds programs against it.")
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    tools = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prefix, problem = install(tools.build, tools.cmake, folder)
        problems = [problem] if problem else check_files(prefix, tools.build)
        if not problems:
            libraries = next(prefix.glob("lib*/**/libhakmem.so")).parent
            problems = check_cmake(prefix, libraries, folder, tools)
            problems += check_pkg_config(prefix, libraries, folder, tools)
        if tools.build.resolve() == ROOT / "build" / "release":  # which is what make installs
            problems += check_make(folder)
            problems += check_loader(folder)
        problems += check_absolute(folder, tools)
        problems += check_around(folder, tools)
    return gate.report("install", problems, "11 programs by CMake, one by pkg-config, two with hakmem within")


if __name__ == "__main__":
    sys.exit(main())
