//! Joins concurrent reads of buffers into one. A read costs a wait, whatever its bytes, and members
//! that draft or verify concurrently need their results at the same time.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::{Buffer, Gpu, GpuError};

/// Yields to every other ready task.
#[cfg(not(all(target_family = "wasm", target_feature = "atomics")))]
pub(crate) async fn yield_now() {
    futures_lite::future::yield_now().await;
}

/// Yields to every other ready task. The executor of shared memory polls tasks that wake themselves
/// at once, whereas a promise of JavaScript queues after all that are ready.
#[cfg(all(target_family = "wasm", target_feature = "atomics"))]
pub(crate) async fn yield_now() {
    let promise = js_sys::Promise::resolve(&wasm_bindgen::JsValue::UNDEFINED);
    // The promise never rejects.
    _ = wasm_bindgen_futures::JsFuture::from(promise).await;
}

/// Buffers that are read together.
#[derive(Debug, Default)]
pub(crate) struct Batch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    wanted: Vec<Buffer>,
    bytes: usize,
    stage: Stage,
    wakers: Vec<Waker>,
}

#[derive(Debug, Default)]
enum Stage {
    /// Open: more reads may join.
    #[default]
    Open,
    /// The GPU copies into memory that the CPU maps.
    Started(Buffer),
    /// The memory is mapped, or failed to map.
    Mapped(Buffer, Result<(), String>),
    /// Every reader takes its part.
    Read(Result<Arc<Vec<u8>>, GpuError>),
}

impl Batch {
    /// Adds buffers; returns the offset of the first.
    pub fn join(&self, buffers: &[&Buffer]) -> usize {
        let mut state = self.lock();
        let at = state.bytes;
        state.bytes += buffers.iter().map(|buffer| buffer.bytes()).sum::<usize>();
        state
            .wanted
            .extend(buffers.iter().map(|&buffer| buffer.clone()));
        at
    }

    /// Starts the read unless another reader has.
    pub fn start(self: &Arc<Self>, gpu: &Gpu) -> Result<(), GpuError> {
        let mut state = self.lock();
        if !matches!(state.stage, Stage::Open) {
            return Ok(());
        }
        let wanted = std::mem::take(&mut state.wanted);
        let (staging, index) = gpu.copy_out(&wanted.iter().collect::<Vec<_>>());
        state.stage = Stage::Started(staging.clone());
        let bytes = state.bytes as u64;
        drop(state);
        let batch = self.clone();
        let mapped = move |result: Result<(), wgpu::BufferAsyncError>| {
            let result = result.map_err(|error| error.to_string());
            batch.settle(|staging| Stage::Mapped(staging, result));
        };
        let range = staging.raw().slice(..bytes);
        range.map_async(wgpu::MapMode::Read, mapped);
        // After a failed wait the memory may never be mapped.
        gpu.poll(index)
            .inspect_err(|error| self.settle(|_| Stage::Read(Err(error.clone()))))
    }

    /// Gives all readers the outcome, unless they have one.
    fn settle(&self, to: impl FnOnce(Buffer) -> Stage) {
        let mut state = self.lock();
        if let Stage::Started(staging) = &state.stage {
            state.stage = to(staging.clone());
        }
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for all bytes.
    pub async fn finish(&self, gpu: &Gpu) -> Result<Arc<Vec<u8>>, GpuError> {
        poll_fn(|context| {
            let mut state = self.lock();
            match std::mem::take(&mut state.stage) {
                Stage::Mapped(staging, result) => {
                    let read = gpu.take_mapped(staging, state.bytes, result).map(Arc::new);
                    state.stage = Stage::Read(read.clone());
                    Poll::Ready(read)
                }
                Stage::Read(read) => {
                    state.stage = Stage::Read(read.clone());
                    Poll::Ready(read)
                }
                waiting => {
                    state.stage = waiting;
                    state.wakers.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
