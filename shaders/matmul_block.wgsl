// out = x · Wᵀ (+ bias) (+ residual) for several rows of x: each weight is read and
// dequantised once for four rows. A workgroup makes eight columns of four rows;
// sixteen lanes sweep two weight rows, 16 bytes a lane.
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
const BLOCK: u32 = 4u;

// The sums of four rows of x with each of two weight rows.
struct Sums {
    a: vec4<f32>,
    b: vec4<f32>,
}

var<workgroup> partial_a: array<vec4<f32>, 64>;
var<workgroup> partial_b: array<vec4<f32>, 64>;

fn multiply(sums: Sums, packed_a: vec4<u32>, packed_b: vec4<u32>, at: vec4<u32>, q: u32) -> Sums {
    let x0 = x[at.x + q];
    let x1 = x[at.y + q];
    let x2 = x[at.z + q];
    let x3 = x[at.w + q];
    let a = quad(packed_a, q);
    let b = quad(packed_b, q);
    return Sums(
        sums.a + vec4<f32>(dot(a, x0), dot(a, x1), dot(a, x2), dot(a, x3)),
        sums.b + vec4<f32>(dot(b, x0), dot(b, x1), dot(b, x2), dot(b, x3)),
    );
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
    let top = group.z * BLOCK;
    let base = min(vec4<u32>(top) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.m - 1u))
        * params.units * QUADS;

    var sum_a = vec4<f32>(0.0);
    var sum_b = vec4<f32>(0.0);
    for (var unit = lane; unit < params.units; unit += LANES) {
        let packed_a = weights[a + unit];
        let packed_b = weights[b + unit];
        let at = base + unit * QUADS;
        var sums = Sums(vec4<f32>(0.0), vec4<f32>(0.0));
        sums = multiply(sums, packed_a, packed_b, at, 0u);
        if (QUADS > 1u) {
            sums = multiply(sums, packed_a, packed_b, at, 1u);
        }
        if (QUADS > 2u) {
            sums = multiply(sums, packed_a, packed_b, at, 2u);
            sums = multiply(sums, packed_a, packed_b, at, 3u);
        }
        if (QUADS > 4u) {
            sums = multiply(sums, packed_a, packed_b, at, 4u);
            sums = multiply(sums, packed_a, packed_b, at, 5u);
            sums = multiply(sums, packed_a, packed_b, at, 6u);
            sums = multiply(sums, packed_a, packed_b, at, 7u);
        }
        sum_a += sums.a * scale(row_a, unit);
        sum_b += sums.b * scale(row_b, unit);
    }
    partial_a[local] = sum_a;
    partial_b[local] = sum_b;
    workgroupBarrier();

    let row = first + local;
    if (local < OUTPUTS && row < params.rows) {
        let from_lane = local / 2u * LANES;
        var total = vec4<f32>(0.0);
        if ((local & 1u) == 1u) {
            for (var i = 0u; i < LANES; i++) {
                total += partial_b[from_lane + i];
            }
        } else {
            for (var i = 0u; i < LANES; i++) {
                total += partial_a[from_lane + i];
            }
        }
        let column = params.begin + row;
        if (params.has_bias == 1u) {
            total += bias[column];
        }
        for (var i = 0u; i < BLOCK; i++) {
            if (top + i < params.m) {
                let target_index = (top + i) * params.n + column;
                var value = total[i];
                if (params.residual == 1u) {
                    value += residual[target_index];
                } else if (params.residual == 2u) {
                    value += out[target_index];
                }
                out[target_index] = value;
            }
        }
    }
}
