
@group(0) @binding(1) var<storage, read> keys: array<vec2<u32>>;  // [capacity, kv_heads, quads + 1]
// [capacity, kv_heads, quads + 1]
@group(0) @binding(2) var<storage, read> values: array<vec2<u32>>;

// Elements of a head in the caches.
fn elements_of_head() -> u32 {
    return params.quads + 1u;
}

// In units of the head's largest number.
fn shares(pairs: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16snorm(pairs.x), unpack2x16snorm(pairs.y));
}

fn key_quad(at: u32, i: u32) -> vec4<f32> {
    return shares(keys[at + i]);
}

// Factor on a product with the quads of a key.
fn key_unit(at: u32) -> f32 {
    return bitcast<f32>(keys[at + params.quads].x);
}

fn value_quad(at: u32, i: u32) -> vec4<f32> {
    return shares(values[at + i]);
}

// Factor on the quads of a value.
fn value_unit(at: u32) -> f32 {
    return bitcast<f32>(values[at + params.quads].x);
}
