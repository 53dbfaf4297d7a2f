
// Number i of the head whose words begin at `at`.
fn number_of_head(at: u32, i: u32) -> f32 {
    let pair = unpack2x16snorm(cache[at + i / 2u]);
    return select(pair.x, pair.y, i % 2u == 1u) * bitcast<f32>(cache[at + params.width / 2u]);
}
