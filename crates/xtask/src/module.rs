//! What is read of a wasm module: whether its exports are wrapped, and what a visit need not download.
//!
//! The dependencies of burn bring static constructors (`inventory`), the fused engine's none. The linker
//! would take a module that does not call `__wasm_call_ctors` itself for a command and wrap
//! every export in a function named `….command_export` that runs all constructors again: a call from
//! JavaScript would cost milliseconds instead of microseconds, and registries grow at each.

use anyhow::{Result, bail};
use wasmparser::{KnownCustom, Name, Parser, Payload};

/// Fails when exports of the module are wrapped, or when its names are gone and nobody could tell.
///
/// `module` is a wasm binary as the linker left it, before bindings are made.
///
/// # Errors
/// When the module is wrapped, has no names, or is no wasm.
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

/// The module without its custom sections (WebAssembly core, 5.5.3): the names of its functions, which
/// only stack traces need.
///
/// # Errors
/// When it is no wasm.
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
        // With its id and length, which stand before it.
        if id != Some(0) {
            kept.extend_from_slice(&module[end..range.end]);
        }
        end = range.end;
    }
    Ok(kept)
}

/// Names of the module's functions, from its `name` section.
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

    /// A module with an empty type section and names for as many functions as given.
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
