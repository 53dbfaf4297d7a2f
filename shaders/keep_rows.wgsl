// Keeps the winner's rows: moves rows src..src+count of a block's caches to dst.., where dst ≤ src;
// `shared/cache/keep_*.wgsl` binds the caches. A thread owns two words of a row and proceeds
// upwards through the rows: overlapping moves need no scratch.
struct Params {
    pairs: u32,     // words of a row / 2
    capacity: u32,  // rows of the cache
    spare_a: u32,
    spare_b: u32,
}

@group(0) @binding(0) var<storage, read> moves: array<u32>;                 // [3] src, dst, count

const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let column = (group.y * groups.x + group.x) * WORKGROUP + local;
    if (column >= params.pairs || moves[1] >= moves[0]) {
        return;
    }
    // With any content of the buffer, no row outside the cache is touched.
    let src = min(moves[0], params.capacity);
    let count = min(moves[2], params.capacity - src);
    for (var i = 0u; i < count; i++) {
        keep((moves[1] + i) * params.pairs + column, (src + i) * params.pairs + column);
    }
}
