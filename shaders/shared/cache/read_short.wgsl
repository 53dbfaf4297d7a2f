
// [capacity, kv_heads, quads and pairs of units]
@group(0) @binding(1) var<storage, read> keys: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> values: array<vec2<u32>>;

// Elements of a head in the caches.
fn elements_of_head() -> u32 {
    return params.quads + (params.quads + 7u) / 8u;
}

// In units of the largest of eight numbers.
fn shares(pairs: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16snorm(pairs.x), unpack2x16snorm(pairs.y));
}

fn key_quad(at: u32, i: u32) -> vec4<f32> {
    return shares(keys[at + i]);
}

fn value_quad(at: u32, i: u32) -> vec4<f32> {
    return shares(values[at + i]);
}

// Units of four quads: x of the first two, y of the last two. A word has both as BF16.
fn units(words: vec2<u32>, i: u32) -> vec2<f32> {
    let word = select(words.x, words.y, i / 4u % 2u == 1u);
    return bitcast<vec2<f32>>(vec2<u32>(word << 16u, word & 0xffff0000u));
}

// Factors on the quads of a key: of i / 4 · 4 and the next, and of the two after those.
fn key_units(at: u32, i: u32) -> vec2<f32> {
    return units(keys[at + params.quads + i / 8u], i);
}

// The same of a value.
fn value_units(at: u32, i: u32) -> vec2<f32> {
    return units(values[at + params.quads + i / 8u], i);
}
