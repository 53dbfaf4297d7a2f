//! The operations on a GPU: the WGSL of `conclave-kernels`, launched by cubecl as kernels that
//! bring their own source.

use burn_wgpu::{CubeBackend, CubeTensor, into_contiguous};
use bytemuck::Pod;
use conclave_kernels::{
    Choices, Dispatch, GpuError, Projected, Scores, append_dispatch, attention_dispatch,
    embed_dispatch, experts_dispatch, product_dispatch,
};
use cubecl::ir::attributes::BufferIOAttr;
use cubecl::ir::metadata::Info;
use cubecl::ir::settings::{Dim3, ExecutionMode, KernelSettings};
use cubecl::ir::{AddressType, ElemType, Scope, UIntKind};
use cubecl::prelude::{KernelDefinition, KernelId, KernelMetadata};
use cubecl::server::{Handle, KernelArguments, MetadataBindingInfo};
use cubecl::{CubeCount, CubeKernel, PrecompiledSource};

use crate::operations::{Operations, Rows, Share};

impl Operations for CubeBackend {
    fn embed(out: CubeTensor, ids: CubeTensor, planes: CubeTensor, share: Share) -> CubeTensor {
        let ids = into_contiguous(ids);
        let tokens = ids.meta.shape()[0];
        let dispatch = embed_dispatch(share.format, share.shape, &share.rows, tokens, 1.0);
        let buffers = [Read(&ids.handle), Read(&planes.handle), Write(&out.handle)];
        launch(&out, dispatch, &buffers);
        out
    }

    fn product(out: CubeTensor, x: CubeTensor, planes: CubeTensor, share: Share) -> CubeTensor {
        let x = into_contiguous(x);
        let m = x.meta.shape()[0];
        let kernel = Choices::usual(false).product(m);
        let dispatch = product_dispatch(kernel, share.format, share.shape, &share.rows, m);
        let counts = words(&out, &[m as u32]);
        // In place of a bias, of which none is read.
        let none = words(&out, &[0; 4]);
        let buffers = [
            Read(&x.handle),
            Read(&planes.handle),
            Read(&none),
            Read(&counts),
            Write(&out.handle),
        ];
        launch(&out, dispatch, &buffers);
        out
    }

    fn experts(
        out: CubeTensor,
        x: CubeTensor,
        chosen: CubeTensor,
        planes: CubeTensor,
        share: Share,
        count: usize,
    ) -> CubeTensor {
        let (x, chosen) = (into_contiguous(x), into_contiguous(chosen));
        let (rows, choices) = (x.meta.shape()[0], chosen.meta.shape()[0]);
        let [all, k] = share.shape;
        let (shape, each) = ([all / count, k], choices / rows);
        let dispatch = experts_dispatch(share.format, shape, &share.rows, rows, [each, each]);
        let counts = words(&out, &[rows as u32]);
        let buffers = [
            Read(&x.handle),
            Read(&planes.handle),
            Read(&chosen.handle),
            Read(&counts),
            Write(&out.handle),
        ];
        launch(&out, dispatch, &buffers);
        out
    }

    fn append(
        qkv: CubeTensor,
        keys: CubeTensor,
        values: CubeTensor,
        places: CubeTensor,
        rows: Rows,
    ) -> CubeTensor {
        let qkv = into_contiguous(qkv);
        let (tokens, heads) = (rows.places.len(), rows.heads);
        // Norm and rotary embedding are tensor operations, done before.
        let dispatch = append_dispatch(false, tokens, Projected::All, heads, None, [1, 0]);
        let query = like(&qkv, [tokens, heads.heads, heads.width]);
        let none = words(&qkv, &[0; 4]);
        let buffers = [
            Read(&qkv.handle),
            Write(&query.handle),
            Write(&keys.handle),
            Write(&values.handle),
            Read(&places.handle),
            Read(&none),
            Read(&none),
            Read(&none),
        ];
        launch(&qkv, dispatch, &buffers);
        query
    }

    fn attention(
        query: CubeTensor,
        keys: CubeTensor,
        values: CubeTensor,
        places: CubeTensor,
        rows: Rows,
        scores: Scores,
    ) -> CubeTensor {
        let query = into_contiguous(query);
        let (tokens, heads) = (rows.places.len(), rows.heads);
        let dispatch = attention_dispatch(false, tokens, heads, scores, 1);
        let out = like(&query, [tokens, heads.heads, heads.width]);
        let counts = words(&query, &[tokens as u32, 1]);
        // Keys in one chunk leave no partial results.
        let partials = words(&query, &[0; 4]);
        let buffers = [
            Read(&query.handle),
            Read(&keys.handle),
            Read(&values.handle),
            Read(&places.handle),
            Read(&counts),
            Write(&out.handle),
            Write(&partials),
        ];
        launch(&query, dispatch, &buffers);
        out
    }
}

/// A kernel's use of a buffer.
enum Use<'a> {
    Read(&'a Handle),
    Write(&'a Handle),
}
use Use::{Read, Write};

/// A tensor of another shape beside `other`, its content unspecified.
fn like<const D: usize>(other: &CubeTensor, shape: [usize; D]) -> CubeTensor {
    let bytes = shape.iter().product::<usize>() * other.elem_size();
    CubeTensor::new_contiguous(
        other.client.clone(),
        other.device.clone(),
        shape.into(),
        other.client.empty(bytes),
        other.dtype,
    )
}

/// A small buffer beside `other`.
fn words(other: &CubeTensor, words: &[u32]) -> Handle {
    other.client.create_from_slice(bytemuck::cast_slice(words))
}

/// Queues a launch on the device of `beside`.
///
/// # Panics
/// Where the kernel refuses the shapes, which a plan has checked: burn's operations have no other
/// way to fail.
fn launch<P: Pod>(
    beside: &CubeTensor,
    dispatch: Result<Dispatch<P>, GpuError>,
    buffers: &[Use<'_>],
) {
    let dispatch = match dispatch {
        Ok(dispatch) => dispatch,
        Err(refused) => panic!("{refused}"),
    };
    let mut arguments = KernelArguments::new();
    for buffer in buffers {
        let (handle, access) = match buffer {
            Read(handle) => (handle, BufferIOAttr::ReadOnly),
            Write(handle) => (handle, BufferIOAttr::ReadWrite),
        };
        arguments = arguments.with_buffer_io((*handle).clone().binding(), access);
    }
    let params = bytemuck::pod_collect_to_vec(dispatch.params());
    arguments.info = MetadataBindingInfo::custom(params);
    let [x, y, z] = dispatch.groups;
    let kernel = Kernel {
        name: dispatch.name(),
        source: dispatch.wgsl(),
        workgroup: dispatch.workgroup(),
    };
    let count = CubeCount::Static(x, y, z);
    beside.client.launch(Box::new(kernel), count, arguments);
}

/// A kernel that brings its WGSL.
struct Kernel {
    /// Unique name, which is the pipeline's key too.
    name: &'static str,
    source: String,
    workgroup: u32,
}

impl Kernel {
    fn dim(&self) -> Dim3 {
        Dim3 {
            x: self.workgroup,
            y: 1,
            z: 1,
        }
    }
}

impl KernelMetadata for Kernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn id(&self) -> KernelId {
        KernelId::new::<Self>().info(self.name).cube_dim(self.dim())
    }

    fn address_type(&self) -> ElemType {
        ElemType::UInt(UIntKind::U32)
    }
}

impl CubeKernel for Kernel {
    fn define(&self) -> KernelDefinition {
        let settings = KernelSettings::new(self.dim(), ExecutionMode::Checked, AddressType::U32);
        KernelDefinition {
            body: Scope::root(settings.clone()),
            settings,
            info: Info::default(),
        }
    }

    fn source(&self) -> Option<PrecompiledSource> {
        Some(PrecompiledSource {
            source: self.source.clone(),
            entrypoint_name: "main".into(),
            lang: "wgsl",
        })
    }
}
