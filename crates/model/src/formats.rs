//! Formats in which stored matrices are kept: unchanged, or rounded to another at load.

use conclave_kernels::Format as GpuFormat;
use conclave_weights::Format;

/// The format that plain numbers are rounded to: `quantise`, if rows of `cols` numbers are whole
/// blocks of it. `None` for a matrix that is not rounded.
pub fn quantised(stored: Format, cols: usize, quantise: Option<Format>) -> Option<Format> {
    use Format::{BF16, F8E4M3, F16, F32};
    let plain = matches!(stored, F32 | F16 | BF16 | F8E4M3);
    quantise.filter(|to| plain && cols.is_multiple_of(to.block_elements()))
}

/// Format in which the CPU keeps a matrix with rows of `cols` numbers that is stored as `stored`.
pub fn kept_on_cpu(stored: Format, cols: usize, quantise: Option<Format>) -> Format {
    quantised(stored, cols, quantise).unwrap_or_else(|| conclave_cpu::kept(stored, cols))
}

/// Format in which the GPU keeps a matrix with rows of `cols` numbers that is stored as `stored`:
/// as conclave-weights and as conclave-kernels name it. `None` if no kernel reads rows of that
/// width.
pub fn on_gpu(
    stored: Format,
    cols: usize,
    quantise: Option<Format>,
) -> Option<(Format, GpuFormat)> {
    let best = quantised(stored, cols, quantise).unwrap_or(stored);
    // As it is stored, but for 8-bit floats. Rows that F16's loads do not fit may fit F32's.
    [best, Format::Q8_0, Format::F32]
        .into_iter()
        .filter_map(|format| Some((format, GpuFormat::from_stored(format)?)))
        .find(|(_, kernels)| cols.is_multiple_of(kernels.block()))
}
