// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The allocator as the program's: collections, threads that free each other's blocks.

use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;

#[test]
fn collections_hold_what_was_put_in() {
    let mut map = HashMap::new();
    for i in 0..100_000u64 {
        map.insert(i, (0..i % 20).map(|k| k.to_string()).collect::<Vec<_>>());
    }
    map.retain(|k, _| k % 3 == 0);
    for (k, v) in &map {
        assert_eq!(v.len() as u64, k % 20);
        assert!(v.iter().enumerate().all(|(i, text)| *text == i.to_string()));
    }
    let mut grown = Vec::new();
    for i in 0..3_000_000u32 {
        grown.push(i);
    }
    assert!(grown.iter().enumerate().all(|(i, n)| i as u32 == *n));
}

#[test]
fn blocks_wander_between_threads() {
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let senders: Vec<_> = (0..4u8)
        .map(|n| {
            let send = send.clone();
            thread::spawn(move || {
                for i in 0..20_000usize {
                    send.send(vec![n; 1 + i * 7919 % 3000]).unwrap();
                }
            })
        })
        .collect();
    drop(send);
    let mut bytes = [0usize; 4];
    for block in receive {
        assert!(block.iter().all(|b| *b == block[0]));
        bytes[block[0] as usize] += block.len();
    }
    for sender in senders {
        sender.join().unwrap();
    }
    assert!(bytes.iter().all(|b| *b == bytes[0]));
}
