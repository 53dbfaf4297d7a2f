//! A kernel with its parameters and workgroups: all of a launch but the buffers, for whoever runs
//! these kernels on a device of another maker. [`crate::embed_dispatch`], [`crate::product_dispatch`],
//! [`crate::append_dispatch`] and [`crate::attention_dispatch`] make them, and say which buffers are
//! bound, in order from 0; the parameters follow as a uniform.

use bytemuck::Pod;

use crate::launch::Shader;

/// All of a launch but the buffers.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch<P> {
    pub(crate) shader: &'static Shader,
    pub(crate) params: P,
    /// Workgroups in each dimension.
    pub groups: [u32; 3],
}

impl<P: Pod> Dispatch<P> {
    /// The kernel's name, which no other has.
    pub fn name(&self) -> &'static str {
        self.shader.name
    }

    /// The kernel's WGSL; its entry point is `main`.
    pub fn wgsl(&self) -> String {
        self.shader.text()
    }

    /// Threads of a workgroup, all in x.
    pub fn workgroup(&self) -> u32 {
        self.shader.workgroup
    }

    /// The uniform's bytes, a multiple of 16.
    pub fn params(&self) -> &[u8] {
        bytemuck::bytes_of(&self.params)
    }
}
