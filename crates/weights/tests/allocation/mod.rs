//! An allocator that knows how much memory a thread holds at most, and ends the process before it
//! takes the machine's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Knows what this thread holds and has held at most.
pub struct Counting;

/// More than any test may take.
const TOO_MUCH: usize = 4 << 30;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged, or fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // During a thread's end its storage may be gone; nothing is measured there.
        let held = HELD.try_with(|held| {
            held.set(held.get().wrapping_add(layout.size()));
            MOST.with(|most| most.set(most.get().max(held.get())));
            held.get()
        });
        if held.is_ok_and(|held| held > TOO_MUCH) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(layout.size())));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`; returns its result, and how many bytes more than before were held at most.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = work();
    (result, MOST.get().saturating_sub(before))
}

/// Bytes that this thread holds.
#[allow(dead_code, reason = "tests ask for the most alone")]
pub fn held() -> usize {
    HELD.get()
}
