// Masked attention over the caches filled by `append` (read by `shared/cache/read_*.wgsl`). A
// workgroup takes a share, four queries of a key head, so that a key is read and unpacked once for
// four; keys pass in tiles of 64, a key for each thread, with an online softmax (Milakov &
// Gimelshein 2018). For heads wider than the workgroup's threads, two workgroups compute the same
// weights and each its own columns.
const WORKGROUP: u32 = 64u;

var<workgroup> query: array<vec4<f32>, QUERIES * MAX_QUADS>;   // [QUERIES, quads]
var<workgroup> scores: array<vec4<f32>, 64>;   // of each key, with each query
var<workgroup> chances: array<vec4<f32>, 64>;
var<workgroup> sums: array<vec4<f32>, 256>;    // [QUERIES, WORKGROUP]
var<workgroup> totals: array<vec4<f32>, 64>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let quads = params.quads;
    let kv_head = group.x % params.kv_heads;
    let first_column = group.x / params.kv_heads * WORKGROUP;
    let columns = min(quads - first_column, WORKGROUP);
    let count = counts[0] * (params.heads / params.kv_heads);
    let first = group.y * QUERIES;
    if (first >= count || group.z >= counts[1]) {
        return;
    }
    let share = share_of(kv_head, first, count, group.z, WORKGROUP);
    for (var i = local; i < QUERIES * quads; i += WORKGROUP) {
        let which = i / quads;
        let from_query = (share.token[which] * params.heads + share.head[which]) * quads;
        query[i] = q[from_query + i % quads] * params.scale;
    }
    workgroupBarrier();

    // A thread owns one quad of the outputs and every parts-th key of a tile.
    let parts = WORKGROUP / columns;
    let part = local / columns;
    let lane = first_column + local % columns;
    let line = params.kv_heads * elements_of_head();
    let column_of_head = kv_head * elements_of_head();

    var highest = vec4<f32>(LOWEST);
    var total = vec4<f32>(0.0);
    var sum0 = vec4<f32>(0.0);
    var sum1 = vec4<f32>(0.0);
    var sum2 = vec4<f32>(0.0);
    var sum3 = vec4<f32>(0.0);
    for (var tile = share.from_key; tile < share.to_key; tile += WORKGROUP) {
        let key = tile + local;
        var score = vec4<f32>(LOWEST);
        var seen = vec4<bool>(false);
        if (key < share.to_key) {
            let row = row_of(share, key);
            let at = row * line + column_of_head;
            var dots = vec4<f32>(0.0);
            for (var i = 0u; i < quads; i++) {
                let units = key_units(at, i);
                let k = key_quad(at, i) * select(units.x, units.y, i % 4u > 1u);
                dots += vec4<f32>(
                    dot(query[i], k),
                    dot(query[quads + i], k),
                    dot(query[2u * quads + i], k),
                    dot(query[3u * quads + i], k),
                );
            }
            seen = seen_by(share, row);
            score = select(score, capped(dots), seen);
        }
        scores[local] = score;
        workgroupBarrier();
        var peak = highest;
        for (var i = 0u; i < WORKGROUP; i++) {
            peak = max(peak, scores[i]);
        }
        chances[local] = select(vec4<f32>(0.0), exp(score - peak), seen);
        let fade = exp(highest - peak);
        highest = peak;
        workgroupBarrier();
        total *= fade;
        sum0 *= fade.x;
        sum1 *= fade.y;
        sum2 *= fade.z;
        sum3 *= fade.w;
        if (part < parts) {
            let limit = min(WORKGROUP, share.to_key - tile);
            for (var i = part; i < limit; i += parts) {
                let at = row_of(share, tile + i) * line + column_of_head;
                let units = value_units(at, lane);
                let v = value_quad(at, lane) * select(units.x, units.y, lane % 4u > 1u);
                let chance = chances[i];
                total += chance;
                sum0 += chance.x * v;
                sum1 += chance.y * v;
                sum2 += chance.z * v;
                sum3 += chance.w * v;
            }
        }
    }
    totals[local] = total;
    sums[local] = sum0;
    sums[WORKGROUP + local] = sum1;
    sums[2u * WORKGROUP + local] = sum2;
    sums[3u * WORKGROUP + local] = sum3;
    workgroupBarrier();

    for (var i = local; i < QUERIES * columns; i += WORKGROUP) {
        let which = i / columns;
        if (first + which < count) {
            let column = i % columns;
            var whole = vec4<f32>(0.0);
            var weight = 0.0;
            for (var p = 0u; p < parts; p++) {
                whole += sums[which * WORKGROUP + p * columns + column];
                weight += totals[p * columns + column][which];
            }
            let into = share.token[which] * params.heads + share.head[which];
            put(into, group.z, first_column + column, whole, weight, highest[which]);
        }
    }
}
