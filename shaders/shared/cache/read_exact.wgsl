
@group(0) @binding(1) var<storage, read> keys: array<vec4<f32>>;     // [capacity, kv_heads, quads]
@group(0) @binding(2) var<storage, read> values: array<vec4<f32>>;   // [capacity, kv_heads, quads]

// Elements of a head in the caches.
fn elements_of_head() -> u32 {
    return params.quads;
}

fn key_quad(at: u32, i: u32) -> vec4<f32> {
    return keys[at + i];
}

fn value_quad(at: u32, i: u32) -> vec4<f32> {
    return values[at + i];
}

// Factors on the quads of a key.
fn key_units(at: u32, i: u32) -> vec2<f32> {
    return vec2<f32>(1.0);
}

// The same of a value.
fn value_units(at: u32, i: u32) -> vec2<f32> {
    return vec2<f32>(1.0);
}
