
@group(0) @binding(1) var<storage, read_write> keys: array<vec2<u32>>;      // [capacity, pairs]
@group(0) @binding(2) var<storage, read_write> values: array<vec2<u32>>;    // [capacity, pairs]
@group(0) @binding(3) var<uniform> params: Params;

fn keep(into: u32, at: u32) {
    keys[into] = keys[at];
    values[into] = values[at];
}
