// Norm and rotary embedding of queries and keys, and the append of keys and values to the
// cache, out of one row of q, k and v a token. A workgroup owns one head of one token: of a
// query, a key or a value. How the cache has a head is the business of `cache/write_*.wgsl`:
// as it is, or as shares of its largest number, 16 bits each (against f16 four bits more where
// it counts), which that number follows.
// Queries go to a buffer of their own, since a norm of all heads is read by each of them.
struct Params {
    heads: u32,
    kv_heads: u32,
    width: u32,        // numbers of a head
    half_rotary: u32,  // rotated numbers / 2
    capacity: u32,     // rows of the cache
    context: u32,      // rows of the table
    normed: u32,       // 0: no norm; 1: of each head; 2: of all heads together
    epsilon: f32,
}

@group(0) @binding(0) var<storage, read> qkv: array<f32>;               // [tokens, heads + 2 kv_heads, width]
@group(0) @binding(1) var<storage, read_write> q: array<f32>;           // [tokens, heads, width]
@group(0) @binding(2) var<storage, read_write> keys: array<u32>;        // [capacity, kv_heads, words of a head]
@group(0) @binding(3) var<storage, read_write> values: array<u32>;      // [capacity, kv_heads, words of a head]
@group(0) @binding(4) var<storage, read> tokens: array<vec4<u32>>;      // position, row, start, prefix
@group(0) @binding(5) var<storage, read> table: array<vec2<f32>>;       // [context, half_rotary] cos, sin
@group(0) @binding(6) var<storage, read> q_norm: array<f32>;            // [width] or [heads, width]
@group(0) @binding(7) var<storage, read> k_norm: array<f32>;            // [width] or [kv_heads, width]
@group(0) @binding(8) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;

var<workgroup> numbers: array<f32, 256>;
var<workgroup> squares: array<f32, 64>;
var<workgroup> peaks: array<f32, 64>;

// Number i of the head behind the rotation at this row of the table.
fn turned(i: u32, turns: u32) -> f32 {
    let half = params.half_rotary;
    if (i < half) {
        let turn = table[turns + i];
        return numbers[i] * turn.x - numbers[i + half] * turn.y;
    }
    if (i < 2u * half) {
        let turn = table[turns + i - half];
        return numbers[i] * turn.x + numbers[i - half] * turn.y;
    }
    return numbers[i];
}

// Number i as the cache has it: values do not turn.
fn cached(i: u32, turns: u32, is_value: bool) -> f32 {
    if (is_value) {
        return numbers[i];
    }
    return turned(i, turns);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let head = group.x;
    let place = tokens[group.y];
    let width = params.width;
    let row = group.y * (params.heads + 2u * params.kv_heads) * width;
    let base = row + head * width;
    let is_query = head < params.heads;
    let is_value = head >= params.heads + params.kv_heads;

    // The numbers of the norm: this head's, or those of all its kind.
    var begin = base;
    var count = width;
    if (params.normed == 2u) {
        begin = row + select(params.heads * width, 0u, is_query);
        count = width * select(params.kv_heads, params.heads, is_query);
    }
    var sum = 0.0;
    if (params.normed > 0u && !is_value) {
        for (var i = local; i < count; i += WORKGROUP) {
            let v = qkv[begin + i];
            sum += v * v;
        }
    }
    squares[local] = sum;
    for (var i = local; i < width; i += WORKGROUP) {
        numbers[i] = qkv[base + i];
    }
    workgroupBarrier();
    if (params.normed > 0u && !is_value) {
        var total = 0.0;
        for (var i = 0u; i < WORKGROUP; i++) {
            total += squares[i];
        }
        let factor = inverseSqrt(total / f32(count) + params.epsilon);
        // Behind a norm of all heads, each has its own weights.
        let weights = select(0u, base - begin, params.normed == 2u);
        for (var i = local; i < width; i += WORKGROUP) {
            if (is_query) {
                numbers[i] *= factor * q_norm[weights + i];
            } else {
                numbers[i] *= factor * k_norm[weights + i];
            }
        }
    }
    workgroupBarrier();

    let turns = min(place.x, params.context - 1u) * params.half_rotary;
    var peak = 0.0;
    for (var i = local; i < width; i += WORKGROUP) {
        peak = max(peak, abs(cached(i, turns, is_value)));
    }
    peaks[local] = peak;
    workgroupBarrier();
    if (is_query) {
        for (var i = local; i < width; i += WORKGROUP) {
            q[(group.y * params.heads + head) * width + i] = turned(i, turns);
        }
        return;
    }
    if (place.y >= params.capacity) {
        return;
    }
    var unit = 0.0;
    for (var i = 0u; i < WORKGROUP; i++) {
        unit = max(unit, peaks[i]);
    }
    let words = words_of_head();
    let kv_head = (head - params.heads) % params.kv_heads;
    let into = (place.y * params.kv_heads + kv_head) * words;
    for (var i = local; i < words; i += WORKGROUP) {
        let word = word_of_head(i, turns, is_value, unit);
        if (is_value) {
            values[into + i] = word;
        } else {
            keys[into + i] = word;
        }
    }
}
