//! Checks and rewrites wasm modules: wrapped exports, names that a visit need not download, and
//! instructions that some browsers lack.
//!
//! burn's dependencies bring static constructors (`inventory`); the fused engine has none. If a
//! module does not call `__wasm_call_ctors` itself, the linker takes it for a command and wraps
//! every export in a function `….command_export` that runs all constructors again: a call from
//! JavaScript would take milliseconds instead of microseconds, and registries would grow each time.

use anyhow::{Result, bail};
use wasmparser::{KnownCustom, Name, Operator, Parser, Payload};

/// Fails if exports of the module are wrapped, which the names of its functions show, or if it has
/// no such names.
///
/// `module` is a wasm binary as linked, before bindings are generated.
///
/// # Errors
/// If the module is wrapped, has no names, or is not wasm.
pub fn check_constructors(module: &[u8]) -> Result<()> {
    let names = function_names(module)?;
    if names.is_empty() {
        bail!(
            "the linked module has no function names, so it can't be checked for wrapped exports; \
             build it without `strip = \"symbols\"`"
        );
    }
    let wrapped = names.iter().filter(|n| n.contains("command_export"));
    let (count, first) = (wrapped.clone().count(), wrapped.clone().next());
    if let Some(first) = first {
        bail!(
            "{count} exports are wrapped to run the static constructors at every call (`{first}`); \
             the crate must call `__wasm_call_ctors` once, first thing, at start-up"
        );
    }
    Ok(())
}

/// Removes the custom sections (WebAssembly core, 5.5.3): function names, used only in stack
/// traces.
pub fn without_names(module: &[u8]) -> Result<Vec<u8>> {
    let mut kept = Vec::new();
    let mut end = 0;
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        let (id, range) = match &payload {
            Payload::Version { range, .. } => (None, range.clone()),
            other => match other.as_section() {
                Some((id, range)) => (Some(id), range),
                None => continue,
            },
        };
        // Including the id and length before the section.
        if id != Some(0) {
            kept.extend_from_slice(&module[end..range.end]);
        }
        end = range.end;
    }
    Ok(kept)
}

/// Returns the module for every browser, and for browsers with relaxed SIMD.
///
/// In the former, each dot product of quads, `i32x4.relaxed_dot_i8x16_i7x16_add_s`, is replaced by
/// its first operand; the module detects that and computes without it. In both, `relaxed_min` and
/// `relaxed_max` become `pmin` and `pmax` again: LLVM compiles a whole crate with the features of
/// one of its functions and substitutes these, which take the same operands but treat NaN
/// differently.
///
/// # Errors
/// If it is not wasm, or has another instruction of relaxed SIMD.
pub fn without_and_with_relaxed_simd(module: &[u8]) -> Result<[Vec<u8>; 2]> {
    let mut files = [module.to_vec(), module.to_vec()];
    for payload in Parser::new(0).parse_all(module) {
        let Payload::CodeSectionEntry(body) = payload? else {
            continue;
        };
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            let (operator, at) = operators.read_with_offset()?;
            let bytes = &module[at..operators.original_position()];
            // As long as the original, so that nothing else in the module moves.
            let others: [[u8; 3]; 2] = match (&operator, bytes) {
                // Drops both other operands.
                (Operator::I32x4RelaxedDotI8x16I7x16AddS, &[a, b, c]) => {
                    [[0x1a, 0x1a, 0x01], [a, b, c]]
                }
                (Operator::F32x4RelaxedMin, [_, _, _]) => [[0xfd, 0xea, 0x01]; 2],
                (Operator::F32x4RelaxedMax, [_, _, _]) => [[0xfd, 0xeb, 0x01]; 2],
                // The SIMD prefix, then a relaxed instruction (0x100 and up) in LEB128.
                (_, [0xfd, low, 0x02, ..]) if *low >= 0x80 => {
                    bail!(
                        "nothing is known that could stand in the place of the module's \
                        {operator:?}"
                    )
                }
                _ => continue,
            };
            for (file, other) in files.iter_mut().zip(others) {
                file[at..][..other.len()].copy_from_slice(&other);
            }
        }
    }
    Ok(files)
}

/// Function names from the module's `name` section.
fn function_names(module: &[u8]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        let Payload::CustomSection(section) = payload? else {
            continue;
        };
        let KnownCustom::Name(subsections) = section.as_known() else {
            continue;
        };
        for subsection in subsections {
            if let Name::Function(functions) = subsection? {
                for function in functions {
                    names.push(function?.name.to_owned());
                }
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixed(bytes: &[u8]) -> Vec<u8> {
        assert!(bytes.len() < 128);
        [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    /// Module with an empty type section and the given function names.
    fn module(names: &[&str]) -> Vec<u8> {
        let mut map = vec![u8::try_from(names.len()).unwrap()];
        for (index, name) in names.iter().enumerate() {
            map.push(u8::try_from(index).unwrap());
            map.extend(prefixed(name.as_bytes()));
        }
        let mut section = prefixed(b"name");
        section.extend([0]); // subsection 0: the module's own name
        section.extend(prefixed(&prefixed(b"m")));
        section.extend([1]);
        section.extend(prefixed(&map));
        let mut bytes = b"\0asm\x01\0\0\0\x01\x01\0".to_vec();
        bytes.push(0);
        bytes.extend(prefixed(&section));
        bytes
    }

    #[test]
    fn a_plain_module_passes() {
        let bytes = module(&["draft", "__wasm_call_ctors"]);
        assert_eq!(
            function_names(&bytes).unwrap(),
            ["draft", "__wasm_call_ctors"]
        );
        check_constructors(&bytes).unwrap();
    }

    #[test]
    fn nothing_but_names_is_taken_out() {
        let bytes = module(&["draft", "__wasm_call_ctors"]);
        let bare = without_names(&bytes).unwrap();
        assert_eq!(bare, b"\0asm\x01\0\0\0\x01\x01\0");
        assert_eq!(without_names(&bare).unwrap(), bare);
        assert!(without_names(&bytes[..bytes.len() - 1]).is_err());
        assert!(without_names(b"GGUF").is_err());
    }

    /// Module with one function of three vectors that returns one; `code` follows its operands.
    fn of_vectors(code: &[u8]) -> Vec<u8> {
        let body = [&[0, 0x20, 0, 0x20, 1, 0x20, 2], code, &[0x0b]].concat();
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        bytes.extend(b"\x01\x08\x01\x60\x03\x7b\x7b\x7b\x01\x7b\x03\x02\x01\0\x0a");
        bytes.extend(prefixed(&[&[1], &prefixed(&body)[..]].concat()));
        bytes
    }

    #[test]
    fn of_relaxed_simd_products_of_quads_alone_stay_and_in_one_file() {
        // The same bytes in a number are not a product.
        let number = [0x41, 0xfd, 0x93, 0x02, 0x1a];
        let with = |product: &[u8], least: &[u8], most: &[u8]| {
            let code = [&number, product, &[0x20, 0], least, &[0x20, 1], most];
            of_vectors(&code.concat())
        };
        let linked = with(b"\xfd\x93\x02", b"\xfd\x8d\x02", b"\xfd\x8e\x02");
        let plain = with(b"\x1a\x1a\x01", b"\xfd\xea\x01", b"\xfd\xeb\x01");
        let relaxed = with(b"\xfd\x93\x02", b"\xfd\xea\x01", b"\xfd\xeb\x01");
        let files = without_and_with_relaxed_simd(&linked).unwrap();
        assert_eq!(files, [plain, relaxed]);
        // v128.load, aligned to four bytes.
        let none = of_vectors(b"\x1a\x1a\x1a\x41\0\xfd\0\x02\0");
        let files = without_and_with_relaxed_simd(&none).unwrap();
        assert_eq!(files, [none.clone(), none]);
    }

    #[test]
    fn other_relaxed_simd_is_refused() {
        // f32x4.relaxed_madd
        let other = of_vectors(b"\xfd\x85\x02");
        let error = without_and_with_relaxed_simd(&other).unwrap_err();
        assert!(error.to_string().contains("F32x4RelaxedMadd"), "{error}");
        assert!(without_and_with_relaxed_simd(b"GGUF").is_err());
    }

    #[test]
    fn wrapped_exports_are_refused_with_the_remedy() {
        let error = check_constructors(&module(&["draft", "draft.command_export"])).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("1 exports") && text.contains("__wasm_call_ctors"));
    }

    #[test]
    fn a_module_without_names_does_not_pass_unseen() {
        assert!(check_constructors(b"\0asm\x01\0\0\0").is_err());
        assert!(check_constructors(&module(&[])).is_err());
    }

    #[test]
    fn no_truncated_module_panics() {
        let whole = module(&["draft", "verify"]);
        for length in 0..whole.len() {
            let _ = check_constructors(&whole[..length]);
        }
        assert!(check_constructors(&whole[..whole.len() - 1]).is_err());
        assert!(check_constructors(b"GGUF").is_err());
    }
}
