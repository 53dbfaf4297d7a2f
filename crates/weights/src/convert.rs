//! Turns blocks of one format into blocks of another, as needed where a format has no kernel or
//! where a model is to become smaller while it loads.

use crate::format::{largest, quantise};
use crate::formats::{iq4_nl, mxfp4, q3_k, q4_0, q5_0};
use crate::{BlockError, Format, dequantise};

/// Elements that pass through floats at a time, on the stack: a multiple of every format's block.
const PIECE: usize = 1024;

/// Writes the numbers in `blocks` as blocks of format `to`; what `out` held before is dropped, its
/// memory is used again. Pass whole rows: the elements must fill blocks of both formats.
///
/// Exact, to the bit of every dequantised number, where `to` can hold what `from` holds: to F32 and
/// to the same format always, Q4_0, Q5_0 and IQ4_NL to Q8_0, Q3_K to Q6_K, MXFP4 to Q8_0 for scales
/// within f16's range, and BF16 to F16 likewise. Otherwise numbers are rounded as
/// [`quantise`] does.
///
/// # Errors
/// [`BlockError::Length`] for bytes that are no whole blocks or elements that do not fill blocks of
/// `to`, [`BlockError::Value`] at a number that `to` cannot hold, [`BlockError::NoWriter`] where
/// `to` cannot be written.
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
    match (from, to) {
        (Format::Q4_0, Format::Q8_0) => q4_0::to_q8_0(blocks, out),
        (Format::Q5_0, Format::Q8_0) => q5_0::to_q8_0(blocks, out),
        (Format::IQ4NL, Format::Q8_0) => iq4_nl::to_q8_0(blocks, out),
        (Format::Q3K, Format::Q6K) => q3_k::to_q6_k(blocks, out),
        (Format::MXFP4, Format::Q8_0) => mxfp4::to_q8_0(blocks, out)
            .map_err(|number| too_large(from, &blocks[number * 17..][..17], to, number))?,
        _ => through_floats(from, blocks, to, out)?,
    }
    Ok(())
}

fn through_floats(
    from: Format,
    blocks: &[u8],
    to: Format,
    out: &mut [u8],
) -> Result<(), BlockError> {
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

/// The error for block `number`, whose largest element `to` cannot hold.
fn too_large(from: Format, block: &[u8], to: Format, number: usize) -> BlockError {
    let mut values = [0.0; 32];
    match dequantise(from, block, &mut values) {
        Ok(()) => {
            let (within, value) = largest(&values);
            BlockError::Value {
                format: to,
                index: number * values.len() + within,
                value,
            }
        }
        Err(error) => error,
    }
}
