// The products of experts, four choices of one expert at a time, without barriers: each thread
// sweeps two pairs of weight rows with four rows of x.
@group(0) @binding(3) var<storage, read> fours: array<vec4<u32>>;  // groups of choices

const PAIRS: u32 = 16u;  // of a workgroup
const NO_CHOICE: u32 = 0xffffffffu;

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let pair = (group.y * groups.x + group.x) * PAIRS + 2u * local;
    let four = fours[group.z];
    if (pair >= pairs() || four.x == NO_CHOICE) {
        return;
    }
    let expert = chosen[four.x];
    if (!is_here(expert)) {
        return;
    }
    let both = pair + 1u < pairs();
    let near = rows_of(expert, pair);
    let far = rows_of(expert, select(pair, pair + 1u, both));
    let x_rows = select(four, four.xxxx, four == vec4<u32>(NO_CHOICE)) / params.each;
    let sums = sweep(near, far, x_rows, 0u, 1u);
    for (var i = 0u; i < BLOCK; i++) {
        if (four[i] == NO_CHOICE) {
            break;
        }
        put_pair(four[i], expert, pair, vec2<f32>(sums.a[i], sums.b[i]));
        if (both) {
            put_pair(four[i], expert, pair + 1u, vec2<f32>(sums.c[i], sums.d[i]));
        }
    }
}
