//! Huge pages for a matrix, which is read from one end to the other for every token: the processor
//! then looks up the place of 2 MiB at once rather than of 4 KiB. Many Linux systems give them only
//! on request.

use std::mem::MaybeUninit;

/// The size of a huge page on most processors, and a multiple of every usual page size.
const SIZE: usize = 2 << 20;

/// Requests huge pages for `memory` that is not written yet, as far as it consists of whole ones. A
/// system without them keeps its pages.
pub(crate) fn request<T>(memory: &mut [MaybeUninit<T>]) {
    let start = memory.as_mut_ptr().cast::<u8>();
    let before = start.addr().next_multiple_of(SIZE) - start.addr();
    let whole = size_of_val(memory).saturating_sub(before) / SIZE * SIZE;
    if whole > 0 {
        let first = start.wrapping_add(before).cast();
        // SAFETY: all of it lies within `memory`, whose bytes stay as they are.
        unsafe { libc::madvise(first, whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_huge_pages_are_requested() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let mut memory = Vec::<[u16; 8]>::new();
        memory.reserve_exact(8 * SIZE / 16);
        request(memory.spare_capacity_mut());
        let middle = memory.as_ptr().addr() + 4 * SIZE;
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux tells its maps");
        let mut inside = false;
        let flags = maps.lines().find(|line| {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            let address = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(begin), Some(end))) = range.map(|(a, b)| (address(a), address(b))) {
                inside = (begin..end).contains(&middle);
            }
            inside && line.starts_with("VmFlags:")
        });
        let flags = flags.expect("the memory is mapped");
        assert!(flags.split(' ').any(|flag| flag == "hg"), "{flags}");
    }
}
