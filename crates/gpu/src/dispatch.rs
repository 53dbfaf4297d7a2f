//! A kernel with its parameters and workgroups: for [`crate::Gpu::run`], or for running it on a
//! device from elsewhere.

use bytemuck::Pod;

use crate::launch::Shader;

/// A launch without its buffers, which are bound in order from 0, followed by the parameters as a
/// uniform.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch<P> {
    /// The kernel.
    pub shader: &'static Shader,
    /// Content of the uniform.
    pub params: P,
    /// Workgroups in each dimension.
    pub groups: [u32; 3],
}

impl<P: Pod> Dispatch<P> {
    /// The kernel's unique name.
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
