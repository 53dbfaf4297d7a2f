//! Concurrent compilation of pipelines in a browser.
//!
//! `createComputePipeline` compiles where all other GPU work waits for it, the page's drawing too;
//! `createComputePipelineAsync` compiles on other threads, but wgpu calls only the former. So its
//! method is replaced on the browser's device: the first call for a kernel starts an asynchronous
//! compilation, the second returns its result.

use js_sys::{Array, Function, Object, Promise, Reflect};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use crate::Gpu;
use crate::pipelines::Kernel;

const MAKE: &str = "createComputePipeline";
const COMPILE: &str = "createComputePipelineAsync";

/// Builds kernels; returns the refused ones with the browser's message.
pub(crate) async fn build(gpu: &Gpu, kernels: &[Kernel]) -> Vec<(&'static str, String)> {
    let Some(device) = gpu.device().as_webgpu() else {
        return Vec::new();
    };
    let device: &JsValue = device.as_ref();
    // Awaited from the start, all of them: an unhandled rejection would end the worker.
    let asked: Vec<JsFuture> = ask(gpu, device, kernels)
        .into_iter()
        .map(JsFuture::from)
        .collect();
    let mut refused = Vec::new();
    let mut made = Vec::new();
    for (kernel, compiled) in kernels.iter().zip(asked) {
        match compiled.await {
            Ok(pipeline) => made.push((*kernel, pipeline)),
            Err(error) => refused.push((kernel.shader.name, message(&error))),
        }
    }
    for (kernel, pipeline) in made {
        let give = Closure::<dyn FnMut(JsValue) -> JsValue>::new(move |_| pipeline.clone());
        with_replaced(device, give.as_ref(), || gpu.queue().build(kernel));
    }
    refused
}

/// Starts the browser's compilation of these kernels.
fn ask(gpu: &Gpu, device: &JsValue, kernels: &[Kernel]) -> Vec<Promise> {
    let promises = Array::new();
    let compile = Reflect::get(device, &COMPILE.into()).map(JsCast::unchecked_into::<Function>);
    let (asking, its_device) = (promises.clone(), device.clone());
    let ask = Closure::<dyn FnMut(JsValue) -> JsValue>::new(move |descriptor: JsValue| {
        let asked = compile.as_ref().map_err(JsValue::clone);
        let promise = asked.and_then(|compile| compile.call1(&its_device, &descriptor));
        asking.push(&promise.unwrap_or_else(|error| Promise::reject(&error).into()));
        // Placeholder for a pipeline that is dropped unused.
        Object::new().into()
    });
    with_replaced(device, ask.as_ref(), || {
        for &kernel in kernels {
            gpu.queue().make(kernel);
        }
    });
    promises.iter().map(JsCast::unchecked_into).collect()
}

/// Calls `act` while wgpu's calls for pipelines go to `instead`.
fn with_replaced(device: &JsValue, instead: &JsValue, act: impl FnOnce()) {
    // A platform object that accepts no property is left as it is.
    let placed = Reflect::set(device, &MAKE.into(), instead);
    act();
    if placed == Ok(true) {
        let _ = Reflect::delete_property::<Object>(device.unchecked_ref(), &MAKE.into());
    }
}

fn message(error: &JsValue) -> String {
    match error.dyn_ref::<js_sys::Error>() {
        Some(error) => error.message().into(),
        None => format!("{error:?}"),
    }
}
