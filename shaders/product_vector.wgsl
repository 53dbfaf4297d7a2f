// The product of one row of x: it is limited by the bytes of W. Sixteen lanes sweep a pair
// of weight rows, a unit each at a time; a workgroup makes four pairs.
const WORKGROUP: u32 = 64u;
const LANES: u32 = 16u;
const PAIRS: u32 = 4u;

// Of each lane: the sums of both rows, and of the squares of x.
var<workgroup> partial: array<vec3<f32>, 64>;

fn multiply(a: Unit, b: Unit, unit: u32, at: u32, q: u32) -> vec3<f32> {
    let v = x[at + q];
    let t = taken(v, unit * QUADS + q);
    var squares = 0.0;
    if (NORMED) {
        squares = dot(v, v);
    }
    return vec3<f32>(dot(quad(a, q), t), dot(quad(b, q), t), squares);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (group.y * groups.x + group.x) * PAIRS;
    if (first >= pairs() || group.z >= counts[0]) {
        return;
    }
    let lane = local % LANES;
    // Pairs past the end repeat the last one; their sums are not written.
    let rows = rows_of(min(first + local / LANES, pairs() - 1u));
    let base = group.z * params.units * QUADS;

    var sum = vec3<f32>(0.0);
    for (var unit = lane; unit < params.units; unit += LANES) {
        let a = unit_at(rows.x, unit);
        let b = unit_at(rows.y, unit);
        let at = base + unit * QUADS;
        sum += multiply(a, b, unit, at, 0u);
        if (QUADS > 1u) {
            sum += multiply(a, b, unit, at, 1u);
        }
        if (QUADS > 2u) {
            sum += multiply(a, b, unit, at, 2u);
            sum += multiply(a, b, unit, at, 3u);
        }
        if (QUADS > 4u) {
            sum += multiply(a, b, unit, at, 4u);
            sum += multiply(a, b, unit, at, 5u);
            sum += multiply(a, b, unit, at, 6u);
            sum += multiply(a, b, unit, at, 7u);
        }
    }
    partial[local] = sum;
    workgroupBarrier();

    let pair = first + local;
    if (local < PAIRS && pair < pairs()) {
        var total = vec3<f32>(0.0);
        for (var i = 0u; i < LANES; i++) {
            total += partial[local * LANES + i];
        }
        put_pair(group.z, pair, total.xy * factor(total.z));
    }
}
