// Masked attention by serial threads: each takes a share, four keys at a time. The chunks of a
// query's keys lie side by side in a workgroup, which joins them after its only barrier.

// At least the lanes of a CPU emulating a GPU: lavapipe loses its place in a loop after a barrier
// where lanes are left over.
const WORKGROUP: u32 = 8u;
const TILE: u32 = 4u;
const UNROLLED: u32 = 4u;  // quads
const NARROW: u32 = 32u;   // quads, at most, of heads for which all threads have room
// quads, at most, of heads for which half of them have, and a quarter beyond
const WIDE: u32 = 64u;

var<workgroup> sums: array<vec4<f32>, 1024>;  // [threads, QUERIES · quads], each thread's its own

// The dot products of four keys, each with four queries.
struct Dots {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

fn multiply(so_far: Dots, queries: vec4<u32>, at: vec4<u32>, j: u32) -> Dots {
    let quad = mat4x4<f32>(q[queries.x + j], q[queries.y + j], q[queries.z + j], q[queries.w + j]);
    return Dots(
        so_far.a + key_quad(at.x, j) * quad,
        so_far.b + key_quad(at.y, j) * quad,
        so_far.c + key_quad(at.z, j) * quad,
        so_far.d + key_quad(at.w, j) * quad,
    );
}

// The scores of a row with each query; LOWEST where the query does not see it.
fn score(share: Share, row: u32, dots: vec4<f32>, at: u32) -> vec4<f32> {
    let found = capped(dots * (params.scale * key_unit(at)));
    return select(vec4<f32>(LOWEST), found, seen_by(share, row));
}

// Multiplies quad j of each query's sum.
fn fade_quad(own: u32, fade: vec4<f32>, j: u32) {
    let at = own + QUERIES * j;
    sums[at] *= fade.x;
    sums[at + 1u] *= fade.y;
    sums[at + 2u] *= fade.z;
    sums[at + 3u] *= fade.w;
}

// Adds quad j of four values to the sum of each query, with the factors in the rows of `parts`.
fn add(own: u32, parts: mat4x4<f32>, at: vec4<u32>, j: u32) {
    let values = mat4x4<f32>(
        value_quad(at.x, j),
        value_quad(at.y, j),
        value_quad(at.z, j),
        value_quad(at.w, j),
    );
    let all = values * parts;
    let into = own + QUERIES * j;
    sums[into] += all[0];
    sums[into + 1u] += all[1];
    sums[into + 2u] += all[2];
    sums[into + 3u] += all[3];
}

// Attention of the queries from `first` on over the keys of a chunk.
fn attend(kv_head: u32, first: u32, count: u32, chunk: u32, local: u32) {
    let quads = params.quads;
    let share = share_of(kv_head, first, count, chunk, TILE);
    let queries = (share.token * params.heads + share.head) * quads;
    let line = params.kv_heads * elements_of_head();
    let column_of_head = kv_head * elements_of_head();
    let own = local * QUERIES * quads;
    for (var i = 0u; i < QUERIES * quads; i++) {
        sums[own + i] = vec4<f32>(0.0);
    }

    var highest = vec4<f32>(LOWEST);
    var total = vec4<f32>(0.0);
    for (var tile = share.from_key; tile < share.to_key; tile += TILE) {
        // Keys past the end repeat the last one, and count nothing.
        let key = min(vec4<u32>(tile) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(share.to_key - 1u));
        let row = vec4<u32>(
            row_of(share, key.x),
            row_of(share, key.y),
            row_of(share, key.z),
            row_of(share, key.w),
        );
        let at = row * line + column_of_head;
        var all = Dots(vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0));
        for (var j = 0u; j < quads; j += UNROLLED) {
            all = multiply(all, queries, at, j);
            if (j + 1u < quads) {
                all = multiply(all, queries, at, j + 1u);
            }
            if (j + 2u < quads) {
                all = multiply(all, queries, at, j + 2u);
            }
            if (j + 3u < quads) {
                all = multiply(all, queries, at, j + 3u);
            }
        }
        var d0 = score(share, row.x, all.a, at.x);
        var d1 = select(vec4<f32>(LOWEST), score(share, row.y, all.b, at.y), key.y > key.x);
        var d2 = select(vec4<f32>(LOWEST), score(share, row.z, all.c, at.z), key.z > key.y);
        var d3 = select(vec4<f32>(LOWEST), score(share, row.w, all.d, at.w), key.w > key.z);
        let peak = max(highest, max(max(d0, d1), max(d2, d3)));
        if (any(peak > highest)) {
            let fade = exp(highest - peak);
            total *= fade;
            for (var j = 0u; j < quads; j += UNROLLED) {
                fade_quad(own, fade, j);
                if (j + 1u < quads) {
                    fade_quad(own, fade, j + 1u);
                }
                if (j + 2u < quads) {
                    fade_quad(own, fade, j + 2u);
                }
                if (j + 3u < quads) {
                    fade_quad(own, fade, j + 3u);
                }
            }
            highest = peak;
        }
        d0 = select(vec4<f32>(0.0), exp(d0 - peak), d0 > vec4<f32>(LOWEST));
        d1 = select(vec4<f32>(0.0), exp(d1 - peak), d1 > vec4<f32>(LOWEST));
        d2 = select(vec4<f32>(0.0), exp(d2 - peak), d2 > vec4<f32>(LOWEST));
        d3 = select(vec4<f32>(0.0), exp(d3 - peak), d3 > vec4<f32>(LOWEST));
        total += (d0 + d1) + (d2 + d3);
        let parts = transpose(mat4x4<f32>(
            d0 * value_unit(at.x),
            d1 * value_unit(at.y),
            d2 * value_unit(at.z),
            d3 * value_unit(at.w),
        ));
        for (var j = 0u; j < quads; j += UNROLLED) {
            add(own, parts, at, j);
            if (j + 1u < quads) {
                add(own, parts, at, j + 1u);
            }
            if (j + 2u < quads) {
                add(own, parts, at, j + 2u);
            }
            if (j + 3u < quads) {
                add(own, parts, at, j + 3u);
            }
        }
    }
    for (var i = 0u; i < QUERIES * quads; i++) {
        let which = i % QUERIES;
        if (first + which < count) {
            let into = share.token[which] * params.heads + share.head[which];
            put(into, chunk, i / QUERIES, sums[own + i], total[which], highest[which]);
        }
    }
}

// A thread of each chunk joins its part of the chunks' results.
fn join(kv_head: u32, first: u32, count: u32, chunk: u32) {
    let quads = params.quads;
    let chunks = counts[1];
    let each = params.heads / params.kv_heads;
    for (var query = first; query < min(first + QUERIES, count); query++) {
        let into = query / each * params.heads + kv_head * each + query % each;
        for (var j = chunk; j < quads; j += chunks) {
            out[into * quads + j] = joined(into * chunks * (quads + 1u), chunks, quads, j);
        }
    }
}

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let chunks = counts[1];
    let most = select(WORKGROUP / 4u, WORKGROUP / 2u, params.quads <= WIDE);
    let shares = select(most, WORKGROUP, params.quads <= NARROW);
    let item = (group.y * groups.x + group.x) * shares + local;
    let chunk = item % chunks;
    let kv_head = item / chunks % params.kv_heads;
    let count = counts[0] * (params.heads / params.kv_heads);
    let first = item / (chunks * params.kv_heads) * QUERIES;
    let there = local < shares && first < count;
    if (there) {
        attend(kv_head, first, count, chunk, local);
    }
    storageBarrier();
    if (there && chunks > 1u) {
        join(kv_head, first, count, chunk);
    }
}
