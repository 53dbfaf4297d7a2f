//! A larger stack for grammars than the default 1 MiB: llguidance recurses into a schema's parts
//! and references.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let in_browser = env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm");
    if in_browser && env::var_os("CARGO_FEATURE_GRAMMAR").is_some() {
        println!("cargo::rustc-link-arg-cdylib=-z");
        println!("cargo::rustc-link-arg-cdylib=stack-size=4194304");
    }
}
