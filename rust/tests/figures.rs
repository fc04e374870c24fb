// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Figures of the allocator, in a process where nothing else allocates meanwhile.

#[global_allocator]
static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;

fn live_bytes() -> u64 {
    hakmem::ctl("live.bytes").unwrap()
}

#[test]
fn figures_move_with_the_program() {
    let before = live_bytes();
    let block = vec![1u8; 50 << 20];
    let during = live_bytes();
    assert!(during >= before + (50 << 20), "{before} {during}");
    drop(block);
    let after = live_bytes();
    assert!(after < before + (1 << 20), "{before} {after}");
    let json = hakmem::stats_json();
    assert!(json.starts_with('{') && json.trim_end().ends_with('}'), "{json}");
    assert!(json.contains("\"schema_version\""));
    assert_eq!(hakmem::version(), env!("CARGO_PKG_VERSION"));
}
