// Weights in Q4_0: blocks of 32 nibbles, each minus 8, under one f16 scale.
// A unit is 16 bytes of a row: one block, eight quads. Weight i of a block is the
// low nibble of byte i, weight 16 + i its high nibble.
const QUADS: u32 = 8u;

// Quad q of a unit, dequantised but not yet scaled.
fn quad(unit: vec4<u32>, q: u32) -> vec4<f32> {
    let nibbles = (unit[q & 3u] >> ((q & 4u))) & 0x0f0f0f0fu;
    return vec4<f32>(
        f32(nibbles & 0xffu),
        f32((nibbles >> 8u) & 0xffu),
        f32((nibbles >> 16u) & 0xffu),
        f32(nibbles >> 24u),
    ) - 8.0;
}

// The scale of a unit: two f16 a word, behind the last row's units.
fn scale(row: u32, unit: u32) -> f32 {
    let block = row * params.units + unit;
    let word = params.behind + (block >> 1u);
    let pair = unpack2x16float(weights[word >> 2u][word & 3u]);
    return select(pair.x, pair.y, (block & 1u) == 1u);
}
