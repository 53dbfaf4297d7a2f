
@group(0) @binding(1) var<storage, read_write> cache: array<vec2<u32>>;     // [capacity, pairs]
@group(0) @binding(2) var<uniform> params: Params;

fn keep(into: u32, at: u32) {
    cache[into] = cache[at];
}
