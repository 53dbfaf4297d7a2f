// The product of several rows of x: each weight is read and dequantised once for four rows.
// Sixteen lanes sweep a pair of weight rows; a workgroup makes four pairs of four rows.
const WORKGROUP: u32 = 64u;
const LANES: u32 = 16u;
const PAIRS: u32 = 4u;
const BLOCK: u32 = 4u;

// The sums of four rows of x with each weight row of a pair.
struct Sums {
    a: vec4<f32>,
    b: vec4<f32>,
}

var<workgroup> partial_a: array<vec4<f32>, 64>;
var<workgroup> partial_b: array<vec4<f32>, 64>;

fn multiply(sums: Sums, unit_a: Unit, unit_b: Unit, at: vec4<u32>, q: u32) -> Sums {
    let x0 = x[at.x + q];
    let x1 = x[at.y + q];
    let x2 = x[at.z + q];
    let x3 = x[at.w + q];
    let a = quad(unit_a, q);
    let b = quad(unit_b, q);
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
    let first = (group.y * groups.x + group.x) * PAIRS;
    let m = counts[0];
    let top = group.z * BLOCK;
    if (first >= pairs() || top >= m) {
        return;
    }
    let lane = local % LANES;
    // Pairs and rows of x past the end repeat the last one; their sums are not written.
    let rows = rows_of(min(first + local / LANES, pairs() - 1u));
    let base = min(vec4<u32>(top) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(m - 1u))
        * params.units * QUADS;

    var sums = Sums(vec4<f32>(0.0), vec4<f32>(0.0));
    for (var unit = lane; unit < params.units; unit += LANES) {
        let a = unit_at(rows.x, unit);
        let b = unit_at(rows.y, unit);
        let at = base + unit * QUADS;
        sums = multiply(sums, a, b, at, 0u);
        if (QUADS > 1u) {
            sums = multiply(sums, a, b, at, 1u);
        }
        if (QUADS > 2u) {
            sums = multiply(sums, a, b, at, 2u);
            sums = multiply(sums, a, b, at, 3u);
        }
        if (QUADS > 4u) {
            sums = multiply(sums, a, b, at, 4u);
            sums = multiply(sums, a, b, at, 5u);
            sums = multiply(sums, a, b, at, 6u);
            sums = multiply(sums, a, b, at, 7u);
        }
    }
    partial_a[local] = sums.a;
    partial_b[local] = sums.b;
    workgroupBarrier();

    let pair = first + local / BLOCK;
    let row = local % BLOCK;
    if (local < PAIRS * BLOCK && pair < pairs() && top + row < m) {
        let from_lane = local / BLOCK * LANES;
        var total = vec2<f32>(0.0);
        for (var i = 0u; i < LANES; i++) {
            total += vec2<f32>(partial_a[from_lane + i][row], partial_b[from_lane + i][row]);
        }
        put_pair(top + row, pair, total);
    }
}
