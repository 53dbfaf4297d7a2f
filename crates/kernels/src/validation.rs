//! Every shader variant is valid WGSL, agrees with its launcher, and stays within WebGPU's minimum.

use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, StorageAccess};

use conclave_gpu::Shader;

/// Bytes of workgroup memory, threads in a workgroup, storage buffers of a kernel.
const WORKGROUP_BYTES: u32 = 16 << 10;
const THREADS: u32 = 256;
const STORAGE_BUFFERS: usize = 8;

/// Without optional features: no f16, and subgroups only for the twins that use them. naga lists
/// `unpack2x16float` separately, since OpenGL may lack it; WebGPU always has it.
fn validator(of: &Shader) -> Validator {
    let mut capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    if is_twin(of) {
        capabilities |= Capabilities::SUBGROUP;
    }
    Validator::new(ValidationFlags::all(), capabilities)
}

/// Whether it is a native-only twin.
fn is_twin(shader: &Shader) -> bool {
    let mut twins = crate::subgroups::families().into_iter().flatten();
    twins.any(|twin| std::ptr::eq(twin, shader))
}

fn validated(shader: &Shader) -> naga::Module {
    let text = shader.text();
    let module = naga::front::wgsl::parse_str(&text)
        .unwrap_or_else(|error| panic!("{}: {}", shader.name, error.emit_to_string(&text)));
    validator(shader)
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}: {}", shader.name, error.emit_to_string(&text)));
    module
}

fn bytes_of(module: &naga::Module, ty: naga::Handle<naga::Type>) -> u32 {
    module.types[ty].inner.size(module.to_ctx())
}

#[test]
fn shaders_fit_every_device() {
    for shader in crate::ops::shaders() {
        let module = validated(shader);
        let of_space = |space: AddressSpace| {
            let globals = module.global_variables.iter();
            globals.filter(move |(_, global)| {
                std::mem::discriminant(&global.space) == std::mem::discriminant(&space)
            })
        };
        let shared: u32 = of_space(AddressSpace::WorkGroup)
            .map(|(_, global)| bytes_of(&module, global.ty).next_multiple_of(16))
            .sum();
        assert!(shared <= WORKGROUP_BYTES, "{}: {shared} bytes", shader.name);
        let storage = AddressSpace::Storage {
            access: StorageAccess::empty(),
        };
        let buffers = of_space(storage).count();
        assert!(buffers <= STORAGE_BUFFERS, "{}: {buffers}", shader.name);
        let [entry] = &module.entry_points[..] else {
            panic!("{}: one entry point", shader.name);
        };
        let [x, y, z] = entry.workgroup_size;
        assert!(x * y * z <= THREADS, "{}", shader.name);
    }
}

#[test]
fn launchers_agree_with_their_shaders() {
    for shader in crate::ops::shaders() {
        let module = validated(shader);
        let entry = &module.entry_points[0];
        assert_eq!(entry.name, "main", "{}", shader.name);
        assert_eq!(entry.workgroup_size, [shader.workgroup, 1, 1]);
        // The constant used in the WGSL's index computations.
        let text = shader.text();
        if let Some(at) = text.find("WORKGROUP: u32 = ") {
            let stated = format!("WORKGROUP: u32 = {}u;", shader.workgroup);
            assert!(text[at..].starts_with(&stated), "{}", shader.name);
        }
        // Bindings are consecutive from 0, the parameters last; buffers are bound in order.
        let mut bindings: Vec<(u32, bool)> = module
            .global_variables
            .iter()
            .filter_map(|(_, global)| {
                let binding = global.binding?;
                assert_eq!(binding.group, 0, "{}", shader.name);
                if global.space == AddressSpace::Uniform {
                    let bytes = bytes_of(&module, global.ty) as usize;
                    assert_eq!(bytes, shader.params, "{}: parameters", shader.name);
                    assert_eq!(bytes % 16, 0, "{}: parameters", shader.name);
                }
                Some((binding.binding, global.space == AddressSpace::Uniform))
            })
            .collect();
        bindings.sort_unstable();
        let last = bindings.len() - 1;
        for (i, binding) in bindings.iter().enumerate() {
            assert_eq!(*binding, (i as u32, i == last), "{}", shader.name);
        }
        // A binding unused by the entry point is missing from the automatic layout.
        let info = validator(shader)
            .validate(&module)
            .expect("validated before");
        for (handle, global) in module.global_variables.iter() {
            let used = global.binding.is_none() || !info.get_entry_point(0)[handle].is_empty();
            assert!(used, "{}: {:?} is not used", shader.name, global.name);
        }
    }
}

/// Each twin needs its extra feature, and all others are refused it.
#[test]
fn shaders_with_subgroups_are_twins_alone() {
    let mut twins = 0;
    for shader in crate::ops::shaders() {
        let module = naga::front::wgsl::parse_str(&shader.text()).expect("parsed before");
        let plain = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        let valid = Validator::new(ValidationFlags::all(), plain).validate(&module);
        assert_eq!(valid.is_err(), is_twin(shader), "{}", shader.name);
        assert_eq!(shader.name.contains("_subgroups"), is_twin(shader));
        twins += usize::from(is_twin(shader));
    }
    assert_eq!(twins, 5 * crate::Format::ALL.len());
}

#[test]
fn names_are_unique() {
    let mut names: Vec<String> = crate::shaders().into_iter().map(|(name, _)| name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
