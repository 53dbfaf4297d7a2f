//! Pipelines in a browser, compiled side by side.
//!
//! What `createComputePipeline` gives is compiled where everything else of the GPU waits for it,
//! the page's picture too; `createComputePipelineAsync` compiles on other threads. wgpu calls the
//! former only. So it is given the browser's own objects: at its first call for a kernel the
//! browser is asked to compile, at its second it gets what that made.

use js_sys::{Array, Function, Object, Promise, Reflect};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use crate::Gpu;
use crate::pipelines::Kernel;

const MAKE: &str = "createComputePipeline";
const COMPILE: &str = "createComputePipelineAsync";

/// Builds kernels; those that were refused, and what the browser said.
pub(crate) async fn build(gpu: &Gpu, kernels: &[Kernel]) -> Vec<(&'static str, String)> {
    let Some(device) = gpu.device().as_webgpu() else {
        return Vec::new();
    };
    let device: &JsValue = device.as_ref();
    // Heard from the start, all of them: a refusal that nobody waits for would be the worker's end.
    let asked: Vec<JsFuture> = ask(gpu, device, kernels)
        .into_iter()
        .map(JsFuture::from)
        .collect();
    let mut refused = Vec::new();
    let mut made = Vec::new();
    for (kernel, compiled) in kernels.iter().zip(asked) {
        match compiled.await {
            Ok(pipeline) => made.push((*kernel, pipeline)),
            Err(error) => refused.push((kernel.shader.name, told(&error))),
        }
    }
    for (kernel, pipeline) in made {
        let give = Closure::<dyn FnMut(JsValue) -> JsValue>::new(move |_| pipeline.clone());
        in_place(device, give.as_ref(), || gpu.queue().build(kernel));
    }
    refused
}

/// Has the browser compile these kernels.
fn ask(gpu: &Gpu, device: &JsValue, kernels: &[Kernel]) -> Vec<Promise> {
    let promises = Array::new();
    let compile = Reflect::get(device, &COMPILE.into()).map(JsCast::unchecked_into::<Function>);
    let (asking, its_device) = (promises.clone(), device.clone());
    let ask = Closure::<dyn FnMut(JsValue) -> JsValue>::new(move |descriptor: JsValue| {
        let asked = compile.as_ref().map_err(JsValue::clone);
        let promise = asked.and_then(|compile| compile.call1(&its_device, &descriptor));
        asking.push(&promise.unwrap_or_else(|error| Promise::reject(&error).into()));
        // Stands for a pipeline that is dropped without a look at it.
        Object::new().into()
    });
    in_place(device, ask.as_ref(), || {
        for &kernel in kernels {
            gpu.queue().make(kernel);
        }
    });
    promises.iter().map(JsCast::unchecked_into).collect()
}

/// Does something while wgpu's calls for pipelines go to `instead`.
fn in_place(device: &JsValue, instead: &JsValue, act: impl FnOnce()) {
    // An object of the platform that takes no property does as if nothing were.
    let placed = Reflect::set(device, &MAKE.into(), instead);
    act();
    if placed == Ok(true) {
        let _ = Reflect::delete_property::<Object>(device.unchecked_ref(), &MAKE.into());
    }
}

fn told(error: &JsValue) -> String {
    match error.dyn_ref::<js_sys::Error>() {
        Some(error) => error.message().into(),
        None => format!("{error:?}"),
    }
}
