//! Choice between a device's equivalent kernels.

use std::fmt;

use crate::ops::experts::ExpertKernel;
use crate::ops::product::{ProductKernel, TILE_ROWS};

/// Choice of a device's kernels where there are alternatives: the faster one, unless it fails its
/// [self-test](crate::Launcher::self_test).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choices {
    /// Whether a thread computes an item (a row, a head of a token, a few rows of W) alone, without
    /// barriers except for joining chunks of attention. Otherwise a workgroup's threads share it.
    pub serial: bool,
    /// Whether the norm before a product of one row is fused instead of a separate launch.
    pub norm_inside: bool,
    /// Whether products of one row, with all of W or with chosen experts, sum by subgroups. Only
    /// autotune sets it, on devices that [have them](crate::Gpu::has_subgroups).
    pub subgroups: bool,
    /// Whether `product_block` computes products of a few rows; otherwise `product_vector` does,
    /// row by row.
    pub blocks: bool,
    /// Number of rows of x that `product_block` computes in the time that `product_tile` takes for
    /// up to 32. A product uses tiles if they hold at least so many rows on average; `None`: no
    /// tiles.
    pub as_a_tile: Option<usize>,
    /// Whether the keys of a long prefix are divided among workgroups, or among serial threads.
    pub chunks: bool,
}

impl Choices {
    /// The usual fastest choices. On a CPU emulating a GPU threads switch at every barrier: without
    /// barriers decoding is up to 4.4 times as fast and verifying up to 6 times. There arithmetic
    /// is the cost, not the bytes of W: a norm in each product takes up to 1.8 times as long, more
    /// than a launch. On GPUs a tile takes as long for one row as for 32, and as `product_block`
    /// for about 28 (`examples/crossover.rs`; on SwiftShader for 20): passes of many rows are best
    /// multiples of 32.
    pub fn usual(software: bool) -> Self {
        Self {
            serial: software,
            norm_inside: !software,
            subgroups: false,
            blocks: true,
            as_a_tile: Some(28),
            chunks: true,
        }
    }

    /// Whether a pass's choices are grouped by expert, for kernels that take several rows of x.
    pub fn groups(&self) -> bool {
        self.serial || self.blocks
    }

    /// The kernel of products with chosen experts, whose choices are in groups or one by one.
    pub(crate) fn experts(&self, grouped: bool) -> ExpertKernel {
        match grouped {
            true => ExpertKernel::Block,
            false if self.subgroups => ExpertKernel::VectorSubgroups,
            false => ExpertKernel::Vector,
        }
    }

    /// The kernel of a product with `rows` rows of x.
    pub fn product(&self, rows: usize) -> ProductKernel {
        let tiles = rows.div_ceil(TILE_ROWS as usize);
        let vector = match self.subgroups {
            true => ProductKernel::VectorSubgroups,
            false => ProductKernel::Vector,
        };
        let fills_tiles = |as_a_tile: usize| rows >= as_a_tile * tiles;
        match rows {
            0..=1 if self.serial => ProductKernel::VectorSerial,
            _ if self.serial => ProductKernel::BlockSerial,
            0..=1 => vector,
            _ if self.as_a_tile.is_some_and(fills_tiles) => ProductKernel::Tile,
            _ if self.blocks => ProductKernel::Block,
            _ => vector,
        }
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.serial {
            return f.write_str("serial threads");
        }
        let or = |chosen, one, other| if chosen { one } else { other };
        write!(
            f,
            "one row by {}, its norm {}, ",
            or(self.subgroups, "subgroups", "workgroup memory"),
            or(self.norm_inside, "inside", "apart"),
        )?;
        f.write_str(or(self.blocks, "few in blocks, ", "few one by one, "))?;
        match self.as_a_tile {
            Some(rows) => write!(f, "a tile from {rows} rows on"),
            None => f.write_str("no tiles"),
        }
    }
}
