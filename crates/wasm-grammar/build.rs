//! A larger stack than the default 1 MiB: llguidance recurses into a schema's parts and references.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo::rustc-link-arg-cdylib=-z");
        println!("cargo::rustc-link-arg-cdylib=stack-size=4194304");
    }
}
