//! Numbers of a cache or a state as bytes, on their way out or back.

/// Which way, and the bytes. What goes out comes back bit for bit where the same is asked for in
/// the same order.
#[derive(Debug)]
pub enum Carry<'a> {
    /// Numbers go behind these bytes.
    Out(&'a mut Vec<u8>),
    /// These bytes become numbers, the first first; where they are too few, numbers stay what they
    /// are.
    In(&'a [u8]),
}

impl Carry<'_> {
    /// Carries some numbers that lie side by side.
    pub(crate) fn numbers<T: bytemuck::Pod>(&mut self, numbers: &mut [T]) {
        let numbers: &mut [u8] = bytemuck::cast_slice_mut(numbers);
        match self {
            Self::Out(to) => to.extend_from_slice(numbers),
            Self::In(from) => {
                if let Some((first, rest)) = from.split_at_checked(numbers.len()) {
                    numbers.copy_from_slice(first);
                    *from = rest;
                }
            }
        }
    }
}
