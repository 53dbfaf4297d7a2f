//! The order of the GPU's work: launches, writes and copies, and their submission.
//!
//! Launches collect in one compute pass. It is submitted when it is long enough, when results are
//! wanted, or when the CPU writes to a buffer that it uses: writes take effect before the next
//! submit.

use std::sync::Arc;

use crate::bindings::{Bindings, Pipeline, STORAGE_BUFFERS};
use crate::buffer::{ALIGNMENT, Ledger};
use crate::launch::{Shader, Use};
use crate::pipelines::Kernel;
use crate::{Buffer, GpuCounters, GpuError};

/// Launches of the first submit after the GPU went idle, few so that it begins early.
const FIRST: u32 = 32;

/// Launches of later submits.
const LATER: u32 = 64;

/// The open compute pass.
struct Open {
    // Dropped first, which ends it.
    pass: wgpu::ComputePass<'static>,
    encoder: wgpu::CommandEncoder,
    /// The current pipeline.
    pipeline: Pipeline,
}

pub(crate) struct Queue {
    device: wgpu::Device,
    queue: wgpu::Queue,
    ledger: Arc<Ledger>,
    bindings: Bindings,
    open: Option<Open>,
    /// Number of launches in the open pass.
    waiting: u32,
    /// Whether the GPU has had work since the last wait.
    busy: bool,
    /// Whether written bytes wait for a submit.
    written: bool,
    counters: GpuCounters,
    /// Reusable memory for results.
    staging: Vec<Buffer>,
}

impl Queue {
    pub fn new(device: wgpu::Device, queue: wgpu::Queue, ledger: Arc<Ledger>) -> Self {
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let params = create(&device, &ledger, Bindings::PARAMS_BYTES, usage);
        Self {
            device,
            queue,
            ledger,
            bindings: Bindings::new(params),
            open: None,
            waiting: 0,
            busy: false,
            written: false,
            counters: GpuCounters::default(),
            staging: Vec::new(),
        }
    }

    pub fn counters(&self) -> GpuCounters {
        GpuCounters {
            buffers: self.ledger.opened(),
            bind_groups: self.bindings.groups_made,
            pipelines: self.bindings.pipelines_made,
            ..self.counters
        }
    }

    /// A buffer for kernels with unspecified content.
    pub fn storage(&self, bytes: usize) -> Buffer {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        create(&self.device, &self.ledger, bytes, usage)
    }

    /// Makes the pipeline of a kernel, for its launches.
    pub fn build(&mut self, kernel: Kernel) {
        let Kernel { shader, kinds } = kernel;
        self.bindings.pipeline_of(&self.device, shader, kinds);
    }

    /// Whether its pipeline exists.
    pub fn has_built(&self, kernel: Kernel) -> bool {
        self.bindings.has_pipeline(kernel.shader, kernel.kinds)
    }

    /// Compiles a kernel's pipeline without caching it.
    #[cfg(target_family = "wasm")]
    pub fn make(&mut self, kernel: Kernel) {
        let Kernel { shader, kinds } = kernel;
        self.bindings.make(&self.device, shader, kinds);
    }

    /// Device objects of launches.
    #[cfg(feature = "faults")]
    pub fn bindings(&mut self) -> &mut Bindings {
        &mut self.bindings
    }

    /// Queues a launch with checked arguments; submits if enough is queued.
    pub fn run(
        &mut self,
        shader: &'static Shader,
        buffers: &[Use<'_>],
        params: &[u8],
        [x, y, z]: [u32; 3],
    ) -> Result<(), GpuError> {
        if buffers.len() > STORAGE_BUFFERS {
            return Err(GpuError::shape(shader.name, "more than eight buffers"));
        }
        if let Some(used) =
            (buffers.iter()).find(|used| !used.buffer().at().is_multiple_of(ALIGNMENT))
        {
            return Err(GpuError::shape(
                shader.name,
                format!(
                    "a part that begins at byte {}; parts begin at multiples of {ALIGNMENT}",
                    used.buffer().at()
                ),
            ));
        }
        if self.bindings.ends_slots(params) {
            self.submit();
        }
        let pipeline = self.bindings.pipeline(&self.device, shader, buffers);
        let group = self.bindings.group(&self.device, buffers);
        let slot = self.bindings.slot(&self.queue, shader.name, params)?;
        let open = match &mut self.open {
            Some(open) => {
                if !Arc::ptr_eq(&open.pipeline, &pipeline) {
                    open.pass.set_pipeline(&pipeline);
                    open.pipeline = pipeline;
                }
                open
            }
            none => {
                self.counters.passes += 1;
                let mut encoder = self
                    .device
                    .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                let pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                let mut pass = pass.forget_lifetime();
                pass.set_pipeline(&pipeline);
                none.insert(Open {
                    pass,
                    encoder,
                    pipeline,
                })
            }
        };
        open.pass.set_bind_group(0, &*group, &[slot]);
        open.pass.dispatch_workgroups(x, y, z);
        self.counters.dispatches += 1;
        self.waiting += 1;
        for used in buffers {
            used.buffer().mark(self.ledger.submit());
        }
        if self.waiting >= if self.busy { LATER } else { FIRST } {
            self.submit();
        }
        Ok(())
    }

    /// Submits everything queued.
    pub fn submit(&mut self) -> Option<wgpu::SubmissionIndex> {
        self.submit_with(&[], None)
    }

    /// Submits everything queued, followed by copies of these buffers, concatenated, into
    /// `staging`.
    fn submit_with(
        &mut self,
        buffers: &[&Buffer],
        staging: Option<&Buffer>,
    ) -> Option<wgpu::SubmissionIndex> {
        let mut encoder = self.open.take().map(|Open { pass, encoder, .. }| {
            drop(pass);
            encoder
        });
        if let Some(staging) = staging {
            let encoder = encoder.get_or_insert_with(|| {
                self.device
                    .create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
            });
            let mut at = 0;
            for buffer in buffers {
                let (from, bytes) = (buffer.at() as u64, buffer.bytes() as u64);
                encoder.copy_buffer_to_buffer(buffer.raw(), from, staging.raw(), at, bytes);
                at += bytes;
            }
        }
        // Natively written bytes wait in separate memory until the next submit.
        let flush = cfg!(not(target_family = "wasm")) && self.written;
        if encoder.is_none() && !flush {
            return None;
        }
        self.counters.submits += u64::from(encoder.is_some());
        let index = self.queue.submit(encoder.map(wgpu::CommandEncoder::finish));
        self.waiting = 0;
        self.busy = true;
        self.written = false;
        let gone = self.ledger.submitted();
        for buffer in gone.queued {
            buffer.destroy();
        }
        self.bindings.forget(&gone.ids);
        Some(index)
    }

    /// Overwrites bytes of a buffer, after all queued work.
    pub fn write(&mut self, buffer: &Buffer, at: usize, data: &[u8]) {
        if buffer.waits_for(self.ledger.submit()) {
            self.submit();
        }
        self.counters.writes += 1;
        self.written = true;
        let at = (buffer.at() + at) as u64;
        self.queue.write_buffer(buffer.raw(), at, data);
    }

    /// Queues a copy between buffers.
    pub fn copy(
        &mut self,
        (from, at): (&Buffer, usize),
        (to, into): (&Buffer, usize),
        bytes: usize,
    ) {
        // Copies are between passes: this ends the open one.
        self.submit();
        let mut encoder = self
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let (at, into) = ((from.at() + at) as u64, (to.at() + into) as u64);
        encoder.copy_buffer_to_buffer(from.raw(), at, to.raw(), into, bytes as u64);
        self.queue.submit([encoder.finish()]);
        self.counters.submits += 1;
    }

    /// Submits everything, with copies of these buffers, concatenated, into mappable memory.
    pub fn copy_out(&mut self, buffers: &[&Buffer]) -> (Buffer, Option<wgpu::SubmissionIndex>) {
        let total = buffers.iter().map(|buffer| buffer.bytes()).sum();
        let staging = self.take_staging(total);
        let index = self.submit_with(buffers, Some(&staging));
        self.counters.read_backs += 1;
        self.counters.read_back_bytes += total as u64;
        self.busy = false;
        (staging, index)
    }

    /// Submits everything; calls `done` when the GPU has run it.
    pub fn finish(
        &mut self,
        done: impl FnOnce() + Send + 'static,
    ) -> Option<wgpu::SubmissionIndex> {
        let index = self.submit();
        self.counters.read_backs += 1;
        self.busy = false;
        self.queue.on_submitted_work_done(done);
        index
    }

    /// Mappable memory of at least that size.
    fn take_staging(&mut self, bytes: usize) -> Buffer {
        let fits = |staging: &Buffer| staging.bytes() >= bytes;
        if let Some(at) = self.staging.iter().position(fits) {
            return self.staging.swap_remove(at);
        }
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let bytes = bytes.next_power_of_two().max(4096);
        create(&self.device, &self.ledger, bytes, usage)
    }

    /// Frees the reusable memory.
    pub fn clear_staging(&mut self) {
        self.staging.clear();
    }

    /// Keeps the memory for reuse, unless it is large or there is enough.
    pub fn put_staging(&mut self, staging: Buffer) {
        const MAX_BYTES: usize = 8 << 20;
        const MAX_COUNT: usize = 8;
        if staging.bytes() <= MAX_BYTES && self.staging.len() < MAX_COUNT {
            self.staging.push(staging);
            self.staging.sort_by_key(Buffer::bytes);
        }
    }
}

fn create(
    device: &wgpu::Device,
    ledger: &Arc<Ledger>,
    bytes: usize,
    usage: wgpu::BufferUsages,
) -> Buffer {
    let raw = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: bytes as u64,
        usage,
        mapped_at_creation: false,
    });
    Buffer::new(raw, bytes, ledger)
}
