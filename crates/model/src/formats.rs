//! In which format a stored matrix is kept: on the GPU in one of those its kernels read.

use conclave_kernels::Format as GpuFormat;
use conclave_weights::Format;

/// The format that `quantise` makes of plain numbers whose rows fit its blocks.
pub fn quantised(stored: Format, cols: usize, quantise: Option<Format>) -> Option<Format> {
    let plain = matches!(stored, Format::F32 | Format::F16 | Format::BF16);
    quantise.filter(|to| plain && cols.is_multiple_of(to.block_elements()))
}

/// The format in which the GPU keeps rows of `cols` numbers that are stored as `stored`, in both
/// crates' words; `None` where no kernel reads rows of that width.
pub fn on_gpu(
    stored: Format,
    cols: usize,
    quantise: Option<Format>,
) -> Option<(Format, GpuFormat)> {
    let best = quantised(stored, cols, quantise).unwrap_or(stored.on_gpu());
    // Rows that F16's loads do not fit may fit F32's.
    [best, Format::Q8_0, Format::F32]
        .into_iter()
        .filter_map(|format| Some((format, GpuFormat::of(format)?)))
        .find(|(_, kernels)| cols.is_multiple_of(kernels.block()))
}
