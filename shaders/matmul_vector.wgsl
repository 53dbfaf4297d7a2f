// out = x · Wᵀ (+ bias) (+ residual) for one row of x at a time: a product that is
// limited by the bytes of W. A workgroup makes eight outputs; sixteen lanes sweep two
// weight rows, 16 bytes a lane, so that each quad of x is read once for both.
struct Params {
    m: u32,            // rows of x
    rows: u32,         // weight rows (outputs) of this part
    units: u32,        // units in a weight row
    behind: u32,       // where the second plane starts, in words
    begin: u32,        // output column of this part's first row
    n: u32,            // columns of out
    has_bias: u32,
    residual: u32,     // 0: none; 1: from `residual`; 2: what `out` holds
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;          // [m, units * QUADS]
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;    // [rows, units], then other planes
@group(0) @binding(2) var<storage, read> bias: array<f32>;             // [n]
@group(0) @binding(3) var<storage, read> residual: array<f32>;         // [m, n]
@group(0) @binding(4) var<storage, read_write> out: array<f32>;        // [m, n]
@group(0) @binding(5) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;
const LANES: u32 = 16u;
const OUTPUTS: u32 = 8u;

var<workgroup> partial: array<vec2<f32>, 64>;


fn multiply(a: vec4<u32>, b: vec4<u32>, at: u32, q: u32) -> vec2<f32> {
    let v = x[at + q];
    return vec2<f32>(dot(quad(a, q), v), dot(quad(b, q), v));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (group.y * groups.x + group.x) * OUTPUTS;
    if (first >= params.rows) {
        return;
    }
    let lane = local % LANES;
    // Rows past the end repeat the last one; their sums are not written.
    let row_a = min(first + local / LANES * 2u, params.rows - 1u);
    let row_b = min(row_a + 1u, params.rows - 1u);
    let a = row_a * params.units;
    let b = row_b * params.units;
    let base = group.z * params.units * QUADS;

    var sum = vec2<f32>(0.0);
    for (var unit = lane; unit < params.units; unit += LANES) {
        let packed_a = weights[a + unit];
        let packed_b = weights[b + unit];
        let at = base + unit * QUADS;
        var part = multiply(packed_a, packed_b, at, 0u);
        if (QUADS > 1u) {
            part += multiply(packed_a, packed_b, at, 1u);
        }
        if (QUADS > 2u) {
            part += multiply(packed_a, packed_b, at, 2u);
            part += multiply(packed_a, packed_b, at, 3u);
        }
        if (QUADS > 4u) {
            part += multiply(packed_a, packed_b, at, 4u);
            part += multiply(packed_a, packed_b, at, 5u);
            part += multiply(packed_a, packed_b, at, 6u);
            part += multiply(packed_a, packed_b, at, 7u);
        }
        sum += part * vec2<f32>(scale(row_a, unit), scale(row_b, unit));
    }
    partial[local] = sum;
    workgroupBarrier();

    let row = first + local;
    if (local < OUTPUTS && row < params.rows) {
        let from_lane = local / 2u * LANES;
        let odd = (local & 1u) == 1u;
        var total = 0.0;
        for (var i = 0u; i < LANES; i++) {
            let pair = partial[from_lane + i];
            total += select(pair.x, pair.y, odd);
        }
        let column = params.begin + row;
        let target_index = group.z * params.n + column;
        if (params.has_bias == 1u) {
            total += bias[column];
        }
        if (params.residual == 1u) {
            total += residual[target_index];
        } else if (params.residual == 2u) {
            total += out[target_index];
        }
        out[target_index] = total;
    }
}
