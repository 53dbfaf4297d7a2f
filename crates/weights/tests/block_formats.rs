//! Both directions of every format against the `gguf` Python package, bit for bit.

use conclave_weights::{BlockError, Format, Gguf, dequantise, quantise};

const BLOCKS: &[u8] = include_bytes!("../../../tests/fixtures/weights/blocks.gguf");

fn bytes<'a>(gguf: &Gguf, name: &str) -> &'a [u8] {
    gguf.data_of(gguf.tensor(name).unwrap(), BLOCKS).unwrap()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect()
}

#[test]
fn dequantised_and_quantised_bits_are_the_reference_s() {
    let gguf = Gguf::parse_whole(BLOCKS).unwrap();
    let input = floats(bytes(&gguf, "input"));
    assert_eq!(input.len() % 32, 0);
    for format in [Format::F16, Format::Q8_0, Format::Q4_0] {
        let blocks = bytes(&gguf, format.name());
        assert_eq!(gguf.tensor(format.name()).unwrap().format, format);

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
        let reference = floats(bytes(&gguf, &format!("{format}.values")));
        for (index, (ours, reference)) in values.iter().zip(&reference).enumerate() {
            assert_eq!(
                ours.to_bits(),
                reference.to_bits(),
                "{format} element {index}"
            );
        }
    }
    let mut values = vec![0.0; input.len()];
    dequantise(Format::F32, bytes(&gguf, "input"), &mut values).unwrap();
    assert_eq!(values, input);
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
