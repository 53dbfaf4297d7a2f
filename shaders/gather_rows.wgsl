// out[i] = x[rows[i]]; an index past the end gives zeros.
struct Params {
    count: u32,   // rows of out
    rows: u32,    // rows of x
    quads: u32,   // width / 4
    spare: u32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;          // [rows, quads]
@group(0) @binding(1) var<storage, read> rows: array<u32>;             // [count]
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;  // [count, quads]
@group(0) @binding(3) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let item = (group.y * groups.x + group.x) * WORKGROUP + local;
    if (item >= params.count * params.quads) {
        return;
    }
    let row = rows[item / params.quads];
    var value = vec4<f32>(0.0);
    if (row < params.rows) {
        value = x[row * params.quads + item % params.quads];
    }
    out[item] = value;
}
