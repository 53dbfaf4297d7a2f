
// Number i of the head whose words begin at `at`.
fn number_of_head(at: u32, i: u32) -> f32 {
    let pair = unpack2x16snorm(cache[at + i / 2u]);
    let units = cache[at + params.width / 2u + i / 16u];
    let unit = bitcast<f32>(select(units << 16u, units & 0xffff0000u, i / 8u % 2u == 1u));
    return select(pair.x, pair.y, i % 2u == 1u) * unit;
}
