//! An allocator that tracks a thread's peak of allocated memory, and aborts before it exhausts the
//! machine's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts this thread's current and peak allocated bytes.
#[derive(Debug)]
pub struct Counting;

/// Above any test's need.
const MAX_BYTES: usize = 4 << 30;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged, or fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // At a thread's end its storage may be gone; nothing is measured then.
        let held = ALLOCATED.try_with(|held| {
            held.set(held.get().wrapping_add(layout.size()));
            PEAK.with(|most| most.set(most.get().max(held.get())));
            held.get()
        });
        if held.is_ok_and(|held| held > MAX_BYTES) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = ALLOCATED.try_with(|held| held.set(held.get().saturating_sub(layout.size())));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`; returns its result, and the peak of bytes allocated beyond those before.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get().saturating_sub(before))
}

/// Bytes allocated by this thread.
#[allow(dead_code, reason = "tests ask for the most alone")]
pub fn allocated() -> usize {
    ALLOCATED.get()
}
