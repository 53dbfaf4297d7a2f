//! A kernel with its parameters and workgroups: for [`crate::Gpu::run`], and for whoever runs the
//! kernel on a device of another maker.

use bytemuck::Pod;

use crate::launch::Shader;

/// All of a launch but the buffers, which are bound in order from 0; the parameters follow as a
/// uniform.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch<P> {
    /// The kernel.
    pub shader: &'static Shader,
    /// What the uniform holds.
    pub params: P,
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
