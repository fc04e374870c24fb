// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The allocator beside the program's own: every layout, and what the interface refuses.

use hakmem::{ctl, set_ctl, Hakmem, Refused};
use std::alloc::{GlobalAlloc, Layout};

const SIZES: [usize; 14] = [
    1,
    8,
    16,
    17,
    100,
    1000,
    1024,
    5000,
    65_536,
    70_000,
    300_000,
    1 << 20,
    3_000_000,
    17 << 20,
];

fn holds(block: *const u8, bytes: usize, value: u8) -> bool {
    // SAFETY: the callers' blocks are that long.
    (0..bytes).all(|i| unsafe { *block.add(i) } == value)
}

#[test]
fn every_layout_is_aligned_and_writable() {
    for size in SIZES {
        for shift in 0..=21 {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            // SAFETY: the layout is not empty, and each block is freed with its own.
            unsafe {
                let block = Hakmem.alloc(layout);
                assert!(!block.is_null(), "{layout:?}");
                assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
                block.write_bytes(7, size);
                Hakmem.dealloc(block, layout);
                let block = Hakmem.alloc_zeroed(layout);
                assert!(holds(block, size, 0), "{layout:?}");
                Hakmem.dealloc(block, layout);
            }
        }
    }
}

#[test]
fn realloc_keeps_content_and_alignment() {
    for align in [1, 16, 64, 4096, 65_536] {
        for from in SIZES {
            for to in SIZES {
                let layout = Layout::from_size_align(from, align).unwrap();
                // SAFETY: as above; the block has the new size afterwards.
                unsafe {
                    let block = Hakmem.alloc(layout);
                    block.write_bytes(9, from);
                    let block = Hakmem.realloc(block, layout, to);
                    assert_eq!(block as usize % align, 0);
                    assert!(
                        holds(block, from.min(to), 9),
                        "{from} to {to}, aligned to {align}"
                    );
                    Hakmem.dealloc(block, Layout::from_size_align(to, align).unwrap());
                }
            }
        }
    }
}

#[test]
fn what_there_is_no_memory_for_is_null() {
    let layout = Layout::from_size_align(isize::MAX as usize - 4096, 1).unwrap();
    // SAFETY: the layout is not empty.
    unsafe {
        assert!(Hakmem.alloc(layout).is_null());
        assert!(Hakmem.alloc_zeroed(layout).is_null());
        let small = Layout::from_size_align(100, 8).unwrap();
        let block = Hakmem.alloc(small);
        block.write_bytes(3, 100);
        assert!(Hakmem.realloc(block, small, layout.size()).is_null());
        assert!(holds(block, 100, 3));
        Hakmem.dealloc(block, small);
    }
}

#[test]
fn names_are_known_or_refused() {
    assert_eq!(ctl("no.such.name"), Err(Refused::NoSuchName));
    assert_eq!(ctl(&"long".repeat(100)), Err(Refused::NoSuchName));
    assert_eq!(ctl("live.bytes\0"), Err(Refused::NoSuchName));
    assert_eq!(set_ctl("live.bytes", 1), Err(Refused::ReadOnly));
    assert_eq!(
        set_ctl("option.superslab_ttl_sec", u64::MAX),
        Err(Refused::OutOfRange)
    );
    let before = set_ctl("option.superslab_ttl_sec", 3).unwrap();
    assert_eq!(ctl("option.superslab_ttl_sec"), Ok(3));
    assert_eq!(set_ctl("option.superslab_ttl_sec", before), Ok(3));
    hakmem::trim();
}
