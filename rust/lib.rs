// SPDX-License-Identifier: Apache-2.0 OR MIT

#![doc = include_str!("README.md")]
#![warn(missing_docs, unsafe_op_in_unsafe_fn)]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;

extern "C" {
    fn hakmem_malloc(size: usize) -> *mut c_void;
    fn hakmem_calloc(count: usize, size: usize) -> *mut c_void;
    fn hakmem_realloc(p: *mut c_void, size: usize) -> *mut c_void;
    fn hakmem_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    fn hakmem_free(p: *mut c_void);
    fn hakmem_malloc_trim(pad: usize) -> c_int;
    fn hakmem_version() -> *const c_char;
    fn hakmem_ctl(name: *const c_char, value: *mut u64, new_value: *const u64) -> c_int;
    fn hakmem_stats_json(buffer: *mut c_char, size: usize) -> c_int;
}

/// Every block of malloc's has this alignment.
const LEAST_ALIGN: usize = 16;

/// The allocator. All values of this type are the same one.
///
/// Safe in every thread at any time, before `main` and after it included; not in signal handlers. A
/// layout of more than `isize::MAX` bytes, or for which there is no memory, gives a null pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hakmem;

// SAFETY: blocks stay where they are until they are freed, do not overlap, are as long and as
// aligned as the layout says, and none of the functions unwinds.
unsafe impl GlobalAlloc for Hakmem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= LEAST_ALIGN {
            // SAFETY: any size will do.
            unsafe { hakmem_malloc(layout.size()).cast() }
        } else {
            // SAFETY: a layout's alignment is a power of two.
            unsafe { hakmem_aligned_alloc(layout.align(), layout.size()).cast() }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller's promise: the block is this allocator's and live.
        unsafe { hakmem_free(block.cast()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= LEAST_ALIGN {
            // SAFETY: any size will do. What the system has just given is not cleared again.
            return unsafe { hakmem_calloc(1, layout.size()).cast() };
        }
        // SAFETY: as the caller's; a block that is there has so many bytes.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                ptr::write_bytes(block, 0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= LEAST_ALIGN {
            // SAFETY: the caller's promise: the block is live, and the new size is not 0.
            return unsafe { hakmem_realloc(block.cast(), new_size).cast() };
        }
        // SAFETY: the caller's promise: the new size makes a layout; both blocks are as long as what is copied.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// Why [`ctl`] or [`set_ctl`] refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such name.
    NoSuchName,
    /// It can only be read.
    ReadOnly,
    /// The value is out of range.
    OutOfRange,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Refused::NoSuchName => "there is no such name",
            Refused::ReadOnly => "this figure can only be read",
            Refused::OutOfRange => "the value is out of range",
        })
    }
}

impl std::error::Error for Refused {}

/// Longer than any name.
const NAME_BYTES: usize = 128;

fn call_ctl(name: &str, new_value: *const u64) -> Result<u64, Refused> {
    const EPERM: c_int = 1;
    const ENOENT: c_int = 2;
    let mut text = [0u8; NAME_BYTES];
    if name.len() >= NAME_BYTES || name.contains('\0') {
        return Err(Refused::NoSuchName);
    }
    text[..name.len()].copy_from_slice(name.as_bytes());
    let mut value = 0;
    // SAFETY: the name ends in a NUL, and what the pointers name is there or NULL.
    match unsafe { hakmem_ctl(text.as_ptr().cast(), &mut value, new_value) } {
        0 => Ok(value),
        ENOENT => Err(Refused::NoSuchName),
        EPERM => Err(Refused::ReadOnly),
        _ => Err(Refused::OutOfRange),
    }
}

/// The version of the allocator, "MAJOR.MINOR.PATCH".
pub fn version() -> &'static str {
    // SAFETY: a constant of the library, which ends in a NUL.
    let text = unsafe { CStr::from_ptr(hakmem_version()) };
    text.to_str().unwrap_or("")
}

/// A figure or an option by its name, as `"live.bytes"`: bytes, counts and nanoseconds, as the
/// name's ending says. docs/control.md has the names.
///
/// # Errors
/// [`Refused::NoSuchName`].
pub fn ctl(name: &str) -> Result<u64, Refused> {
    call_ctl(name, ptr::null())
}

/// Sets an option by its name, and returns what it was.
///
/// # Errors
/// Any of [`Refused`]; then nothing has changed.
pub fn set_ctl(name: &str, new_value: u64) -> Result<u64, Refused> {
    call_ctl(name, &new_value)
}

/// All figures as one JSON object; docs/stats-json.md describes it.
pub fn stats_json() -> String {
    let mut text = vec![0u8; 1 << 16];
    loop {
        // SAFETY: no more is written than the buffer has.
        let length = unsafe { hakmem_stats_json(text.as_mut_ptr().cast(), text.len()) };
        let length = usize::try_from(length).unwrap_or(0);
        if length < text.len() {
            text.truncate(length);
            return String::from_utf8(text).unwrap_or_default();
        }
        text.resize(length + 4096, 0); // it may grow meanwhile
    }
}

/// Gives memory that nobody uses back to the system. True if there was any.
pub fn trim() -> bool {
    // SAFETY: it may be called at any time.
    unsafe { hakmem_malloc_trim(0) != 0 }
}
