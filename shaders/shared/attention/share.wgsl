// A share of masked attention: four queries of a key head, and the keys of one chunk. A query sees
// the rows of the prefix and, after it, only its own candidate up to itself; so one kernel verifies
// in line, decodes and prefills. Where few queries meet a long prefix, its keys are divided into
// chunks, whose partial results are then joined.
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
// [m] position, row, start, prefix
@group(0) @binding(3) var<storage, read> tokens: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> counts: array<u32>;                 // [2] m, chunks
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;        // [m, heads, quads]
// [m, heads, chunks, quads + 1]
@group(0) @binding(6) var<storage, read_write> partials: array<vec4<f32>>;
@group(0) @binding(7) var<uniform> params: Params;

const QUERIES: u32 = 4u;
const LOWEST: f32 = -3.0e38;

// The rows visible to a query: [seen, prefix) and [begin, row], of a candidate from `start` on.
struct Sight {
    seen: u32,
    prefix: u32,
    start: u32,
    begin: u32,
    row: u32,
}

fn sight(token: u32) -> Sight {
    let place = tokens[token];
    // With any content of the buffer, no row outside the cache is read.
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
    return Sight(seen, prefix, start, begin, row);
}

fn sees(s: Sight, row: u32) -> bool {
    return (row >= s.seen && row < s.prefix) || (row >= s.begin && row <= s.row);
}

// Queries past the end repeat the last one; their results are not written.
struct Share {
    token: vec4<u32>,
    head: vec4<u32>,
    s0: Sight,
    s1: Sight,
    s2: Sight,
    s3: Sight,
    // All rows visible to any of the four, [low, low + prefix_rows) and [begin, …), are numbered as
    // keys; those of this chunk are [from_key, to_key).
    low: u32,
    prefix_rows: u32,
    begin: u32,
    from_key: u32,
    to_key: u32,
}

// The share of the queries from `first` on, of `count` of a key head. Chunks are whole tiles.
fn share_of(kv_head: u32, first: u32, count: u32, chunk: u32, tile: u32) -> Share {
    let each = params.heads / params.kv_heads;
    let item = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
    let token = item / each;
    let head = kv_head * each + item % each;
    let s0 = sight(token.x);
    let s1 = sight(token.y);
    let s2 = sight(token.z);
    let s3 = sight(token.w);
    let top = max(max(s0.prefix, s1.prefix), max(s2.prefix, s3.prefix));
    let earliest = min(min(s0.begin, s1.begin), min(s2.begin, s3.begin));
    let low = min(min(min(s0.seen, s1.seen), min(s2.seen, s3.seen)), min(earliest, top));
    let begin = max(earliest, top);
    let end = max(max(s0.row, s1.row), max(s2.row, s3.row)) + 1u;
    let prefix_rows = top - low;
    let all = prefix_rows + max(end, begin) - begin;
    let chunks = counts[1];
    let span = ((all + chunks - 1u) / chunks + tile - 1u) / tile * tile;
    let from_key = min(chunk * span, all);
    let to_key = min(from_key + span, all);
    return Share(token, head, s0, s1, s2, s3, low, prefix_rows, begin, from_key, to_key);
}

// The row of a key.
fn row_of(share: Share, key: u32) -> u32 {
    return select(share.begin + key - share.prefix_rows, share.low + key, key < share.prefix_rows);
}

// Whether each of the four queries sees a row.
fn seen_by(share: Share, row: u32) -> vec4<bool> {
    return vec4<bool>(sees(share.s0, row), sees(share.s1, row), sees(share.s2, row), sees(share.s3, row));
}

fn capped(dots: vec4<f32>) -> vec4<f32> {
    if (params.softcap > 0.0) {
        // tanh is 1 in f32 from 10 on; some drivers make it NaN far out.
        return params.softcap * tanh(clamp(dots / params.softcap, vec4<f32>(-10.0), vec4<f32>(10.0)));
    }
    return dots;
}

// Writes a quad of the sum over the values of a head's query, or the partial result to be joined
// with other chunks.
fn put(into: u32, chunk: u32, column: u32, sum: vec4<f32>, weight: f32, highest: f32) {
    let quads = params.quads;
    if (counts[1] == 1u) {
        out[into * quads + column] = sum / weight;
        return;
    }
    let at = (into * counts[1] + chunk) * (quads + 1u);
    partials[at + column] = sum;
    if (column == 0u) {
        partials[at + quads] = vec4<f32>(highest, weight, 0.0, 0.0);
    }
}
