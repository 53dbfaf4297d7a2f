//! Every format against the `gguf` Python package, bit for bit, and conversions between them.

use conclave_weights::{BlockError, Format, Gguf, convert, dequantise, quantise};

const BLOCKS: &[u8] = include_bytes!("../../../../tests/fixtures/weights/blocks.gguf");

const RANDOM: &[u8] = include_bytes!("../../../../tests/fixtures/weights/random_blocks.gguf");

/// The formats of the random file: all except single IEEE floats and the format that GGUF files
/// lack.
fn block_formats() -> impl Iterator<Item = Format> {
    let floats = [Format::F32, Format::F16];
    Format::ALL
        .into_iter()
        .filter(move |format| !floats.contains(format))
}

/// A tensor's data in a file, and its format.
fn stored(file: &'static [u8], name: &str) -> (Format, &'static [u8]) {
    let gguf = Gguf::parse_whole(file).unwrap();
    let tensor = gguf.tensors().iter().find(|tensor| tensor.name == name);
    let tensor = tensor.unwrap();
    let data = &file[tensor.offset as usize..][..tensor.bytes as usize];
    (tensor.format, data)
}

/// The random blocks of a format.
fn random_blocks(format: Format) -> &'static [u8] {
    let (found, blocks) = stored(RANDOM, format.name());
    assert_eq!(found, format);
    blocks
}

fn dequantised(format: Format, blocks: &[u8]) -> Vec<f32> {
    let elements = blocks.len() / format.block_bytes() * format.block_elements();
    let mut values = vec![f32::NAN; elements];
    dequantise(format, blocks, &mut values).unwrap();
    values
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect()
}

#[test]
fn dequantised_and_quantised_bits_are_the_reference_s() {
    let input = floats(stored(BLOCKS, "input").1);
    assert_eq!(input.len() % 32, 0);
    for format in [Format::F16, Format::BF16, Format::Q8_0, Format::Q4_0] {
        let (found, blocks) = stored(BLOCKS, format.name());
        assert_eq!(found, format);

        let mut written = vec![0; blocks.len()];
        quantise(format, &input, &mut written).unwrap();
        for (number, (ours, reference)) in written
            .chunks(format.block_bytes())
            .zip(blocks.chunks(format.block_bytes()))
            .enumerate()
        {
            assert_eq!(ours, reference, "{format} block {number}");
        }

        let mut values = vec![f32::NAN; input.len()];
        dequantise(format, blocks, &mut values).unwrap();
        let reference = floats(stored(BLOCKS, &format!("{format}.values")).1);
        for (index, (ours, reference)) in values.iter().zip(&reference).enumerate() {
            assert_eq!(
                ours.to_bits(),
                reference.to_bits(),
                "{format} element {index}"
            );
        }
    }
    let mut values = vec![0.0; input.len()];
    dequantise(Format::F32, stored(BLOCKS, "input").1, &mut values).unwrap();
    assert_eq!(values, input);
}

#[test]
fn random_blocks_mean_what_the_reference_says() {
    for format in block_formats() {
        let values = dequantised(format, random_blocks(format));
        let reference = floats(stored(RANDOM, &format!("{format}.values")).1);
        assert_eq!(values.len(), reference.len(), "{format}");
        for (index, (ours, reference)) in values.iter().zip(&reference).enumerate() {
            assert_eq!(
                ours.to_bits(),
                reference.to_bits(),
                "{format} element {index}: {ours} for {reference}"
            );
        }
    }
}

#[test]
fn exact_conversions_keep_every_bit() {
    let mut out = Vec::new();
    for (from, to) in [
        (Format::BF16, Format::F32),
        (Format::Q4K, Format::F32),
        (Format::Q6K, Format::Q6K),
    ] {
        let blocks = random_blocks(from);
        convert(from, blocks, to, &mut out).unwrap();
        let (before, after) = (dequantised(from, blocks), dequantised(to, &out));
        assert!(
            before
                .iter()
                .zip(&after)
                .all(|(before, after)| before.to_bits() == after.to_bits()),
            "{from} to {to}"
        );
        assert_eq!(before.len(), after.len());
    }
    // Every f16 that BF16 can represent, and back.
    for bits in 0..=u16::MAX {
        let value = f32::from_bits(u32::from(bits) << 16);
        if value.abs() >= 2.0_f32.powi(-17) && value.abs() < 65536.0 {
            convert(Format::BF16, &bits.to_le_bytes(), Format::F16, &mut out).unwrap();
            assert_eq!(dequantised(Format::F16, &out), [value]);
        }
    }
}

#[test]
fn other_conversions_come_within_half_a_step() {
    for from in block_formats().filter(|&from| from != Format::BF16) {
        let blocks = random_blocks(from);
        let to = Format::Q8_0;
        // Numbers that Q8_0 can hold, with an f16 scale: MXFP4 reaches 2^130.
        let per_block = from.block_bytes();
        let fits = |block: &&[u8]| {
            let values = dequantised(from, block);
            values
                .iter()
                .all(|value| value.abs() <= 12.0 * 2.0_f32.powi(18))
        };
        let blocks: Vec<u8> = blocks
            .chunks(per_block)
            .filter(fits)
            .flatten()
            .copied()
            .collect();
        assert!(blocks.len() > 4 * per_block, "{from}");
        let mut out = vec![1; 3];
        convert(from, &blocks, to, &mut out).unwrap();
        let (before, after) = (dequantised(from, &blocks), dequantised(to, &out));
        assert_eq!(before.len(), after.len());
        for (before, after) in before.chunks(32).zip(after.chunks(32)) {
            let largest = before
                .iter()
                .fold(0.0_f32, |most, value| most.max(value.abs()));
            // Half a step, and the rounding of the scale to f16, which may be subnormal.
            let near = largest * (0.5 / 127.0 + 2.0_f32.powi(-11)) + 127.0 * 2.0_f32.powi(-25);
            for (before, after) in before.iter().zip(after) {
                assert!(
                    (before - after).abs() <= near,
                    "{from}: {before} became {after}"
                );
            }
        }
    }
}

#[test]
fn conversions_say_what_cannot_be_done() {
    let mut out = Vec::new();
    assert_eq!(
        convert(Format::BF16, &[0; 66], Format::Q8_0, &mut out),
        Err(BlockError::Length {
            format: Format::Q8_0,
            bytes: 66,
            elements: 33
        })
    );
    assert_eq!(
        convert(Format::Q5_0, &[0; 23], Format::Q8_0, &mut out),
        Err(BlockError::Length {
            format: Format::Q5_0,
            bytes: 23,
            elements: 32
        })
    );
    assert_eq!(
        convert(Format::F32, &[0; 1024], Format::Q4K, &mut out),
        Err(BlockError::NoWriter {
            format: Format::Q4K
        })
    );
    // The index of a bad number counts from the first element, beyond the first piece too.
    let mut values = vec![1.0_f32; 4096];
    values[3000] = 1e9;
    let mut bytes = vec![0; 4 * 4096];
    quantise(Format::F32, &values, &mut bytes).unwrap();
    assert_eq!(
        convert(Format::F32, &bytes, Format::F16, &mut out),
        Err(BlockError::Value {
            format: Format::F16,
            index: 3000,
            value: 1e9
        })
    );
}

/// The assumption of makers of random blocks: only the halves can make a number unsound, and each
/// does.
#[test]
fn a_block_is_sound_where_its_halves_are() {
    for format in block_formats().filter(|format| !format.halves().is_empty()) {
        let blocks = random_blocks(format);
        let put = |block: &mut [u8], at: usize, half: u16| {
            block[at..at + 2].copy_from_slice(&half.to_le_bytes());
        };
        for block in blocks.chunks(format.block_bytes()) {
            let mut block = block.to_vec();
            for &at in format.halves() {
                put(&mut block, at, 0x3c00);
            }
            // Largest: an 8-bit scale times a 6-bit quant.
            let sound = |value: &f32| value.abs() <= 128.0 * 64.0;
            assert!(dequantised(format, &block).iter().all(sound), "{format}");
            for &at in format.halves() {
                let mut block = block.clone();
                put(&mut block, at, 0x7e00);
                let spoilt = dequantised(format, &block);
                assert!(spoilt.iter().any(|value| value.is_nan()), "{format} {at}");
            }
        }
    }
}

#[test]
fn every_f16_is_read_and_written_exactly() {
    for bits in 0..=u16::MAX {
        let mut value = [0.0];
        dequantise(Format::F16, &bits.to_le_bytes(), &mut value).unwrap();
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        match exponent {
            31 => assert!(!value[0].is_finite()),
            0 => assert_eq!(f64::from(value[0]), sign * fraction / 1024.0 / 16384.0),
            _ => assert_eq!(
                f64::from(value[0]),
                sign * (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15)
            ),
        }
        if value[0].is_finite() {
            let mut written = [0; 2];
            quantise(Format::F16, &value, &mut written).unwrap();
            assert_eq!(u16::from_le_bytes(written), bits);
        }
    }
}

/// The packing of `Format::grid`, by unpacking blocks that choose each entry in turn.
#[test]
fn grids_are_the_numbers_that_blocks_choose() {
    let (twos, threes) = (&[8, 25, 43][..], &[4, 12, 20, 28, 36, 44, 52, 62][..]);
    let odd = &[1, 3, 5, 7, 9, 11, 13, 15][..];
    for (format, entries, run, levels) in [
        (Format::IQ2XXS, 256, 8, twos),
        (Format::IQ2XS, 512, 8, twos),
        (Format::IQ2S, 1024, 8, twos),
        (Format::IQ3XXS, 256, 4, threes),
        (Format::IQ3S, 512, 4, odd),
    ] {
        let (grid, bits) = (format.grid(), if run == 8 { 2 } else { 3 });
        assert_eq!(grid.len(), entries, "{format}");
        for (number, entry) in grid.iter().enumerate() {
            let mut block = vec![0; format.block_bytes()];
            // The d that makes a step of one from a scale of 0: 8 in IQ2, 4 in IQ3_XXS.
            let d: u16 = match format {
                Format::IQ3S => 0x3c00,
                Format::IQ3XXS => 0x4400,
                _ => 0x4800,
            };
            block[..2].copy_from_slice(&d.to_le_bytes());
            block[2] = number as u8;
            match format {
                Format::IQ2XS => block[3] = (number >> 8) as u8,
                Format::IQ2S | Format::IQ3S => block[66] = (number >> 8) as u8,
                _ => {}
            }
            let values = &dequantised(format, &block)[..run];
            for (at, value) in values.iter().enumerate() {
                let index = usize::from(entry >> (bits * at)) & ((1 << bits) - 1);
                assert_eq!(*value, levels[index] as f32, "{format} {number} {at}");
            }
            assert_eq!(u32::from(*entry) >> (bits * run), 0, "{format} {number}");
        }
    }
    let without = |format: &&Format| format.grid().is_empty();
    assert_eq!(Format::ALL.iter().filter(without).count(), 16);
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let mut out = [0.0; 32];
    for (format, length) in [
        (Format::Q8_0, 33),
        (Format::Q8_0, 68),
        (Format::Q4_0, 17),
        (Format::F16, 63),
    ] {
        let error = dequantise(format, &vec![0; length], &mut out).unwrap_err();
        assert_eq!(
            error,
            BlockError::Length {
                format,
                bytes: length,
                elements: 32
            }
        );
    }
    assert!(dequantise(Format::Q4_0, &[0; 18], &mut [0.0; 31]).is_err());
    assert!(quantise(Format::Q4_0, &[0.0; 33], &mut [0; 18]).is_err());
    assert_eq!(Format::Q4_0.bytes_of(64), Some(36));
    assert_eq!(Format::Q4_0.bytes_of(65), None);
    assert_eq!(Format::F32.bytes_of(usize::MAX), None);
}

#[test]
fn numbers_that_no_block_can_hold_are_errors() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = [1.0; 64];
        values[40] = bad;
        let error = quantise(Format::Q8_0, &values, &mut [0; 68]).unwrap_err();
        assert!(
            matches!(error, BlockError::Value { index: 40, .. }),
            "{error}"
        );
    }
    let mut values = [1.0; 64];
    values[33] = -1e9;
    for (format, bytes) in [(Format::Q8_0, 68), (Format::Q4_0, 36), (Format::F16, 128)] {
        let error = quantise(format, &values, &mut vec![0; bytes]).unwrap_err();
        assert_eq!(
            error,
            BlockError::Value {
                format,
                index: 33,
                value: -1e9
            }
        );
    }
}
