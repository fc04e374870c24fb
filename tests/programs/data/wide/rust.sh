# rustc and cargo: a library and a program of two crates, with its tests.
export CARGO_HOME=$PWD/home RUSTUP_TOOLCHAIN= CARGO_TERM_QUIET=true CARGO_INCREMENTAL=0
mkdir -p work/src
cat > work/Cargo.toml <<'T'
[package]
name = "work"
version = "0.1.0"
edition = "2021"
T
cat > work/src/lib.rs <<'R'
use std::collections::{BTreeMap, HashMap};
pub fn count(text: &str) -> BTreeMap<String, usize> {
    let mut found: HashMap<String, usize> = HashMap::new();
    for word in text.split_whitespace() {
        *found.entry(word.to_string()).or_default() += 1;
    }
    found.into_iter().collect()
}
#[test]
fn counts() {
    assert_eq!(count("a b a")["a"], 2);
}
R
cat > work/src/main.rs <<'R'
fn main() {
    let text: String = (0..200_000u64).map(|i| format!("w{} ", i * 7919 % 4001)).collect();
    let parts: Vec<_> = (0..4)
        .map(|i| {
            let part = text.clone();
            std::thread::spawn(move || work::count(&part[i * 100_000..(i + 1) * 100_000]).len())
        })
        .collect();
    for part in parts {
        println!("words {}", part.join().unwrap());
    }
    println!("all {}", work::count(&text)["w17"]);
}
R
cd work
PATH=/usr/bin:$PATH /usr/bin/cargo build --release --offline
./target/release/work
PATH=/usr/bin:$PATH CARGO_TERM_QUIET=false /usr/bin/cargo test --offline 2>&1 | grep 'test counts' | head -n 1
