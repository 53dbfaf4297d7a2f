//! The one device that the tests share, and its inputs.

use std::sync::OnceLock;

use conclave_kernels::{
    AdapterChoice, Buffer, Choices, Format, Fused, Launcher, Matrix, ProductKernel, Rows, product,
};
use proptest::test_runner::Config as ProptestConfig;

static GPU: OnceLock<Launcher> = OnceLock::new();

pub fn gpu() -> &'static Launcher {
    GPU.get_or_init(|| {
        let gpu = pollster::block_on(Launcher::init(AdapterChoice::Best)).unwrap_or_else(|error| {
            panic!("the kernel tests need an adapter (Debian: mesa-vulkan-drivers): {error}")
        });
        println!("adapter: {:?}", gpu.adapter());
        // These files are built for cooperative threads, for serial ones, and some for subgroups.
        let of = |kind| env!("CARGO_CRATE_NAME") == kind;
        gpu.choose(Choices {
            serial: of("serial"),
            subgroups: of("subgroups") && gpu.has_subgroups(),
            ..gpu.choices()
        });
        gpu
    })
}

/// Settings of properties with so many cases, which write no failure to disk.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The kernels of products that it can run.
pub fn products() -> impl Iterator<Item = ProductKernel> {
    let twin = |kernel: &_| *kernel == ProductKernel::VectorSubgroups;
    let all = ProductKernel::ALL.into_iter();
    all.filter(move |kernel| gpu().has_subgroups() || !twin(kernel))
}

/// The content of these buffers.
pub fn read(buffers: &[&Buffer]) -> Vec<Vec<f32>> {
    pollster::block_on(gpu().read_f32(buffers)).expect("a read")
}

pub fn upload<T: bytemuck::Pod>(data: &[T]) -> Buffer {
    gpu().upload(data).expect("an upload")
}

/// A buffer of `numbers`, filled with a value that no kernel makes.
pub fn marked(numbers: usize) -> Buffer {
    upload(&vec![MARK; numbers])
}

/// A matrix in parts of `rows_a_part` rows, pushed a few rows at a time.
pub fn matrix(
    format: Format,
    [rows, cols]: [usize; 2],
    blocks: &[u8],
    rows_a_part: usize,
) -> Matrix {
    let row_bytes = cols / format.block() * format.block_bytes();
    let limit = format.bytes(rows_a_part as u64, cols) + 16;
    let mut upload = Matrix::begin_split(gpu(), format, rows, cols, limit).expect("a matrix");
    let mut numbers = Numbers(rows as u64);
    let mut rest = blocks;
    while !rest.is_empty() {
        let rows = (1 + numbers.below(9)).min(rest.len() / row_bytes);
        let (some, tail) = rest.split_at(rows * row_bytes);
        upload.push(some).expect("rows");
        rest = tail;
    }
    let matrix = upload.finish().expect("all rows");
    assert_eq!(matrix.parts(), rows.div_ceil(rows_a_part));
    matrix
}

pub const MARK: f32 = 12345.0;

/// A stream of numbers from a seed (SplitMix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In −1..1.
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn many(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.signed()).collect()
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// Blocks of a matrix as in GGUF.
    pub fn blocks(&mut self, format: Format, numbers: usize) -> Vec<u8> {
        let stored = format.stored();
        let bytes = stored.bytes_of(numbers).expect("whole blocks");
        let mut blocks: Vec<u8> = (0..bytes).map(|_| self.bits() as u8).collect();
        // Scales must be small; a block of one number may be larger.
        let part = if stored.block_elements() > 1 {
            16.0
        } else {
            1.0
        };
        for block in blocks.chunks_exact_mut(stored.block_bytes()) {
            stored
                .set_scales(block, &mut || self.signed() / part)
                .expect("a small number");
        }
        blocks
    }
}

/// The numbers of blocks, decoded by conclave-weights: the twin of `shaders/block`.
pub fn dequantised(format: Format, blocks: &[u8]) -> Vec<f32> {
    let mut numbers = vec![0.0; blocks.len() / format.block_bytes() * format.block()];
    conclave_weights::dequantise(format.stored(), blocks, &mut numbers).expect("whole blocks");
    numbers
}

/// The largest difference, relative to the largest expected number.
pub fn difference(found: &[f32], expected: &[f32]) -> f32 {
    difference_over(found, expected, 1e-30)
}

/// The same, relative to at least `size`: that of numbers from which a few small ones remain.
pub fn difference_over(found: &[f32], expected: &[f32], size: f32) -> f32 {
    assert_eq!(found.len(), expected.len());
    let size = expected.iter().fold(size, |top, v| top.max(v.abs()));
    found
        .iter()
        .zip(expected)
        .map(|(a, b)| {
            assert!(a.is_finite(), "{a} where {b} was expected");
            (a - b).abs() / size
        })
        .fold(0.0, f32::max)
}

#[track_caller]
pub fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    let difference = difference(found, expected);
    assert!(
        difference <= tolerance,
        "off by {difference}, allowed {tolerance}"
    );
}

/// A plain product by the kernel for its number of rows: `x · Wᵀ`, `[m, n]`.
pub fn multiplied(x: &Buffer, m: usize, matrix: &Matrix, fused: Fused<'_>, out: &Buffer) {
    let rows = Rows {
        count: m,
        counts: &upload(&[m as u32]),
    };
    product(gpu(), x, rows, &[matrix], fused, out).expect("a product");
}
