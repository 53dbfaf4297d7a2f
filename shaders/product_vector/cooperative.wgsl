// The product of one row of x, limited by the bytes of W. Sixteen lanes sweep four weight rows; a
// workgroup computes eight pairs.
const LANES: u32 = 16u;
const PAIRS: u32 = 8u;

// For each lane: the sums of its weight rows, and of the squares of x.
var<workgroup> partial: array<vec4<f32>, 64>;
var<workgroup> squares: array<f32, 64>;

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
    let mine = first + local / LANES * 2u;
    // Pairs past the end repeat the last one; their sums are not written.
    let near = rows_of(min(mine, pairs() - 1u));
    let far = rows_of(min(mine + 1u, pairs() - 1u));
    let swept = sweep(near, far, group.z, local % LANES, LANES);
    partial[local] = swept.sums;
    squares[local] = swept.squares;
    workgroupBarrier();

    let pair = first + local;
    if (local < PAIRS && pair < pairs()) {
        let from_lane = local / 2u * LANES;
        let second = (local & 1u) == 1u;
        var total = vec2<f32>(0.0);
        var all = 0.0;
        for (var i = 0u; i < LANES; i++) {
            let four = partial[from_lane + i];
            total += select(four.xy, four.zw, second);
            all += squares[from_lane + i];
        }
        put_pair(group.z, pair, total * factor(all));
    }
}
