
@group(0) @binding(1) var<storage, read> keys: array<vec4<f32>>;     // [capacity, kv_heads, quads]
@group(0) @binding(2) var<storage, read> values: array<vec4<f32>>;   // [capacity, kv_heads, quads]

// Elements of a head in the caches.
fn elements_of_head() -> u32 {
    return params.quads;
}

fn key_quad(at: u32, i: u32) -> vec4<f32> {
    return keys[at + i];
}

// What a product with the quads of a key is to be multiplied by.
fn key_unit(at: u32) -> f32 {
    return 1.0;
}

fn value_quad(at: u32, i: u32) -> vec4<f32> {
    return values[at + i];
}

// What the quads of a value are to be multiplied by.
fn value_unit(at: u32) -> f32 {
    return 1.0;
}
