//! Conclave's JavaScript interface; it converts types and errors and does nothing else. The page
//! fetches it as four modules, each of one feature, so that a visit downloads what it uses:
//!
//! - `fused`: the engine of every visit. `web/src/worker/round.ts` drives the rounds by `Engine`,
//!   `Member` and `Rounds`. `ModelFiles` is the page's object through which a model's files are
//!   read by ranges.
//! - `burn`: the open core, an `Engine` whose members run on burn.
//! - `grammar`: the tokens that a member may draw next where an answer is to be a JSON document of
//!   a schema.
//! - `remote`: remote members, and the browser's own language model as a judge.
//!
//! ```js
//! const engine = await Engine.create("webgpu");
//! const member = await engine.load("ada", files, { contextTokens: 2048 }, onProgress);
//! await member.begin([{ role: "user", content: "Hello" }], sampling, 0, onProgress);
//! const { text, ended } = await member.draft(16);
//! ```

//!
//! Members of `fused` and `burn` are one type, `Member`; it also compiles natively, for the test
//! that writes `web/src/protocol/generated.ts`.

#[cfg(all(
    target_family = "wasm",
    feature = "fused",
    any(feature = "burn", feature = "grammar", feature = "remote")
))]
compile_error!("a module has one of the features `fused`, `burn`, `grammar` and `remote`");

#[cfg(all(target_family = "wasm", feature = "burn"))]
mod burn;
#[cfg(feature = "member")]
mod constraint;
#[cfg(feature = "member")]
mod failure;
#[cfg(feature = "member")]
mod files;
#[cfg(all(target_family = "wasm", feature = "fused"))]
mod fused;
#[cfg(all(target_family = "wasm", feature = "grammar"))]
mod grammar;
#[cfg(feature = "member")]
mod load;
#[cfg(feature = "member")]
mod member;
#[cfg(all(target_family = "wasm", feature = "remote"))]
mod remote;
#[cfg(all(target_family = "wasm", feature = "fused"))]
mod rounds;
#[cfg(all(test, feature = "member"))]
mod typescript;

#[cfg(feature = "member")]
pub use self::{
    constraint::Constraint,
    failure::Failure,
    files::ModelFiles,
    load::{Adapter, Choices, Chosen, load},
    member::Member,
};

/// A value as plain objects, as in JSON, with `null` for absent values.
///
/// # Errors
/// Values that JSON cannot represent.
#[cfg(feature = "member")]
pub fn to_js(value: &impl serde::Serialize) -> Result<wasm_bindgen::JsValue, Failure> {
    Ok(value.serialize(&serde_wasm_bindgen::Serializer::json_compatible())?)
}

/// A future on the heap. Its code is in the engine once; otherwise each of the two paths of a
/// promise would hold a copy.
#[cfg(feature = "member")]
pub(crate) fn once<'a, T>(
    future: impl Future<Output = T> + 'a,
) -> std::pin::Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(future)
}
