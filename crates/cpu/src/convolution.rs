//! The gated short convolution (LFM2) and its cache: C · conv(B · x), where a token sees its own
//! B · x and those of the tokens before it.
//!
//! A token leaves B · x as a row of the cache, like keys and values: 16 bits a number with a scale
//! for each 64, or f32 where rounding is ruled out.

use crate::carry::Carry;
use crate::input::{nearest, step_of};

/// Numbers that share a scale.
const GROUP: usize = 64;

/// Cached inputs of the convolution of one block, `[rows, width]`.
#[derive(Debug, Clone)]
pub struct ConvolutionCache {
    width: usize,
    rows: usize,
    numbers: Numbers,
}

#[derive(Debug, Clone)]
enum Numbers {
    Floats(Vec<f32>),
    Integers {
        numbers: Vec<i16>,
        /// `[rows, width / GROUP]`, rounded up.
        scales: Vec<f32>,
    },
}

impl ConvolutionCache {
    /// Allocates `rows` of `width` numbers, 16 bits each or, if `exact`, 32.
    pub fn new(rows: usize, width: usize, exact: bool) -> Self {
        let width = width.max(1);
        let numbers = match exact {
            true => Numbers::Floats(vec![0.0; rows * width]),
            false => Numbers::Integers {
                numbers: vec![0; rows * width],
                scales: vec![0.0; rows * width.div_ceil(GROUP)],
            },
        };
        Self {
            width,
            rows,
            numbers,
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        match &self.numbers {
            Numbers::Floats(numbers) => size_of_val(&numbers[..]),
            Numbers::Integers { numbers, scales } => {
                size_of_val(&numbers[..]) + size_of_val(&scales[..])
            }
        }
    }

    /// Bytes of memory that [`new`](Self::new) takes.
    pub fn bytes_of(rows: usize, width: usize, exact: bool) -> u64 {
        rows as u64 * Self::new(1, width, exact).bytes() as u64
    }

    /// Writes a token's B · x, each `[width]`, to its row; ignores rows beyond the last.
    pub fn write(&mut self, row: usize, b: &[f32], x: &[f32]) {
        if row >= self.rows {
            return;
        }
        let (at, groups) = (row * self.width, self.width.div_ceil(GROUP));
        let products = b.iter().zip(x).map(|(b, x)| b * x);
        match &mut self.numbers {
            Numbers::Floats(numbers) => {
                let row = &mut numbers[at..at + self.width];
                row.iter_mut().zip(products).for_each(|(to, n)| *to = n);
            }
            Numbers::Integers { numbers, scales } => {
                let products: Vec<f32> = products.take(self.width).collect();
                let into = numbers[at..at + self.width].chunks_mut(GROUP);
                let scales = &mut scales[row * groups..(row + 1) * groups];
                for ((group, into), scale) in products.chunks(GROUP).zip(into).zip(scales) {
                    let (step, inverse) = step_of(group);
                    *scale = step;
                    for (to, n) in into.iter_mut().zip(group) {
                        *to = nearest(n * inverse) as i16;
                    }
                }
            }
        }
    }

    /// Moves the rows `from .. from + count` to `to ..`, `to <= from`; skips rows out of range.
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) {
        let count = count.min(self.rows.saturating_sub(from.max(to)));
        let groups = self.width.div_ceil(GROUP);
        let of = |width: usize| (from * width..(from + count) * width, to * width);
        let (range, into) = of(self.width);
        match &mut self.numbers {
            Numbers::Floats(numbers) => numbers.copy_within(range, into),
            Numbers::Integers { numbers, scales } => {
                numbers.copy_within(range, into);
                let (range, into) = of(groups);
                scales.copy_within(range, into);
            }
        }
    }

    /// Copies the first `rows` rows out or in, bit for bit; a row has the bytes of
    /// [`bytes_of`](Self::bytes_of) one.
    pub fn carry(&mut self, rows: usize, carry: &mut Carry<'_>) {
        let rows = rows.min(self.rows);
        match &mut self.numbers {
            Numbers::Floats(numbers) => carry.numbers(&mut numbers[..rows * self.width]),
            Numbers::Integers { numbers, scales } => {
                carry.numbers(&mut numbers[..rows * self.width]);
                carry.numbers(&mut scales[..rows * self.width.div_ceil(GROUP)]);
            }
        }
    }

    /// Output of a token that sees these rows, oldest first and its own last, `None` before the
    /// text's beginning: C · (taps · rows + bias). `c`, `bias` and `out` are `[width]`, `taps`
    /// `[width, rows]`.
    pub fn convolve(
        &self,
        rows: &[Option<usize>],
        taps: &[f32],
        bias: Option<&[f32]>,
        c: &[f32],
        out: &mut [f32],
    ) {
        match bias {
            Some(bias) => out.copy_from_slice(bias),
            None => out.fill(0.0),
        }
        for (tap, row) in rows.iter().enumerate() {
            let Some(row) = row.filter(|&row| row < self.rows) else {
                continue;
            };
            let of_tap = taps.iter().skip(tap).step_by(rows.len().max(1));
            let out = out.iter_mut().zip(of_tap);
            let at = row * self.width;
            match &self.numbers {
                Numbers::Floats(numbers) => {
                    let numbers = &numbers[at..at + self.width];
                    out.zip(numbers).for_each(|((out, tap), n)| *out += tap * n);
                }
                Numbers::Integers { numbers, scales } => {
                    let numbers = &numbers[at..at + self.width];
                    let groups = self.width.div_ceil(GROUP);
                    let scales = &scales[row * groups..(row + 1) * groups];
                    let scaled = numbers.chunks(GROUP).zip(scales);
                    let scaled = scaled.flat_map(|(group, scale)| {
                        group.iter().map(move |&n| f32::from(n) * scale)
                    });
                    out.zip(scaled).for_each(|((out, tap), n)| *out += tap * n);
                }
            }
        }
        out.iter_mut().zip(c).for_each(|(out, c)| *out *= c);
    }
}
