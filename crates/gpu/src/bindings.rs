//! Device objects of launches, each made once: pipelines, bind groups, parameters.
//!
//! A bind group is identified by its buffers, not by the kernel: kernels with the same kinds of
//! arguments share it. Parameters are identified by their content and lie in slots of one buffer,
//! selected by a dynamic offset. So one bind group serves every number of rows, and a repeated
//! launch makes and writes nothing.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::buffer::ALIGNMENT;
use crate::launch::{Shader, Use};
use crate::{Buffer, GpuError};

/// Bytes of a slot of parameters: the dynamic offsets' alignment on every device.
const SLOT: usize = ALIGNMENT;

/// Slots: 1 MB. A model has about twenty different ones for a number of rows.
const SLOTS: u32 = 4096;

/// Most storage buffers of a kernel: the number every device binds at once.
pub(crate) const STORAGE_BUFFERS: usize = 8;

/// The kinds of a kernel's arguments: their number, and a bit for each that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kinds {
    count: u32,
    written: u32,
}

impl Kinds {
    pub fn from_uses(buffers: &[Use<'_>]) -> Self {
        let mut written = 0;
        for (i, used) in buffers.iter().enumerate() {
            written |= u32::from(matches!(used, Use::Write(_))) << i;
        }
        Self {
            count: buffers.len() as u32,
            written,
        }
    }
}

/// The identity of a bind group.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bound {
    kinds: Kinds,
    buffers: [[u64; 2]; STORAGE_BUFFERS],
}

struct Layout {
    group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

/// A compiled kernel, shared by its launches.
pub(crate) type Pipeline = Arc<wgpu::ComputePipeline>;

/// A bind group, shared by the launches on the same buffers.
pub(crate) type Group = Arc<wgpu::BindGroup>;

pub(crate) struct Bindings {
    layouts: HashMap<Kinds, Layout>,
    /// Pipelines by the address of their shader, which is a static, and by the kinds of its
    /// bindings.
    pipelines: HashMap<(usize, Kinds), Pipeline>,
    groups: HashMap<Bound, Group>,
    /// Parameters and the offset of their slot.
    slots: HashMap<Box<[u8]>, u32>,
    params: Buffer,
    /// Number of bind groups made so far.
    pub groups_made: u64,
    /// Number of pipelines made so far.
    pub pipelines_made: u64,
    /// Replacement WGSL by shader name.
    #[cfg(feature = "faults")]
    pub altered: HashMap<&'static str, String>,
}

impl Bindings {
    /// Bytes of the parameter buffer.
    pub const PARAMS_BYTES: usize = SLOTS as usize * SLOT;

    /// An empty set; `params` has [`Self::PARAMS_BYTES`].
    pub fn new(params: Buffer) -> Self {
        Self {
            layouts: HashMap::new(),
            pipelines: HashMap::new(),
            groups: HashMap::new(),
            slots: HashMap::new(),
            params,
            groups_made: 0,
            pipelines_made: 0,
            #[cfg(feature = "faults")]
            altered: HashMap::new(),
        }
    }

    /// The pipeline of a shader for these arguments.
    pub fn pipeline(
        &mut self,
        device: &wgpu::Device,
        shader: &'static Shader,
        buffers: &[Use<'_>],
    ) -> Pipeline {
        self.pipeline_of(device, shader, Kinds::from_uses(buffers))
    }

    /// The pipeline of a shader for arguments of these kinds.
    pub fn pipeline_of(
        &mut self,
        device: &wgpu::Device,
        shader: &'static Shader,
        kinds: Kinds,
    ) -> Pipeline {
        let key = key(shader, kinds);
        if let Some(pipeline) = self.pipelines.get(&key) {
            return pipeline.clone();
        }
        self.pipelines_made += 1;
        let pipeline = Arc::new(self.make(device, shader, kinds));
        self.pipelines.insert(key, pipeline.clone());
        pipeline
    }

    /// Whether that pipeline has been made.
    pub fn has_pipeline(&self, shader: &'static Shader, kinds: Kinds) -> bool {
        self.pipelines.contains_key(&key(shader, kinds))
    }

    /// Compiles a pipeline without caching it.
    pub fn make(
        &mut self,
        device: &wgpu::Device,
        shader: &'static Shader,
        kinds: Kinds,
    ) -> wgpu::ComputePipeline {
        let text = shader.text();
        #[cfg(feature = "faults")]
        let text = self.altered.get(shader.name).cloned().unwrap_or(text);
        let layout = layout(&mut self.layouts, device, kinds);
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(shader.name),
            source: wgpu::ShaderSource::Wgsl(text.into()),
        });
        device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(shader.name),
            layout: Some(&layout.pipeline),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Kernels write workgroup memory before reading it.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        })
    }

    /// The bind group of these buffers.
    pub fn group(&mut self, device: &wgpu::Device, buffers: &[Use<'_>]) -> Group {
        let kinds = Kinds::from_uses(buffers);
        let mut bound = Bound {
            kinds,
            buffers: [[u64::MAX; 2]; STORAGE_BUFFERS],
        };
        for (key, used) in bound.buffers.iter_mut().zip(buffers) {
            *key = used.buffer().key();
        }
        if let Some(group) = self.groups.get(&bound) {
            return group.clone();
        }
        self.groups_made += 1;
        let layout = layout(&mut self.layouts, device, kinds);
        let binding = |buffer, at: usize, bytes: usize| {
            wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer,
                offset: at as u64,
                size: NonZeroU64::new(bytes as u64),
            })
        };
        let storage = buffers.iter().map(|used| {
            let buffer = used.buffer();
            binding(buffer.raw(), buffer.at(), buffer.bytes())
        });
        let params = std::iter::once(binding(self.params.raw(), 0, SLOT));
        let entries: Vec<_> = (0..)
            .zip(storage.chain(params))
            .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource })
            .collect();
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout.group,
            entries: &entries,
        });
        let group = Arc::new(group);
        self.groups.insert(bound, group.clone());
        group
    }

    /// Replaces a shader's WGSL and drops its pipelines.
    #[cfg(feature = "faults")]
    pub fn alter(&mut self, shader: &'static Shader, text: String) {
        self.altered.insert(shader.name, text);
        let address = std::ptr::from_ref(shader).addr();
        self.pipelines.retain(|&(of, _), _| of != address);
    }

    /// Whether a slot for these parameters would recycle all others; then no queued work may use
    /// any.
    pub fn ends_slots(&self, params: &[u8]) -> bool {
        self.slots.len() == SLOTS as usize && !self.slots.contains_key(params)
    }

    /// The offset of these parameters' slot, written if new.
    pub fn slot(
        &mut self,
        queue: &wgpu::Queue,
        kernel: &'static str,
        params: &[u8],
    ) -> Result<u32, GpuError> {
        if let Some(&slot) = self.slots.get(params) {
            return Ok(slot);
        }
        if params.len() > SLOT {
            return Err(GpuError::shape(
                kernel,
                format!("{} bytes of parameters, at most {SLOT}", params.len()),
            ));
        }
        if self.ends_slots(params) {
            self.slots.clear();
        }
        let slot = (self.slots.len() * SLOT) as u32;
        queue.write_buffer(self.params.raw(), u64::from(slot), params);
        self.slots.insert(params.into(), slot);
        Ok(slot)
    }

    /// Drops the bind groups of freed buffers.
    pub fn forget(&mut self, gone: &[u64]) {
        if gone.is_empty() {
            return;
        }
        let gone: HashSet<u64> = gone.iter().copied().collect();
        self.groups.retain(|bound, _| {
            let buffers = &bound.buffers[..bound.kinds.count as usize];
            !buffers.iter().any(|[id, _]| gone.contains(id))
        });
    }
}

fn key(shader: &'static Shader, kinds: Kinds) -> (usize, Kinds) {
    (std::ptr::from_ref(shader).addr(), kinds)
}

fn layout<'a>(
    layouts: &'a mut HashMap<Kinds, Layout>,
    device: &wgpu::Device,
    kinds: Kinds,
) -> &'a Layout {
    layouts.entry(kinds).or_insert_with(|| {
        let entry = |binding, ty, dynamic| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty,
                has_dynamic_offset: dynamic,
                min_binding_size: None,
            },
            count: None,
        };
        let storage = (0..kinds.count).map(|i| {
            let read_only = kinds.written & (1 << i) == 0;
            entry(i, wgpu::BufferBindingType::Storage { read_only }, false)
        });
        let params = entry(kinds.count, wgpu::BufferBindingType::Uniform, true);
        let entries: Vec<_> = storage.chain(std::iter::once(params)).collect();
        let group = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &entries,
        });
        let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        Layout { group, pipeline }
    })
}
