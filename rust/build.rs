// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Compiles the allocator under names of its own (hakmem_malloc): it replaces nothing that C code calls. The flags are
// those of cmake/HakmemFlags.cmake that matter to the result. Without the crate `cc`: so it needs no registry.

use std::path::{Path, PathBuf};
use std::process::Command;

const LAYERS: [&str; 11] = [
    "base",
    "os",
    "space",
    "slab",
    "pool",
    "large",
    "cache",
    "telemetry",
    "policy",
    "heap",
    "api",
];
// Of the hardened library, or of the libraries that replace malloc: see cmake/HakmemLayers.cmake.
const OTHERS: [&str; 5] = [
    "guard_linux.c",
    "operators_linux.c",
    "random.c",
    "operators_hardened.c",
    "deepbind.c",
];

const FLAGS: [&str; 20] = [
    "-std=gnu17",
    "-O2",
    "-g1",
    "-fPIC",
    "-pthread",
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
    "-fno-math-errno",
    "-fasynchronous-unwind-tables",
    "-fno-builtin-malloc",
    "-fno-builtin-calloc",
    "-fno-builtin-realloc",
    "-fno-builtin-free",
    "-fno-builtin-aligned_alloc",
    "-fno-builtin-memalign",
    "-fno-builtin-posix_memalign",
    "-DNDEBUG",
    "-D_GNU_SOURCE",
    "-DHAK_CHECKS=0",
    "-DHAK_INTERPOSE=0",
];

fn sources(layer: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(layer).unwrap_or_else(|e| panic!("{}: {e}", layer.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().map_or(false, |e| e == "c"))
        .filter(|path| !OTHERS.iter().any(|other| path.ends_with(other)))
        .collect();
    files.sort();
    files
}

/// A tool for the target: CC_x86_64_unknown_linux_musl or CC, as the crate `cc` has it, else the usual one. More than one
/// word begins a command: `ccache gcc`, `gcc --sysroot=/sdk`.
fn tool(name: &str, usual: &str) -> Command {
    let target = env("TARGET").replace('-', "_");
    let mut named = None;
    for variable in [format!("{name}_{target}"), name.to_string()] {
        println!("cargo:rerun-if-env-changed={variable}");
        named = named.or_else(|| std::env::var(variable).ok());
    }
    let named = named.unwrap_or_default();
    let mut words = named.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(usual));
    command.args(words);
    command
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn run(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?}: {status}");
}

fn main() {
    let os = env("CARGO_CFG_TARGET_OS");
    assert!(os == "linux", "hakmem supports Linux only; this is {os}");
    let root = PathBuf::from(env("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env("OUT_DIR"));
    let mut objects = Vec::new();
    for layer in LAYERS {
        // A folder each, as two layers have files of the same name.
        let folder = out.join(layer);
        let files = sources(&root.join("src").join(layer));
        std::fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        run(tool("CC", "cc")
            .current_dir(&folder)
            .args(FLAGS)
            .arg("-I")
            .arg(root.join("src"))
            .arg("-I")
            .arg(root.join("include"))
            .arg("-c")
            .args(&files));
        for file in files {
            let name = file.file_name().expect("a file has a name");
            objects.push(folder.join(name).with_extension("o"));
        }
    }
    // One object, as nothing refers to the one whose constructor reads the options.
    let whole = out.join("hakmem.o");
    run(tool("CC", "cc")
        .args(["-r", "-nostdlib", "-o"])
        .arg(&whole)
        .args(&objects));
    let archive = out.join("libhakmem.a");
    let _ = std::fs::remove_file(&archive); // ar would keep what is not there any more
    run(tool("AR", "ar").arg("crs").arg(&archive).arg(&whole));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=hakmem");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=include");
}
