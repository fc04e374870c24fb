#!/usr/bin/env bash
# Builds the allocators that the benchmarks compare with, as shared libraries in build/peers, from the C and C++
# sources that their cargo packages carry: mimalloc 2 and 3, snmalloc, rpmalloc, jemalloc, and Google's tcmalloc.
# tools/setup-bench.sh calls it after the packages are there. What was built, with which version and flags, goes to
# build/peers/peers.json; what could not be built is recorded there with the reason, and the rest goes on.
# It fetches by package name and version through cargo, runs none of the packages' build scripts in Rust, and writes
# nothing outside build/.
#
#     tools/build-peers.sh [NAME...]      all, or only these; what is built already stays (--force builds it again)
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD
peers=build/peers
logs=build/logs
jobs=${BENCH_JOBS:-$(nproc)}

# name|cargo package|its version
PEERS=(
    'mimalloc2|libmimalloc-sys|0.1.49'
    'mimalloc3|libmimalloc-sys|0.1.49'
    'snmalloc|snmalloc-sys|0.7.6'
    'rpmalloc|rpmalloc-sys|0.2.3'
    'jemalloc531|tikv-jemalloc-sys|0.7.1'
    'tcmalloc|libtcmalloc-sys|0.1.14'
)
# Only when named, and no part of a benchmark run: to compare libhakmem-hardened.so with, see docs/hardened.md.
EXTRA_PEERS=(
    'mimalloc3secure|libmimalloc-sys|0.1.49'
    'hardened_malloc|hardened-malloc-sys|16.0.2026071503'
)

# ---- fetching ----

# Before 1.68 cargo clones the index of all packages with git, unless it is told to ask for single ones, which it takes
# for unstable until then. Debian 12 has 1.65.
cargo_without_clone() {
    local minor
    minor=$(cargo --version | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
    if [[ "${minor:-68}" -ge 64 && "${minor:-68}" -lt 68 ]]; then
        RUSTC_BOOTSTRAP=1 CARGO_UNSTABLE_SPARSE_REGISTRY=true CARGO_REGISTRIES_CRATES_IO_PROTOCOL=sparse cargo "$@"
    else
        cargo "$@"
    fi
}

# Leaves the package's sources in build/peers/fetch/PACKAGE/vendor/PACKAGE. One cargo project for each package, so
# that one that this cargo cannot read does not take the others with it.
fetch() {
    local package=$1 version=$2 folder=$peers/fetch/$1
    [[ -f "$folder/vendor/$package/Cargo.toml" && "$(cat "$folder/version" 2>/dev/null)" == "$version" ]] && return 0
    command -v cargo >/dev/null 2>&1 || {
        echo 'cargo is not installed: apt-get install cargo'
        return 1
    }
    rm -rf "$folder"
    mkdir -p "$folder/src"
    : >"$folder/src/lib.rs"
    cat >"$folder/Cargo.toml" <<END
[package]
name = "hakmem-bench-fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
$package = "=$version"
[workspace]
END
    (cd "$folder" && cargo_without_clone vendor --quiet vendor) && printf '%s\n' "$version" >"$folder/version"
}

# ---- building: each function gets the sources and a work folder, and leaves its library at $3 ----

# The packages carry no CMake modules, so these are the flags that mimalloc's CMakeLists.txt gives a release library.
build_mimalloc() { # sources, library, more flags
    "${CC:-cc}" -std=gnu11 -O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_DEBUG=0 -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB \
        -DMI_SHARED_LIB_EXPORT -fPIC -fvisibility=hidden -fno-builtin-malloc -ftls-model=initial-exec -w \
        -I"$1/include" -I"$1/src" "${@:3}" -shared "$1/src/static.c" -o "$2" -lpthread -lrt
}

build_mimalloc2() { build_mimalloc "$1/c_src/mimalloc/v2" "$3"; }
build_mimalloc3() { build_mimalloc "$1/c_src/mimalloc/v3" "$3"; }
build_mimalloc3secure() { build_mimalloc "$1/c_src/mimalloc/v3" "$3" -DMI_SECURE=4; }

build_snmalloc() {
    cmake -S "$1/upstream" -B "$2" -DCMAKE_BUILD_TYPE=Release -DSNMALLOC_BUILD_TESTING=OFF &&
        cmake --build "$2" -j "$jobs" --target snmallocshim &&
        cp -L "$2/libsnmallocshim.so" "$3"
}

# The flags of its own configure.py for the library that replaces malloc.
build_rpmalloc() {
    "${CC:-cc}" -std=gnu11 -O3 -DNDEBUG -D_GNU_SOURCE=1 -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 \
        -funit-at-a-time -fstrict-aliasing -fvisibility=hidden -fno-math-errno -fPIC -w \
        -shared "$1/rpmalloc/rpmalloc/rpmalloc.c" -o "$3" -lpthread -ldl
}

build_jemalloc531() {
    cp -a "$1/jemalloc/." "$2/" && cp "$1/configure/configure" "$2/configure" && chmod +x "$2/configure" &&
        (cd "$2" && ./configure --quiet --disable-doc --disable-static \
            --with-version="$(sed -n 's/^version = ".*+\(.*\)"/\1/p' "$1/Cargo.toml")") &&
        make -s -C "$2" -j "$jobs" build_lib_shared &&
        cp -L "$2/lib/libjemalloc.so.2" "$3"
}

# Its default configuration is the package's config-default.conf, a definition a line. alignas is no keyword of C before gcc 13.
build_hardened_malloc() {
    local definitions=()
    mapfile -t definitions < <(sed -n 's/^\([A-Z_]*=.*\)/-D\1/p' "$1/config-default.conf")
    "${CC:-cc}" -std=gnu2x -O3 -DNDEBUG -D_GNU_SOURCE "${definitions[@]}" -fPIC -fvisibility=hidden -fno-plt \
        -fstack-clash-protection -include stdalign.h -w -I"$1/vendor/hardened-malloc/include" -I"$1/vendor/hardened-malloc/third_party" \
        -shared "$1"/vendor/hardened-malloc/*.c -o "$3" -lpthread
}

# The list of files is the package's own (its build.rs); of its two fronts we take tcmalloc.cc, which replaces malloc.
build_tcmalloc() {
    local sources=() file
    while read -r file; do
        [[ "$file" == c_src/malloc_bridge.cc || "$file" == *_extension_bridge.cc ]] || sources+=("$1/$file")
    done < <(grep -oE '"c_src/[^"]+\.(cc|S)"' "$1/build.rs" | tr -d '"' | sort -u)
    [[ ${#sources[@]} -gt 100 ]] || {
        echo "the list of sources was not found in $1/build.rs"
        return 1
    }
    cat >"$2/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(tcmalloc C CXX ASM)
set(CMAKE_CXX_STANDARD 17)
add_library(tcmalloc SHARED
$(printf '    "%s"\n' "${sources[@]}" "$1/c_src/tcmalloc/tcmalloc/tcmalloc.cc"))
target_include_directories(tcmalloc PRIVATE "$1/c_src/abseil-cpp" "$1/c_src/tcmalloc")
target_compile_definitions(tcmalloc PRIVATE NOMINMAX TCMALLOC_INTERNAL_8K_PAGES NDEBUG)
target_compile_options(tcmalloc PRIVATE -O2 -w -fPIC -fno-omit-frame-pointer -ftls-model=initial-exec)
find_package(Threads REQUIRED)
target_link_libraries(tcmalloc PRIVATE Threads::Threads)
END
    cmake -S "$2" -B "$2/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE= &&
        cmake --build "$2/build" -j "$jobs" && cp -L "$2/build/libtcmalloc.so" "$3"
}

# ---- versions, from the sources ----

mimalloc_version() {
    sed -n 's/^#define MI_MALLOC_VERSION *\([0-9]\)0*\([0-9]*\)0\([0-9]\).*/\1.\2.\3/p' "$1/include/mimalloc.h"
}
version_mimalloc2() { mimalloc_version "$1/c_src/mimalloc/v2"; }
version_mimalloc3secure() { mimalloc_version "$1/c_src/mimalloc/v3"; }
version_hardened_malloc() { sed -n 's/^version = "\([0-9.]*\)"/\1/p' "$1/Cargo.toml" | head -n 1; }
version_mimalloc3() { mimalloc_version "$1/c_src/mimalloc/v3"; }
version_snmalloc() { sed -n '0,/^version = /s/^version = "\(.*\)"/\1/p' "$1/Cargo.toml"; }
version_rpmalloc() { head -n 1 "$1/rpmalloc/CHANGELOG"; }
version_jemalloc531() { sed -n 's/^version = ".*+\([0-9.]*\)-.*"/\1/p' "$1/Cargo.toml"; }
version_tcmalloc() { sed -n 's/^## \[.*) - \([0-9-]*\)$/as of \1/p' "$1/CHANGELOG.md" | head -n 1; }

# ---- one peer ----

# Shows that the library takes over: a process with it has it in its map, and runs.
prove() {
    LD_PRELOAD="$root/$1" grep -q "$1" /proc/self/maps && LD_PRELOAD="$root/$1" sort /etc/passwd >/dev/null
}

make_peer() { # name, package, its version: messages to the log; status 0 if the library is there
    local name=$1 package=$2 work=$root/$peers/scratch/$1
    local folder=$root/$peers/fetch/$package/vendor/$package
    fetch "$package" "$3" || return 1
    rm -rf "$work" "$peers/$name.so"
    mkdir -p "$work"
    "build_$name" "$folder" "$work" "$root/$peers/$name.so.new" || return 1
    strip --strip-debug "$peers/$name.so.new" || return 1
    mv "$peers/$name.so.new" "$peers/$name.so"
    "version_$name" "$folder" >"$peers/$name.version"
    prove "$peers/$name.so" || {
        rm -f "$peers/$name.so"
        echo 'the library was built but a process does not run with it'
        return 1
    }
}

# Names, versions and reasons as JSON; python3 writes it, so that any text is quoted well.
write_record() {
    python3 - "$peers" "$logs" "${PEERS[@]}" <<'END'
import json, pathlib, sys
peers, logs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
record = []
for name, package, version in (line.split("|") for line in sys.argv[3:]):
    entry = {"name": name, "package": f"{package} {version}"}
    if (peers / f"{name}.so").is_file():
        entry["version"] = (peers / f"{name}.version").read_text(encoding="utf-8").strip()
        entry["library"] = f"{name}.so"
    else:
        log = logs / f"peer-{name}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        errors = [line for line in lines if "error" in line.lower()] or lines or ["not built yet"]
        problem = errors[0 if "error" in errors[0].lower() else -1].strip()
        causes = [cause.strip() for before, cause in zip(lines, lines[1:]) if before == "Caused by:"]
        entry["problem"] = ": ".join([problem, *causes[-1:]])[:300]
    record.append(entry)
(peers / "peers.json").write_text(json.dumps({"schema": 1, "peers": record}, indent=1) + "\n", encoding="utf-8")
END
}

main() {
    local force=no wanted=() choice=("${PEERS[@]}") line name package version failed=0
    for name in "$@"; do
        if [[ "$name" == --force ]]; then force=yes; else wanted+=("$name"); fi
    done
    for name in "${wanted[@]}"; do
        [[ " ${PEERS[*]%%|*} ${EXTRA_PEERS[*]%%|*} " == *" $name "* ]] || {
            echo "build-peers: no peer '$name'; there are: ${PEERS[*]%%|*} ${EXTRA_PEERS[*]%%|*}" >&2
            exit 2
        }
    done
    mkdir -p "$peers" "$logs"
    [[ ${#wanted[@]} -eq 0 ]] || choice+=("${EXTRA_PEERS[@]}")
    for line in "${choice[@]}"; do
        IFS='|' read -r name package version <<<"$line"
        [[ ${#wanted[@]} -eq 0 || " ${wanted[*]} " == *" $name "* ]] || continue
        [[ $force == no && -f "$peers/$name.so" ]] && continue
        printf 'building %s (%s %s) ... ' "$name" "$package" "$version"
        if make_peer "$name" "$package" "$version" >"$logs/peer-$name.log" 2>&1 </dev/null; then
            printf 'ok: version %s\n' "$(cat "$peers/$name.version")"
        else
            printf 'FAILED, left out. The log: %s\n' "$logs/peer-$name.log"
            failed=$((failed + 1))
        fi
    done
    write_record
    [[ $failed -eq 0 ]] || echo "build-peers: $failed could not be built; the benchmarks show them as missing" >&2
}

main "$@"
