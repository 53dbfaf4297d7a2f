// Rotary embedding of the queries and keys, and the append of keys and values to the
// cache. A thread owns one pair of numbers of one head of one token: of a query (rotated
// in place), of a key (rotated into the cache) or of a value (copied into the cache).
struct Params {
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    half_width: u32,   // head width / 2
    half_rotary: u32,  // rotated numbers / 2
    capacity: u32,     // rows of the cache
    context: u32,      // rows of the table
    neighbours: u32,   // 0: pairs (i, i + half_rotary); 1: pairs (2i, 2i + 1)
}

@group(0) @binding(0) var<storage, read_write> q: array<f32>;           // [tokens, heads, width]
@group(0) @binding(1) var<storage, read> k: array<f32>;                 // [tokens, kv_heads, width]
@group(0) @binding(2) var<storage, read> v: array<f32>;                 // [tokens, kv_heads, width]
@group(0) @binding(3) var<storage, read_write> keys: array<f32>;        // [capacity, kv_heads, width]
@group(0) @binding(4) var<storage, read_write> values: array<f32>;      // [capacity, kv_heads, width]
@group(0) @binding(5) var<storage, read> tokens: array<vec4<u32>>;      // position, row, start, prefix
@group(0) @binding(6) var<storage, read> table: array<vec2<f32>>;       // [context, half_rotary] cos, sin
@group(0) @binding(7) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let item = (group.y * groups.x + group.x) * WORKGROUP + local;
    let heads = params.heads + 2u * params.kv_heads;
    let token = item / (heads * params.half_width);
    if (token >= params.tokens) {
        return;
    }
    let pair = item % params.half_width;
    let head = item / params.half_width % heads;
    let width = params.half_width * 2u;
    let place = tokens[token];
    let row = place.y;

    // Behind the rotated pairs follow the numbers that rotary embedding leaves alone.
    var i = pair * 2u;
    var j = i + 1u;
    var turn = vec2<f32>(1.0, 0.0);
    if (pair < params.half_rotary) {
        if (params.neighbours == 0u) {
            i = pair;
            j = pair + params.half_rotary;
        }
        turn = table[min(place.x, params.context - 1u) * params.half_rotary + pair];
    }

    if (head < params.heads) {
        let base = (token * params.heads + head) * width;
        let a = q[base + i];
        let b = q[base + j];
        q[base + i] = a * turn.x - b * turn.y;
        q[base + j] = b * turn.x + a * turn.y;
        return;
    }
    if (row >= params.capacity) {
        return;
    }
    if (head < params.heads + params.kv_heads) {
        let kv_head = head - params.heads;
        let base = (token * params.kv_heads + kv_head) * width;
        let into = (row * params.kv_heads + kv_head) * width;
        let a = k[base + i];
        let b = k[base + j];
        keys[into + i] = a * turn.x - b * turn.y;
        keys[into + j] = b * turn.x + a * turn.y;
        return;
    }
    let kv_head = head - params.heads - params.kv_heads;
    let base = (token * params.kv_heads + kv_head) * width;
    let into = (row * params.kv_heads + kv_head) * width;
    values[into + pair * 2u] = v[base + pair * 2u];
    values[into + pair * 2u + 1u] = v[base + pair * 2u + 1u];
}
