// out = x · Wᵀ (+ bias) (+ residual) for one row of x at a time: a product that is limited
// by the bytes of W. A workgroup makes eight outputs.
var<workgroup> partial: array<vec2<f32>, 64>;

fn multiply(a: Unit, b: Unit, at: u32, q: u32) -> vec2<f32> {
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
    let base = group.z * params.units * QUADS;

    var sum = vec2<f32>(0.0);
    for (var unit = lane; unit < params.units; unit += LANES) {
        let a = unit_at(row_a, unit);
        let b = unit_at(row_b, unit);
        let at = base + unit * QUADS;
        sum += multiply(a, b, at, 0u);
        if (QUADS > 1u) {
            sum += multiply(a, b, at, 1u);
        }
        if (QUADS > 2u) {
            sum += multiply(a, b, at, 2u);
            sum += multiply(a, b, at, 3u);
        }
        if (QUADS > 4u) {
            sum += multiply(a, b, at, 4u);
            sum += multiply(a, b, at, 5u);
            sum += multiply(a, b, at, 6u);
            sum += multiply(a, b, at, 7u);
        }
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
        put(group.z, row, total);
    }
}
