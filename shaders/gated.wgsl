// act(gate) · up, elementwise, where up is some columns of wider rows: SiLU, or GELU in its tanh
// form.
struct Params {
    quads: u32,    // numbers / 4
    gelu: u32,     // 0: SiLU; 1: GELU
    columns: u32,  // of a row, in quads as all that follows
    across: u32,   // of a row of up
    first: u32,    // of up's that is taken
    spare_a: u32,
    spare_b: u32,
    spare_c: u32,
}

@group(0) @binding(0) var<storage, read> gate: array<vec4<f32>>;       // [rows, columns]
@group(0) @binding(1) var<storage, read> up: array<vec4<f32>>;         // [rows, across]
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;  // [rows, columns]
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
    let g = gate[i];
    var gated = vec4<f32>(0.0);
    if (params.gelu == 1u) {
        let inner = 0.7978845608 * (g + 0.044715 * g * g * g);
        // tanh is 1 in f32 from 10 on; some drivers make it NaN far out.
        gated = 0.5 * g * (1.0 + tanh(clamp(inner, vec4<f32>(-10.0), vec4<f32>(10.0))));
    } else {
        // exp overflows beyond 88; there the sigmoid is 0 in f32 anyway.
        gated = g / (1.0 + exp(-max(g, vec4<f32>(-80.0))));
    }
    let from_up = i / params.columns * params.across + params.first + i % params.columns;
    out[i] = gated * up[from_up];
}
