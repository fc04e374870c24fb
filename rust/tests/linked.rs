// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A library in Rust that has the allocator, in a program in C: all of it is in the library's archive.

use std::path::Path;
use std::process::Command;

const MANIFEST: &str = r#"
[package]
name = "plain"
version = "0.0.0"
edition = "2021"
[lib]
crate-type = ["staticlib"]
path = "plain.rs"
[dependencies]
hakmem = { path = "ROOT" }
"#;

const LIBRARY: &str = r#"
#[global_allocator]
static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;

#[no_mangle]
pub extern "C" fn plain_live_bytes() -> u64 {
    let block = vec![1u8; 1000];
    hakmem::ctl("live.bytes").unwrap() * u64::from(block[999])
}
"#;

const PROGRAM: &str = r#"
unsigned long long plain_live_bytes(void);
int main(void) { return plain_live_bytes() >= 1000 ? 0 : 1; }
"#;

fn run(command: &mut Command) {
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{command:?}: {}\n{said}",
        done.status
    );
}

#[test]
fn a_static_library_has_all_that_it_needs() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plain");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = MANIFEST.replace("ROOT", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.join("plain.rs"), LIBRARY).unwrap();
    std::fs::write(folder.join("main.c"), PROGRAM).unwrap();
    run(Command::new(env!("CARGO"))
        .current_dir(&folder)
        .args(["build", "--offline", "--target-dir", "target"])
        .env("CC", "cc -pipe")); // a command of two words
    run(Command::new("cc").current_dir(&folder).args([
        "main.c",
        "target/debug/libplain.a",
        "-o",
        "main",
    ]));
    run(&mut Command::new(folder.join("main")));
}
