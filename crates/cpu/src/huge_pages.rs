//! Memory for matrices in huge pages: the processor then looks up the place of 2 MiB at once rather
//! than of 4 KiB, and every token reads all matrices. Many Linux systems give huge pages only on
//! request, and only where one lies within a single request, so that matrices lie one after the
//! other in large regions.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocator_api2::alloc::{AllocError, Allocator, Global};
use allocator_api2::vec::Vec as VecIn;

/// The size of a huge page on most processors, and a multiple of every usual page size.
const PAGE: usize = 2 << 20;
/// The size of a region, unless a matrix is larger. A page costs memory only once it is written.
const REGION: usize = 64 << 20;
/// Smaller ones are allocated as usual.
const SMALLEST: usize = 64 << 10;

/// The blocks of a matrix.
pub(crate) type Blocks<P> = VecIn<P, HugePages>;

/// Blocks of a matrix without rows.
pub(crate) fn no_blocks<P>() -> Blocks<P> {
    Blocks::new_in(HugePages)
}

/// The allocator of matrices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HugePages;

static REGIONS: Mutex<Vec<Region>> = Mutex::new(Vec::new());

/// Huge pages, of which `used` bytes are or were allocated, one after the other.
struct Region {
    start: NonNull<u8>,
    used: usize,
    /// The number of matrices in each page.
    pages: Vec<u32>,
}

// SAFETY: the memory is the region's alone, and any thread may return it.
unsafe impl Send for Region {}

impl Region {
    /// A region of `size` bytes, a multiple of [`PAGE`] and not 0.
    fn new(size: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size, PAGE).ok()?;
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        // SAFETY: the pages are the region's, and keep their bytes.
        unsafe { libc::madvise(start.as_ptr().cast(), size, libc::MADV_HUGEPAGE) };
        Some(Self {
            start,
            used: 0,
            pages: vec![0; size / PAGE],
        })
    }

    /// Memory for a matrix at the region's end, if there is room.
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let begin = self.used.next_multiple_of(layout.align());
        let end = begin.checked_add(layout.size())?;
        if end > self.pages.len() * PAGE {
            return None;
        }
        self.used = end;
        for count in &mut self.pages[begin / PAGE..end.div_ceil(PAGE)] {
            *count += 1;
        }
        // SAFETY: it lies within the region.
        Some(unsafe { self.start.add(begin) })
    }

    fn contains(&self, at: NonNull<u8>) -> bool {
        let start = self.start.addr().get();
        (start..start + self.pages.len() * PAGE).contains(&at.addr().get())
    }

    /// Returns a matrix's pages to the system, except for those that hold another one.
    fn give_back(&mut self, at: NonNull<u8>, size: usize) {
        let begin = at.addr().get() - self.start.addr().get();
        for page in begin / PAGE..(begin + size).div_ceil(PAGE) {
            self.pages[page] -= 1;
            if self.pages[page] == 0 {
                // SAFETY: nothing lies in the page.
                unsafe {
                    let page = self.start.add(page * PAGE).as_ptr().cast();
                    libc::madvise(page, PAGE, libc::MADV_DONTNEED);
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.pages.iter().all(|&count| count == 0)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let size = self.pages.len() * PAGE;
        // SAFETY: allocated with this layout.
        unsafe {
            let layout = Layout::from_size_align_unchecked(size, PAGE);
            dealloc(self.start.as_ptr(), layout);
        }
    }
}

fn regions() -> MutexGuard<'static, Vec<Region>> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

// SAFETY: memory stays where it is until it is returned; copies of the type share all regions.
unsafe impl Allocator for HugePages {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() < SMALLEST {
            return Global.allocate(layout);
        }
        let mut regions = regions();
        let found = regions.iter_mut().find_map(|region| region.take(layout));
        let start = found.or_else(|| {
            let least = layout.size().checked_next_multiple_of(PAGE)?;
            let region = Region::new(REGION.max(least));
            // A limit on the process may leave no room for more.
            let mut region = region.or_else(|| Region::new(least))?;
            let start = region.take(layout);
            regions.push(region);
            start
        });
        let start = start.ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(start, layout.size()))
    }

    unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
        if layout.size() < SMALLEST {
            // SAFETY: the caller's promise; `allocate` took it from there.
            return unsafe { Global.deallocate(start, layout) };
        }
        let mut regions = regions();
        let at = regions.iter().position(|region| region.contains(start));
        let at = at.expect("a region has it");
        regions[at].give_back(start, layout.size());
        if regions[at].is_empty() {
            regions.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags of this process's memory around `at`.
    fn flags_at(at: *const u8) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux tells its maps");
        let mut inside = false;
        let mut flags = maps.lines().filter(|line| {
            let range = line.split(' ').next().and_then(|word| word.split_once('-'));
            let address = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(begin), Some(end))) = range.map(|(a, b)| (address(a), address(b))) {
                inside = (begin..end).contains(&at.addr());
            }
            inside && line.starts_with("VmFlags:")
        });
        flags.next().expect("the memory is mapped").to_owned()
    }

    fn blocks(bytes: usize, number: u16) -> Blocks<[u16; 8]> {
        let mut blocks = no_blocks();
        blocks.reserve_exact(bytes / 16);
        blocks.resize(bytes / 16, [number; 8]);
        blocks
    }

    #[test]
    fn small_matrices_share_the_huge_pages_that_are_requested() {
        let few = [1, 2, 3, 4].map(|number| blocks(PAGE / 3, number));
        for blocks in &few {
            let flags = flags_at(blocks.as_ptr().cast());
            let requested = flags.split(' ').any(|flag| flag == "hg");
            let possible = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
            assert_eq!(requested, possible, "{flags}");
        }
        for (blocks, number) in few.iter().zip(1..) {
            assert!(blocks.iter().all(|block| *block == [number; 8]));
        }
    }

    #[test]
    fn a_page_returns_to_the_system_with_its_last_matrix() {
        let mut region = Region::new(4 * PAGE).expect("there is memory");
        let layout = |size| Layout::from_size_align(size, 64).expect("a size");
        let half = layout(PAGE / 2);
        let three: [_; 3] = std::array::from_fn(|_| region.take(layout(PAGE)).expect("room"));
        let last = region.take(half).expect("room");
        assert!(region.take(layout(PAGE)).is_none(), "half a page is left");
        for at in three {
            // SAFETY: a page's size was taken there.
            unsafe { at.write_bytes(1, PAGE) };
        }
        // SAFETY: half a page's size was taken there.
        unsafe { last.write_bytes(1, PAGE / 2) };
        // SAFETY: all of it lies in the region, which has been written or is zeros.
        let first_bytes = |region: &Region| {
            [0, 1, 2, 3].map(|page| unsafe { region.start.add(page * PAGE).read() })
        };
        assert_eq!(first_bytes(&region), [1; 4]);
        region.give_back(three[1], PAGE);
        assert_eq!(first_bytes(&region), [1, 0, 1, 1], "zeros: a new page");
        region.give_back(last, PAGE / 2);
        region.give_back(three[2], PAGE);
        assert!(!region.is_empty());
        region.give_back(three[0], PAGE);
        assert!(region.is_empty());
    }

    #[test]
    fn memory_of_matrices_that_are_gone_is_allocated_again() {
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
            let line = status.lines().find(|line| line.starts_with("VmRSS:"));
            let words = line.and_then(|line| line.split_whitespace().nth(1));
            words
                .and_then(|kib| kib.parse::<usize>().ok())
                .expect("a number")
                >> 10
        };
        let before = resident();
        for number in 0..10 {
            let large = blocks(100 << 20, number);
            let small = blocks(1 << 20, number);
            assert_eq!([large[0], small[0]], [[number; 8]; 2]);
        }
        let after = resident();
        assert!(after < before + 100, "from {before} to {after} MiB");
    }
}
