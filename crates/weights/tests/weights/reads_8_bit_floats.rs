//! 8-bit floats and their scales in safetensors folders, against numbers that
//! `tests/fixtures/make_weights_fixtures.py` made with `ml_dtypes`, and the cases that are refused.

use crate::fixture::{Files, files, open, read};
use conclave_weights::{
    BlockError, Checkpoint, CheckpointError, Format, Memory, convert, dequantise,
};
use pollster::block_on;

/// Tensors of a safetensors file made here: name, dtype, shape, bytes.
type Made<'a> = [(&'a str, &'a str, &'a [u64], Vec<u8>)];

const BLOCKS: &str = r#"{"quant_method": "fp8", "weight_block_size": [2, 3]}"#;

fn folder(settings: &str, tensors: &Made<'_>) -> Files {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        header.insert(
            (*name).to_owned(),
            serde_json::json!({
                "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()],
            }),
        );
    }
    let header = serde_json::to_vec(&header).unwrap();
    let length = (header.len() as u64).to_le_bytes();
    let config = format!("{{\"quantization_config\": {settings}}}");
    vec![
        ("config.json".to_owned(), config.into_bytes()),
        (
            "model.safetensors".to_owned(),
            [&length[..], &header, &data].concat(),
        ),
    ]
}

fn floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// The numbers of a matrix `[4, 6]` of ones (0x38) beside `scales`.
fn opened(settings: &str, scales: &Made<'_>) -> Result<Vec<f32>, CheckpointError> {
    let matrix = [("w", "F8_E4M3", &[4, 6][..], vec![0x38; 24])];
    let source = Memory::new(folder(settings, &[&matrix[..], scales].concat()));
    let checkpoint = block_on(Checkpoint::open(&source))?;
    assert!(checkpoint.has("w"));
    let tensor = checkpoint.tensor("w")?;
    let mut bytes = Vec::new();
    block_on(checkpoint.read_rows(&source, tensor, 0..4, &mut bytes))?;
    let mut values = vec![0.0; 24];
    dequantise(tensor.read_as(), &bytes, &mut values).unwrap();
    Ok(values)
}

#[test]
fn scales_of_every_shape_are_multiplied_in() {
    let mut seen = 0;
    for name in ["fp8", "compressed"] {
        let source = Memory::new(files(name, ""));
        let checkpoint = block_on(Checkpoint::open(&source)).unwrap();
        assert!(checkpoint.unreadable().is_empty());
        for tensor in checkpoint.tensors() {
            let Some(stem) = tensor.name.strip_suffix(".weight") else {
                assert!(tensor.scales.is_none());
                continue;
            };
            if stem == "norm" {
                assert_eq!((tensor.read_as(), &tensor.scales), (Format::BF16, &None));
                continue;
            }
            seen += 1;
            assert_eq!(
                (tensor.format, tensor.read_as()),
                (Format::F8E4M3, Format::F32)
            );
            let of_package = checkpoint.tensor(&format!("{stem}.values")).unwrap();
            let of_package = read(&checkpoint, &source, of_package);
            let bits = |values: &[f32]| -> Vec<Option<u32>> {
                let bits = |value: &f32| (!value.is_nan()).then_some(value.to_bits());
                values.iter().map(bits).collect()
            };
            let whole = bits(&read(&checkpoint, &source, tensor));
            assert_eq!(whole, bits(&of_package), "{name} {stem}");
            // Rows read alone equal those of the whole.
            let (cols, mut bytes) = (tensor.cols() as usize, vec![1; 7]);
            for start in 0..=tensor.rows() {
                for end in [start, start + 1, start + 3, tensor.rows()] {
                    let end = end.clamp(start, tensor.rows());
                    block_on(checkpoint.read_rows(&source, tensor, start..end, &mut bytes))
                        .unwrap();
                    let mut values = vec![0.0; bytes.len() / 4];
                    dequantise(Format::F32, &bytes, &mut values).unwrap();
                    let wanted = &whole[start as usize * cols..end as usize * cols];
                    assert_eq!(bits(&values), wanted, "{name} {stem} {start}..{end}");
                }
            }
            let beyond = 0..tensor.rows() + 1;
            let beyond = block_on(checkpoint.read_rows(&source, tensor, beyond, &mut bytes));
            assert!(matches!(beyond, Err(CheckpointError::Rows { .. })));
        }
    }
    assert_eq!(seen, 9);
}

#[test]
fn every_float_is_what_the_package_says_and_nan_is_kept_nowhere() {
    let source = Memory::new(files("fp8", ""));
    let checkpoint = block_on(Checkpoint::open(&source)).unwrap();
    let every = read(
        &checkpoint,
        &source,
        checkpoint.tensor("every.values").unwrap(),
    );
    let bytes: Vec<u8> = (0..=255).collect();
    let mut values = [0.0; 256];
    dequantise(Format::F8E4M3, &bytes, &mut values).unwrap();
    for (bits, (ours, halved)) in values.iter().zip(&every).enumerate() {
        let nan = matches!(bits, 0x7f | 0xff);
        assert_eq!((ours.is_nan(), halved.is_nan()), (nan, nan), "{bits}");
        assert!(nan || (ours / 2.0).to_bits() == halved.to_bits(), "{bits}");
    }
    let mut out = Vec::new();
    for to in [Format::Q8_0, Format::F16] {
        let error = convert(Format::F8E4M3, &bytes, to, &mut out).unwrap_err();
        assert!(
            matches!(error, BlockError::Value { index: 0x7f, format, .. } if format == to),
            "{error}"
        );
    }
    // Every other one is an f16.
    let finite = [&bytes[..0x7f], &bytes[0x80..0xff]].concat();
    convert(Format::F8E4M3, &finite, Format::F16, &mut out).unwrap();
    let mut halves = vec![0.0; finite.len()];
    dequantise(Format::F16, &out, &mut halves).unwrap();
    assert_eq!(halves, [&values[..0x7f], &values[0x80..0xff]].concat());
    assert_eq!(Format::F8E4M3.ggml_type(), None);
}

#[test]
fn blocks_are_counted_from_the_first_row_and_column() {
    let scales = floats(&[1.0, 2.0, 3.0, 4.0]);
    for (dtype, ending) in [("F8_E4M3", "_scale_inv"), ("F8_E4M3FN", "_scale")] {
        let name = format!("w{ending}");
        let source = Memory::new(folder(
            BLOCKS,
            &[
                ("w", dtype, &[4, 6], vec![0x38; 24]),
                (&name, "F32", &[2, 2], scales.clone()),
            ],
        ));
        let checkpoint = block_on(Checkpoint::open(&source)).unwrap();
        let tensor = checkpoint.tensor("w").unwrap();
        let (top, bottom) = (
            [1.0, 1.0, 1.0, 2.0, 2.0, 2.0],
            [3.0, 3.0, 3.0, 4.0, 4.0, 4.0],
        );
        assert_eq!(
            read(&checkpoint, &source, tensor),
            [top, top, bottom, bottom].concat()
        );
        assert_eq!(tensor.bytes / tensor.rows(), 6);
    }
}

#[test]
fn scales_that_do_not_fit_are_named() {
    let problem = |settings: &str, scales: &Made<'_>| match opened(settings, scales).unwrap_err() {
        CheckpointError::Scales { tensor, problem } => {
            assert_eq!(tensor, "w");
            problem
        }
        error => panic!("{error}"),
    };
    let of = |shape: &'static [u64]| {
        let count = shape.iter().product::<u64>() as usize;
        [("w_scale", "F32", shape, floats(&vec![1.0; count]))]
    };
    for good in [&[][..], &[1], &[1, 1], &[4, 1], &[2, 2]] {
        assert_eq!(opened(BLOCKS, &of(good)).unwrap(), [1.0; 24], "{good:?}");
    }
    for shape in [
        &[2][..],
        &[4],
        &[1, 4],
        &[1, 6],
        &[2, 3],
        &[3, 2],
        &[4, 6],
        &[2, 2, 1],
    ] {
        let problem = problem(BLOCKS, &of(shape));
        assert!(
            problem.contains(&format!("{shape:?} (`w_scale`)")),
            "{problem}"
        );
    }
    assert!(problem(BLOCKS, &of(&[1, 0])).contains("stored as F32 (`w_scale`)"));
    assert!(problem(BLOCKS, &[]).contains("no scales, `w_scale_inv` or `w_scale`"));
    assert!(
        problem(
            BLOCKS,
            &[of(&[1]), [("w_scale_inv", "F32", &[1], floats(&[1.0]))]].concat()
        )
        .contains("two scales")
    );
    let points = [("w_zero_point", "F32", &[1][..], floats(&[1.0]))];
    assert!(problem(BLOCKS, &[of(&[1]), points].concat()).contains("`w_zero_point`"));
    for (dtype, bytes) in [("F8_E8M0", 1), ("U8", 1), ("F64", 8)] {
        let problem = problem(BLOCKS, &[("w_scale", dtype, &[1], vec![0; bytes])]);
        assert!(problem.contains(&format!("stored as {dtype}")), "{problem}");
    }
    assert!(problem(BLOCKS, &[("w_scale", "F8_E4M3", &[1, 1], vec![0])]).contains("`w_scale`"));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let problem = problem(
            BLOCKS,
            &[("w_scale", "F32", &[2, 2], floats(&[1.0, 1.0, bad, 1.0]))],
        );
        assert!(
            problem.contains(&format!("a scale of {bad} (`w_scale`)")),
            "{problem}"
        );
    }
    for size in [
        "2",
        "[2]",
        "[2, 3, 4]",
        "\"2\"",
        "[0, 3]",
        "[2, -3]",
        "[2.5, 3]",
        "[2, null]",
    ] {
        let settings = format!(r#"{{"quant_method": "fp8", "weight_block_size": {size}}}"#);
        assert!(
            problem(&settings, &of(&[2, 2])).contains("config.json"),
            "{size}"
        );
    }
    for size in [
        "null",
        "[18446744073709551615, 1]",
        "[1, 18446744073709551615]",
    ] {
        let settings = format!(r#"{{"quant_method": "fp8", "weight_block_size": {size}}}"#);
        assert!(
            problem(&settings, &of(&[2, 2])).contains("[2, 2] (`w_scale`)"),
            "{size}"
        );
        assert!(opened(&settings, &of(&[4, 1])).is_ok());
    }
    let groups = r#"{"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups":
        {"a": {"weights": {"block_structure": [2, 3]}}, "b": {"weights": {"block_structure": [3, 2]}}}}"#;
    assert!(problem(groups, &of(&[2, 2])).contains("no one size"));
    // Matrices alone have scales.
    for shape in [&[24][..], &[2, 2, 6], &[]] {
        let count = shape.iter().product::<u64>() as usize;
        let vector = [
            ("w", "F8_E4M3", shape, vec![0x38; count]),
            of(&[1])[0].clone(),
        ];
        let checkpoint = open(folder(BLOCKS, &vector)).unwrap();
        let error = checkpoint.tensor("w").unwrap_err();
        assert!(matches!(error, CheckpointError::Scales { .. }), "{error}");
    }
}

#[test]
fn other_floats_and_methods_are_refused_by_name() {
    let scale = [("w_scale", "F32", &[1][..], floats(&[1.0]))];
    for dtype in ["F8_E5M2", "F8_E4M3FNUZ", "F8_E8M0", "F8"] {
        let tensors = [("w", dtype, &[4, 6][..], vec![0; 24]), scale[0].clone()];
        assert_eq!(
            open(folder(BLOCKS, &tensors))
                .unwrap()
                .tensor("w")
                .unwrap_err(),
            CheckpointError::Dtype {
                tensor: "w".to_owned(),
                dtype: dtype.to_owned()
            }
        );
    }
    for (settings, method) in [
        ("null", None),
        (r#"{"quant_method": "fbgemm_fp8"}"#, Some("fbgemm_fp8")),
        ("{}", Some("an unnamed method")),
        ("\"fp8\"", Some("an unnamed method")),
        (
            r#"{"quant_method": "compressed-tensors", "format": "pack-quantized"}"#,
            Some("compressed-tensors (pack-quantized)"),
        ),
        (
            r#"{"quant_method": "compressed-tensors", "format": "float-quantized",
                "transform_config": {"config_groups": {"R1": {}}}}"#,
            Some("compressed-tensors with transforms"),
        ),
    ] {
        let error = opened(settings, &scale).unwrap_err();
        assert!(
            matches!(&error, CheckpointError::Dtype { dtype, .. } if dtype == "F8_E4M3"),
            "{settings}: {error}"
        );
        let error = open(folder(settings, &scale))
            .unwrap()
            .tensor("x")
            .unwrap_err();
        match method {
            Some(method) => assert_eq!(
                error,
                CheckpointError::Quantised {
                    tensor: "x".to_owned(),
                    method: method.to_owned()
                }
            ),
            None => assert!(matches!(error, CheckpointError::MissingTensor { .. })),
        }
    }
    for settings in [
        BLOCKS,
        r#"{"quant_method": "fp8"}"#,
        r#"{"quant_method": "compressed-tensors", "format": "naive-quantized", "transform_config": {}}"#,
    ] {
        assert_eq!(opened(settings, &scale).unwrap(), [1.0; 24], "{settings}");
        let error = open(folder(settings, &scale))
            .unwrap()
            .tensor("x")
            .unwrap_err();
        assert!(
            matches!(error, CheckpointError::MissingTensor { .. }),
            "{error}"
        );
    }
}
