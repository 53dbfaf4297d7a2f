// out = a + b, number by number.
struct Params {
    quads: u32,   // numbers / 4
    spare_a: u32,
    spare_b: u32,
    spare_c: u32,
}

@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * groups.x + group.x) * WORKGROUP + local;
    if (i >= params.quads) {
        return;
    }
    out[i] = a[i] + b[i];
}
