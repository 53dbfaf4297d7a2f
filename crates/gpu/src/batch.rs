//! Reads that are asked for at the same time are one read: a wait costs the wait, not the bytes,
//! and members that draft or verify side by side need theirs together.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::{Buffer, Gpu, GpuError};

/// Lets every other task that is ready run first.
#[cfg(not(all(target_family = "wasm", target_feature = "atomics")))]
pub(crate) async fn others_first() {
    futures_lite::future::yield_now().await;
}

/// Lets every other task that is ready run first. The executor of shared memory polls at once what
/// wakes itself; a promise of JavaScript comes behind all that are ready.
#[cfg(all(target_family = "wasm", target_feature = "atomics"))]
pub(crate) async fn others_first() {
    let promise = js_sys::Promise::resolve(&wasm_bindgen::JsValue::UNDEFINED);
    // It can't be refused.
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
    /// More may join.
    #[default]
    Open,
    /// The GPU copies into memory that the CPU maps.
    Started(Buffer),
    /// That is mapped, or could not be.
    Mapped(Buffer, Result<(), String>),
    /// Every reader takes its part.
    Read(Result<Arc<Vec<u8>>, GpuError>),
}

impl Batch {
    /// Joins; says where the first of these buffers begins.
    pub fn join(&self, buffers: &[&Buffer]) -> usize {
        let mut state = self.lock();
        let at = state.bytes;
        state.bytes += buffers.iter().map(|buffer| buffer.bytes()).sum::<usize>();
        state
            .wanted
            .extend(buffers.iter().map(|&buffer| buffer.clone()));
        at
    }

    /// Starts the read, unless another reader has.
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
        // A wait that fails may never come to map.
        gpu.poll(index)
            .inspect_err(|error| self.settle(|_| Stage::Read(Err(error.clone()))))
    }

    /// Tells all readers what became of the read, unless they know.
    fn settle(&self, to: impl FnOnce(Buffer) -> Stage) {
        let mut state = self.lock();
        if let Stage::Started(staging) = &state.stage {
            state.stage = to(staging.clone());
        }
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for all of the bytes.
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
