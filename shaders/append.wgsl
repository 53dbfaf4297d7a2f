// Norm and rotary embedding of queries and keys, and the append of keys and values to the cache,
// from one row of q, k and v for each token. An item is one head of one token: of a query, a key or
// a value. `shared/cache/write_*.wgsl` writes a head of the cache: as it is, or as fractions of the
// largest of eight numbers, 16 bits each (against f16 four bits more where it counts), followed by
// these largest. Queries go to their own buffer, since a norm of all heads is read by each of them.
struct Params {
    heads: u32,
    kv_heads: u32,     // 0: queries alone, and nothing is appended
    width: u32,        // numbers of a head
    half_rotary: u32,  // rotated numbers / 2
    capacity: u32,     // rows of the cache
    context: u32,      // rows of the table
    normed: u32,  // 0: no norm; 1: of each head; 2: of all heads together; 3: of each, after its
                       // rotation; 4 more: of values too, without a weight
    epsilon: f32,
    gated: u32,        // 1: each query head is followed by its gate, as wide
    spare_a: u32,
    spare_b: u32,
    spare_c: u32,
}

// [tokens, heads (and gates) + 2 kv_heads, width]
@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read_write> q: array<f32>;           // [tokens, heads, width]
// [capacity, kv_heads, words of a head]
@group(0) @binding(2) var<storage, read_write> keys: array<u32>;
// [capacity, kv_heads, words of a head]
@group(0) @binding(3) var<storage, read_write> values: array<u32>;
@group(0) @binding(4) var<storage, read> tokens: array<vec4<u32>>;  // position, row, start, prefix
// [context, half_rotary] cos, sin
@group(0) @binding(5) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read> q_norm: array<f32>;            // [width] or [heads, width]
@group(0) @binding(7) var<storage, read> k_norm: array<f32>;  // [width] or [kv_heads, width]
@group(0) @binding(8) var<uniform> params: Params;

// A head of a token.
struct Head {
    base: u32,       // its first number in qkv
    rotation: u32,   // its row of the table
    weights: u32,    // its first weight of the norm
    is_query: bool,
    is_value: bool,
    factor: f32,     // of the norm, or 1
}

// Extent of the norms of queries and keys.
fn norm_over() -> u32 {
    return params.normed & 3u;
}

fn weight(head: Head, i: u32) -> f32 {
    if (head.is_query) {
        return q_norm[head.weights + i];
    }
    return k_norm[head.weights + i];
}

// Number i of a head, after its norm if that is before the rotation.
fn number(head: Head, i: u32) -> f32 {
    let v = qkv[head.base + i];
    if (head.is_value) {
        return v * head.factor;
    }
    if (norm_over() == 0u || norm_over() == 3u) {
        return v;
    }
    return v * head.factor * weight(head, i);
}

// Number i as stored in the cache.
fn stored(head: Head, i: u32) -> f32 {
    let v = rotated(head, i);
    if (norm_over() == 3u && !head.is_value) {
        return v * head.factor * weight(head, i);
    }
    return v;
}

// Number i after the rotation: values do not rotate.
fn rotated(head: Head, i: u32) -> f32 {
    let half = params.half_rotary;
    let v = number(head, i);
    if (head.is_value || i >= 2u * half) {
        return v;
    }
    if (i < half) {
        let rotation = table[head.rotation + i];
        return v * rotation.x - number(head, i + half) * rotation.y;
    }
    let rotation = table[head.rotation + i - half];
    return v * rotation.x + number(head, i - half) * rotation.y;
}

fn make(at: vec3<u32>, across: u32, local: u32) {
    let which = at.x;
    let place = tokens[at.y];
    let width = params.width;
    let heads = params.heads + 2u * params.kv_heads;
    if (which >= heads) {
        return;
    }
    let gates = params.gated * params.heads;
    let row = at.y * (heads + gates) * width;
    let base = row + (which + min(params.gated * which, gates)) * width;
    let is_query = which < params.heads;
    let is_value = which >= params.heads + params.kv_heads;

    // The numbers of the norm: this head's, or those of all its kind.
    let normed = select(norm_over() > 0u, (params.normed & 4u) > 0u, is_value);
    let whole = norm_over() == 2u && !is_value;
    var begin = base;
    var count = width;
    if (whole) {
        begin = row + select((params.heads + gates) * width, 0u, is_query);
        count = width * select(params.kv_heads, params.heads, is_query);
    }
    var head = Head(
        base,
        min(place.x, params.context - 1u) * params.half_rotary,
        // After a norm of all heads, each has its own weights.
        select(0u, base - begin, whole),
        is_query,
        is_value,
        1.0,
    );
    var sum = 0.0;
    if (normed) {
        for (var i = local; i < count; i += THREADS) {
            var v = qkv[begin + i];
            if (norm_over() == 3u && !is_value) {
                v = rotated(head, i);
            }
            sum += v * v;
        }
    }
    let factor = inverseSqrt(sum_of_all(sum, local) / f32(count) + params.epsilon);
    head.factor = select(1.0, factor, normed);
    if (is_query) {
        for (var i = local; i < width; i += THREADS) {
            q[(at.y * params.heads + which) * width + i] = stored(head, i);
        }
        return;
    }
    if (place.y >= params.capacity) {
        return;
    }
    let words = words_of_head();
    let kv_head = (which - params.heads) % params.kv_heads;
    let into = (place.y * params.kv_heads + kv_head) * words;
    for (var i = local; i < words; i += THREADS) {
        let word = word_of_head(i, head);
        if (is_value) {
            values[into + i] = word;
        } else {
            keys[into + i] = word;
        }
    }
}
