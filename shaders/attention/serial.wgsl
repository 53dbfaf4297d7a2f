// Masked attention by serial threads: each takes four keys of a share at a time, at positions that
// are multiples of four, of which the threads of a share take every so manyth. So a query's sums
// are the same in whichever pass it is, and wherever its candidate's rows lie. The chunks of its
// keys, one a thread, lie side by side in a workgroup, which joins them after its only barriers.

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

fn multiply(so_far: Dots, queries: vec4<u32>, at: vec4<u32>, units: vec4<f32>, j: u32) -> Dots {
    let quad = mat4x4<f32>(q[queries.x + j], q[queries.y + j], q[queries.z + j], q[queries.w + j]);
    return Dots(
        so_far.a + key_quad(at.x, j) * units.x * quad,
        so_far.b + key_quad(at.y, j) * units.y * quad,
        so_far.c + key_quad(at.z, j) * units.z * quad,
        so_far.d + key_quad(at.w, j) * units.w * quad,
    );
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
fn add(own: u32, parts: mat4x4<f32>, at: vec4<u32>, units: vec4<f32>, j: u32) {
    let values = mat4x4<f32>(
        value_quad(at.x, j) * units.x,
        value_quad(at.y, j) * units.y,
        value_quad(at.z, j) * units.z,
        value_quad(at.w, j) * units.w,
    );
    let all = values * parts;
    let into = own + QUERIES * j;
    sums[into] += all[0];
    sums[into + 1u] += all[1];
    sums[into + 2u] += all[2];
    sums[into + 3u] += all[3];
}

// Some rows of a share: those at the positions of the tiles [from_tile, to_tile), of which those
// before `prefix` are rows of the prefix, and others of the candidate that begins at row `start`.
struct Part {
    from_tile: u32,
    to_tile: u32,
    last: u32,           // position
    prefix: u32,
    start: u32,
    queries: vec4<bool>,
}

// The first position that a query sees, and its last.
fn first_seen(s: Sight) -> u32 {
    return select(s.prefix + s.begin - s.start, s.seen, s.seen < s.prefix);
}

fn last_seen(s: Sight) -> u32 {
    return s.prefix + s.row - s.start;
}

// Part 0 has the tiles that are in the prefix of all four queries; then follow the other tiles of
// each of their candidates.
fn part_of(share: Share, number: u32) -> Part {
    let prefix = vec4<u32>(share.s0.prefix, share.s1.prefix, share.s2.prefix, share.s3.prefix);
    let start = vec4<u32>(share.s0.start, share.s1.start, share.s2.start, share.s3.start);
    let first = vec4<u32>(
        first_seen(share.s0),
        first_seen(share.s1),
        first_seen(share.s2),
        first_seen(share.s3),
    );
    let last = vec4<u32>(
        last_seen(share.s0),
        last_seen(share.s1),
        last_seen(share.s2),
        last_seen(share.s3),
    );
    let prefix_tiles = min(min(prefix.x, prefix.y), min(prefix.z, prefix.w)) / TILE;
    let all = vec4<bool>(true);
    if (number == 0u) {
        let from_tile = min(min(first.x, first.y), min(first.z, first.w)) / TILE;
        return Part(from_tile, prefix_tiles, prefix_tiles * TILE, prefix.x, start.x, all);
    }
    let which = number - 1u;
    let same = (prefix == vec4<u32>(prefix[which])) & (start == vec4<u32>(start[which]));
    for (var before = 0u; before < which; before++) {
        if (same[before]) {
            return Part(0u, 0u, 0u, 0u, 0u, same);
        }
    }
    let firsts = select(vec4<u32>(0xffffffffu), first, same);
    let lasts = select(vec4<u32>(0u), last, same);
    let earliest = min(min(firsts.x, firsts.y), min(firsts.z, firsts.w));
    let latest = max(max(lasts.x, lasts.y), max(lasts.z, lasts.w));
    let from_tile = max(prefix_tiles, earliest / TILE);
    return Part(from_tile, latest / TILE + 1u, latest, prefix[which], start[which], same);
}

// The row at a position.
fn row_at(part: Part, position: u32) -> u32 {
    return select(part.start + position - part.prefix, position, position < part.prefix);
}

// The scores of a position's row with each query; LOWEST where the query does not see it.
fn score(share: Share, part: Part, position: u32, dots: vec4<f32>) -> vec4<f32> {
    let seen = part.queries & seen_by(share, row_at(part, position));
    return select(vec4<f32>(LOWEST), capped(dots * params.scale), seen);
}

// Attention of the queries from `first` on over the keys of a chunk.
fn attend(kv_head: u32, first: u32, count: u32, chunk: u32, local: u32) {
    let quads = params.quads;
    let chunks = counts[1];
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
    for (var number = 0u; number <= QUERIES; number++) {
        let part = part_of(share, number);
        let turn = part.from_tile / chunks * chunks + chunk;
        for (
            var tile = select(turn, turn + chunks, turn < part.from_tile);
            tile < part.to_tile;
            tile += chunks
        ) {
            let position = vec4<u32>(tile * TILE) + vec4<u32>(0u, 1u, 2u, 3u);
            // Positions past the last repeat it, and count nothing.
            let there = min(position, vec4<u32>(part.last));
            let row = vec4<u32>(
                row_at(part, there.x),
                row_at(part, there.y),
                row_at(part, there.z),
                row_at(part, there.w),
            );
            let at = row * line + column_of_head;
            var all = Dots(vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0));
            for (var j = 0u; j < quads; j += UNROLLED) {
                let units = transpose(mat4x2<f32>(
                    key_units(at.x, j),
                    key_units(at.y, j),
                    key_units(at.z, j),
                    key_units(at.w, j),
                ));
                all = multiply(all, queries, at, units[0], j);
                if (j + 1u < quads) {
                    all = multiply(all, queries, at, units[0], j + 1u);
                }
                if (j + 2u < quads) {
                    all = multiply(all, queries, at, units[1], j + 2u);
                }
                if (j + 3u < quads) {
                    all = multiply(all, queries, at, units[1], j + 3u);
                }
            }
            var d0 = score(share, part, position.x, all.a);
            var d1 = score(share, part, position.y, all.b);
            var d2 = score(share, part, position.z, all.c);
            var d3 = score(share, part, position.w, all.d);
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
            let parts = transpose(mat4x4<f32>(d0, d1, d2, d3));
            for (var j = 0u; j < quads; j += UNROLLED) {
                let units = transpose(mat4x2<f32>(
                    value_units(at.x, j),
                    value_units(at.y, j),
                    value_units(at.z, j),
                    value_units(at.w, j),
                ));
                add(own, parts, at, units[0], j);
                if (j + 1u < quads) {
                    add(own, parts, at, units[0], j + 1u);
                }
                if (j + 2u < quads) {
                    add(own, parts, at, units[1], j + 2u);
                }
                if (j + 3u < quads) {
                    add(own, parts, at, units[1], j + 3u);
                }
            }
        }
    }
    for (var which = 0u; which < QUERIES && first + which < count; which++) {
        let into = share.token[which] * params.heads + share.head[which];
        if (chunks > 1u) {
            partials[into * chunks + chunk] = vec4<f32>(highest[which], total[which], 0.0, 0.0);
            continue;
        }
        for (var j = 0u; j < quads; j++) {
            out[into * quads + j] = sums[own + QUERIES * j + which] / total[which];
        }
    }
}

// A thread of each chunk joins its part of the chunks' results; those of all lie from that of the
// thread `begin` on.
fn join(kv_head: u32, first: u32, count: u32, chunk: u32, begin: u32) {
    let quads = params.quads;
    let chunks = counts[1];
    let each = params.heads / params.kv_heads;
    for (var which = 0u; which < QUERIES && first + which < count; which++) {
        let query = first + which;
        let into = query / each * params.heads + kv_head * each + query % each;
        var top = LOWEST;
        for (var i = 0u; i < chunks; i++) {
            top = max(top, partials[into * chunks + i].x);
        }
        for (var j = chunk; j < quads; j += chunks) {
            var whole = vec4<f32>(0.0);
            var weight = 0.0;
            for (var i = 0u; i < chunks; i++) {
                let its = partials[into * chunks + i];
                let fade = exp(its.x - top);
                whole += fade * sums[((begin + i) * quads + j) * QUERIES + which];
                weight += fade * its.y;
            }
            out[into * quads + j] = whole / weight;
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
    workgroupBarrier();
    if (there && chunks > 1u) {
        join(kv_head, first, count, chunk, local - chunk);
    }
}
