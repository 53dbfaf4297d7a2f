//! Numbers of a cache or a state as bytes, for saving and restoring.

/// The direction, and the bytes. Restores bit for bit where the same calls are made in the same
/// order.
#[derive(Debug)]
pub enum Carry<'a> {
    /// Appends numbers to these bytes.
    Out(&'a mut Vec<u8>),
    /// Takes numbers from the front of these bytes; numbers beyond their end keep their value.
    In(&'a [u8]),
}

impl Carry<'_> {
    /// Copies consecutive numbers.
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
