// Masked attention over the caches that `append` fills (`cache/read_*.wgsl` has their form). A query sees the rows of the prefix and, of
// what lies behind it, only its own candidate up to itself; so one kernel verifies in line,
// decodes and prefills. A workgroup takes four queries that share a key head, so that a key
// is read and unpacked once for four; keys pass in tiles of 64, a key a thread, and the
// softmax runs along (Milakov & Gimelshein 2018).
// Where few queries meet a long prefix, several workgroups share its keys in chunks and
// leave partial results for `attention_combine`.
struct Params {
    heads: u32,
    kv_heads: u32,
    quads: u32,     // head width / 4
    capacity: u32,  // rows of the cache
    window: u32,    // positions a query sees, itself included; 0: all
    scale: f32,
    softcap: f32,   // scores become softcap · tanh(score / softcap); 0: off
    spare: u32,
}

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;                // [m, heads, quads]
@group(0) @binding(3) var<storage, read> tokens: array<vec4<u32>>;           // [m] position, row, start, prefix
@group(0) @binding(4) var<storage, read> counts: array<u32>;                 // [2] m, chunks
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;        // [m, heads, quads]
@group(0) @binding(6) var<storage, read_write> partials: array<vec4<f32>>;   // [m, heads, chunks, quads + 1]
@group(0) @binding(7) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;
const QUERIES: u32 = 4u;
const LOWEST: f32 = -3.0e38;

var<workgroup> query: array<vec4<f32>, 256>;   // [QUERIES, quads]
var<workgroup> scores: array<vec4<f32>, 64>;   // of each key, with each query
var<workgroup> chances: array<vec4<f32>, 64>;
var<workgroup> sums: array<vec4<f32>, 256>;    // [QUERIES, WORKGROUP]
var<workgroup> totals: array<vec4<f32>, 64>;

// The rows a query sees: [seen, prefix) and [begin, row].
struct Sight {
    seen: u32,
    prefix: u32,
    begin: u32,
    row: u32,
}

fn sight(token: u32) -> Sight {
    let place = tokens[token];
    // Whatever the buffer says, no row outside the cache is read.
    let row = min(place.y, params.capacity - 1u);
    let start = min(place.z, row);
    let prefix = min(place.w, start);
    var seen = 0u;
    var begin = start;
    if (params.window > 0u) {
        if (place.x >= params.window) {
            seen = min(place.x - params.window + 1u, prefix);
        }
        if (row - start >= params.window) {
            begin = row + 1u - params.window;
        }
    }
    return Sight(seen, prefix, begin, row);
}

fn sees(s: Sight, row: u32) -> bool {
    return (row >= s.seen && row < s.prefix) || (row >= s.begin && row <= s.row);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let quads = params.quads;
    let kv_head = group.x;
    let share = params.heads / params.kv_heads;
    let count = counts[0] * share;
    let chunks = counts[1];
    let first = group.y * QUERIES;
    if (first >= count || group.z >= chunks) {
        return;
    }
    // Queries past the end repeat the last one; their results are not written.
    let item = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
    let token = item / share;
    let head = kv_head * share + item % share;
    let s0 = sight(token.x);
    let s1 = sight(token.y);
    let s2 = sight(token.z);
    let s3 = sight(token.w);

    for (var i = local; i < QUERIES * quads; i += WORKGROUP) {
        let which = i / quads;
        query[i] = q[(token[which] * params.heads + head[which]) * quads + i % quads] * params.scale;
    }

    // All rows that any of the four sees: [low, top) and [begin, end).
    let top = max(max(s0.prefix, s1.prefix), max(s2.prefix, s3.prefix));
    let earliest = min(min(s0.begin, s1.begin), min(s2.begin, s3.begin));
    let low = min(min(min(s0.seen, s1.seen), min(s2.seen, s3.seen)), min(earliest, top));
    let begin = max(earliest, top);
    let end = max(max(s0.row, s1.row), max(s2.row, s3.row)) + 1u;
    let behind = top - low;
    let all = behind + max(end, begin) - begin;
    // This workgroup's share of them, in whole tiles.
    let span = ((all + chunks - 1u) / chunks + WORKGROUP - 1u) / WORKGROUP * WORKGROUP;
    let from_key = min(group.z * span, all);
    let to_key = min(from_key + span, all);
    workgroupBarrier();

    // A thread owns one quad of the outputs and every parts-th key of a tile.
    let parts = WORKGROUP / quads;
    let part = local / quads;
    let lane = local % quads;
    let line = params.kv_heads * elements_of_head();
    let column_of_head = kv_head * elements_of_head();

    var highest = vec4<f32>(LOWEST);
    var total = vec4<f32>(0.0);
    var sum0 = vec4<f32>(0.0);
    var sum1 = vec4<f32>(0.0);
    var sum2 = vec4<f32>(0.0);
    var sum3 = vec4<f32>(0.0);
    for (var tile = from_key; tile < to_key; tile += WORKGROUP) {
        let key = tile + local;
        var score = vec4<f32>(LOWEST);
        var seen = vec4<bool>(false);
        if (key < to_key) {
            let row = select(begin + key - behind, low + key, key < behind);
            let at = row * line + column_of_head;
            var dots = vec4<f32>(0.0);
            for (var i = 0u; i < quads; i++) {
                let k = key_quad(at, i);
                dots += vec4<f32>(
                    dot(query[i], k),
                    dot(query[quads + i], k),
                    dot(query[2u * quads + i], k),
                    dot(query[3u * quads + i], k),
                );
            }
            dots *= key_unit(at);
            if (params.softcap > 0.0) {
                // tanh is 1 in f32 from 10 on; some drivers make it NaN far out.
                dots = params.softcap
                    * tanh(clamp(dots / params.softcap, vec4<f32>(-10.0), vec4<f32>(10.0)));
            }
            seen = vec4<bool>(sees(s0, row), sees(s1, row), sees(s2, row), sees(s3, row));
            score = select(score, dots, seen);
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
            let limit = min(WORKGROUP, to_key - tile);
            for (var i = part; i < limit; i += parts) {
                let its_key = tile + i;
                let row = select(begin + its_key - behind, low + its_key, its_key < behind);
                let at = row * line + column_of_head;
                let v = value_quad(at, lane);
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

    for (var i = local; i < QUERIES * quads; i += WORKGROUP) {
        let which = i / quads;
        if (first + which < count) {
            let column = i % quads;
            var whole = vec4<f32>(0.0);
            var weight = 0.0;
            for (var p = 0u; p < parts; p++) {
                whole += sums[which * WORKGROUP + p * quads + column];
                weight += totals[p * quads + column][which];
            }
            let into = token[which] * params.heads + head[which];
            if (chunks == 1u) {
                out[into * quads + column] = whole / weight;
            } else {
                let chunk = (into * chunks + group.z) * (quads + 1u);
                partials[chunk + column] = whole;
                if (column == 0u) {
                    partials[chunk + quads] = vec4<f32>(highest[which], weight, 0.0, 0.0);
                }
            }
        }
    }
}
