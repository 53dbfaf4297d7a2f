// Masked attention for verifying in line: a query sees the rows of the prefix and, of
// what lies behind it, only its own candidate up to itself. Decode and prefill are the
// same with one candidate that starts where the prefix ends.
// One workgroup a token and head. Keys pass in tiles of 64, a key a thread; the softmax
// runs along (Milakov & Gimelshein 2018), so that no tile but the current one is kept.
struct Params {
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    quads: u32,       // head width / 4
    capacity: u32,    // rows of the cache
    window: u32,      // positions a query sees, itself included; 0: all
    scale: f32,
    softcap: f32,     // scores become softcap · tanh(score / softcap); 0: off
}

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;          // [tokens, heads, quads]
@group(0) @binding(1) var<storage, read> keys: array<vec4<f32>>;       // [capacity, kv_heads, quads]
@group(0) @binding(2) var<storage, read> values: array<vec4<f32>>;     // [capacity, kv_heads, quads]
@group(0) @binding(3) var<storage, read> tokens: array<vec4<u32>>;     // position, row, start, prefix
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;  // [tokens, heads, quads]
@group(0) @binding(5) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;
const LOWEST: f32 = -3.0e38;

var<workgroup> query: array<vec4<f32>, 64>;
var<workgroup> scores: array<f32, 64>;
var<workgroup> chances: array<f32, 64>;
var<workgroup> sums: array<vec4<f32>, 64>;
var<workgroup> totals: array<f32, 64>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let head = group.x;
    let token = group.y;
    let place = tokens[token];
    let position = place.x;
    // Whatever the buffer says, no row outside the cache is read.
    let row = min(place.y, params.capacity - 1u);
    let start = min(place.z, row);
    let prefix = min(place.w, start);

    // The rows a query sees: [seen, prefix) and [begin, row].
    var seen = 0u;
    var begin = start;
    if (params.window > 0u) {
        if (position + 1u > params.window) {
            seen = min(position + 1u - params.window, prefix);
        }
        if (row - start >= params.window) {
            begin = row + 1u - params.window;
        }
    }
    let behind = prefix - seen;
    let count = behind + (row + 1u - begin);

    let quads = params.quads;
    let kv_head = head / (params.heads / params.kv_heads);
    let stride = params.kv_heads * quads;
    let kv_base = kv_head * quads;
    let q_base = (token * params.heads + head) * quads;

    if (local < quads) {
        query[local] = q[q_base + local] * params.scale;
    }
    workgroupBarrier();

    // A thread owns one quad of the output and every parts-th key of a tile.
    let parts = WORKGROUP / quads;
    let part = local / quads;
    let lane = local % quads;

    var highest = LOWEST;
    var sum = vec4<f32>(0.0);
    var total = 0.0;
    for (var tile = 0u; tile < count; tile += WORKGROUP) {
        let key = tile + local;
        var score = LOWEST;
        if (key < count) {
            let at = select(begin + key - behind, seen + key, key < behind) * stride + kv_base;
            score = 0.0;
            for (var i = 0u; i < quads; i++) {
                score += dot(query[i], keys[at + i]);
            }
            if (params.softcap > 0.0) {
                // tanh is 1 in f32 from 10 on; some drivers make it NaN far out.
                score = params.softcap * tanh(clamp(score / params.softcap, -10.0, 10.0));
            }
        }
        scores[local] = score;
        workgroupBarrier();
        var top = highest;
        for (var i = 0u; i < WORKGROUP; i++) {
            top = max(top, scores[i]);
        }
        chances[local] = select(0.0, exp(score - top), key < count);
        let fade = exp(highest - top);
        highest = top;
        workgroupBarrier();
        sum *= fade;
        total *= fade;
        if (part < parts) {
            let limit = min(WORKGROUP, count - tile);
            for (var i = part; i < limit; i += parts) {
                let seen_key = tile + i;
                let at = select(begin + seen_key - behind, seen + seen_key, seen_key < behind) * stride
                    + kv_base;
                sum += chances[i] * values[at + lane];
                total += chances[i];
            }
        }
    }
    sums[local] = sum;
    totals[local] = total;
    workgroupBarrier();
    if (local < quads) {
        var whole = vec4<f32>(0.0);
        var weight = 0.0;
        for (var i = 0u; i < parts; i++) {
            whole += sums[i * quads + local];
            weight += totals[i * quads + local];
        }
        out[q_base + local] = whole / weight;
    }
}
