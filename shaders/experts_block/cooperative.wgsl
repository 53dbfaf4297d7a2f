// The products of experts, four choices of one expert at a time. Sixteen lanes sweep four weight
// rows with four rows of x; a workgroup computes eight pairs of four rows.
@group(0) @binding(3) var<storage, read> fours: array<vec4<u32>>;  // groups of choices

const WORKGROUP: u32 = 64u;
const LANES: u32 = 16u;
const PAIRS: u32 = 8u;
const NO_CHOICE: u32 = 0xffffffffu;

var<workgroup> partial: array<vec4<f32>, 256>;  // [weight row of a lane, WORKGROUP]

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (group.y * groups.x + group.x) * PAIRS;
    let four = fours[group.z];
    if (first >= pairs() || four.x == NO_CHOICE) {
        return;
    }
    let expert = chosen[four.x];
    if (!is_here(expert)) {
        return;
    }
    let mine = first + local / LANES * 2u;
    // Pairs past the end repeat the last one, missing choices the first; their sums are not
    // written.
    let near = rows_of(expert, min(mine, pairs() - 1u));
    let far = rows_of(expert, min(mine + 1u, pairs() - 1u));
    let x_rows = select(four, four.xxxx, four == vec4<u32>(NO_CHOICE)) / params.each;
    let sums = sweep(near, far, x_rows, local % LANES, LANES);
    partial[local] = sums.a;
    partial[WORKGROUP + local] = sums.b;
    partial[2u * WORKGROUP + local] = sums.c;
    partial[3u * WORKGROUP + local] = sums.d;
    workgroupBarrier();

    let pair = first + local / BLOCK;
    let row = local % BLOCK;
    if (local < PAIRS * BLOCK && pair < pairs() && four[row] != NO_CHOICE) {
        let of_lane = local / BLOCK;
        let from_lane = of_lane / 2u * LANES + of_lane % 2u * 2u * WORKGROUP;
        var total = vec2<f32>(0.0);
        for (var i = 0u; i < LANES; i++) {
            total += vec2<f32>(partial[from_lane + i][row], partial[from_lane + WORKGROUP + i][row]);
        }
        put_pair(four[row], expert, pair, total);
    }
}
