// y = x / sqrt(mean(x²) + ε) · weight, row by row. One workgroup a row.
struct Params {
    rows: u32,
    quads: u32,    // width / 4
    epsilon: f32,
    spare: u32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;          // [rows, quads]
@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;     // [quads]
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;  // [rows, quads]
@group(0) @binding(3) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = group.y * groups.x + group.x;
    if (row >= params.rows) {
        return;
    }
    let base = row * params.quads;
    let factor = row_factor(base, local);
    for (var i = local; i < params.quads; i += WORKGROUP) {
        out[base + i] = x[base + i] * factor * weight[i];
    }
}
