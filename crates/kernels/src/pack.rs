//! Repacks GGUF's blocks into planes at load: bits move, numbers do not change.

use conclave_weights::Format;
use conclave_weights::quantised::{Plane, RUN, RunPart};

/// Splits whole blocks: appends their bytes of each plane to `planes`.
pub(crate) fn pack(format: Format, blocks: &[u8], planes: &mut [Vec<u8>]) {
    if format.planes().is_empty() {
        planes[0].extend_from_slice(blocks);
    }
    for block in blocks.chunks_exact(format.block_bytes()) {
        for (plane, of) in planes.iter_mut().zip(format.planes()) {
            match of {
                Plane::Stored(parts) => {
                    for &(from, bytes) in *parts {
                        plane.extend_from_slice(&block[from..][..bytes]);
                    }
                }
                Plane::Runs(parts) => {
                    for run in 0..format.block_elements() / RUN {
                        for &part in *parts {
                            pack_part(format, block, run, part, plane);
                        }
                    }
                }
            }
        }
    }
}

fn pack_part(format: Format, block: &[u8], run: usize, part: RunPart, plane: &mut Vec<u8>) {
    let codes = || format.codes(block, run);
    match part {
        RunPart::Stored(from, bytes) => {
            plane.extend_from_slice(&block[from + run * bytes..][..bytes]);
        }
        RunPart::Nibbles => {
            let codes = codes();
            let (low, high) = codes.split_at(RUN / 2);
            plane.extend(low.iter().zip(high).map(|(low, high)| low & 15 | high << 4));
        }
        RunPart::Twos(up) => {
            let codes = codes().map(|code| code >> up & 3);
            plane.extend((0..RUN / 4).map(|i| {
                let first = 16 * (i / 4) + i % 4;
                (0..4).fold(0, |byte, j| byte | codes[first + 4 * j] << (2 * j))
            }));
        }
        RunPart::Ones(up) => {
            let codes = codes().map(|code| code >> up & 1);
            plane.extend(
                (0..RUN / 8).map(|k| (0..8).fold(0, |byte, q| byte | codes[4 * q + k] << q)),
            );
        }
    }
}
