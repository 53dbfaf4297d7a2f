//! Converts blocks of one format to another, to shrink a model while it loads.

use crate::format::quantise;
use crate::{BlockError, Format, dequantise};

/// Elements converted at a time, on the stack: a multiple of every format's block.
const PIECE: usize = 1024;

/// Writes the numbers in `blocks` as blocks of format `to`. Replaces the content of `out` and
/// reuses its memory. Pass whole rows: the elements must fill blocks of both formats.
///
/// Exact to the bit of every dequantised number to F32, to the same format, and from BF16 to F16
/// within its range. Otherwise rounds as [`quantise`] does.
///
/// # Errors
/// [`BlockError::Length`] for partial blocks of either format, [`BlockError::Value`] at a number
/// that `to` cannot hold, [`BlockError::NoWriter`] where `to` cannot be written.
pub fn convert(
    from: Format,
    blocks: &[u8],
    to: Format,
    out: &mut Vec<u8>,
) -> Result<(), BlockError> {
    let count = blocks.len() / from.block_bytes();
    let elements = count.saturating_mul(from.block_elements());
    let wrong_length = |format| BlockError::Length {
        format,
        bytes: blocks.len(),
        elements,
    };
    if !blocks.len().is_multiple_of(from.block_bytes()) {
        return Err(wrong_length(from));
    }
    let bytes = to.bytes_of(elements).ok_or_else(|| wrong_length(to))?;
    out.clear();
    if from == to {
        out.extend_from_slice(blocks);
        return Ok(());
    }
    out.resize(bytes, 0);
    let mut piece = [0.0; PIECE];
    let read = PIECE / from.block_elements() * from.block_bytes();
    let write = PIECE / to.block_elements() * to.block_bytes();
    for (number, (blocks, out)) in blocks.chunks(read).zip(out.chunks_mut(write)).enumerate() {
        let elements = blocks.len() / from.block_bytes() * from.block_elements();
        let values = &mut piece[..elements];
        dequantise(from, blocks, values)?;
        quantise(to, values, out).map_err(|error| match error {
            BlockError::Value {
                format,
                index,
                value,
            } => BlockError::Value {
                format,
                index: number * PIECE + index,
                value,
            },
            error => error,
        })?;
    }
    Ok(())
}
