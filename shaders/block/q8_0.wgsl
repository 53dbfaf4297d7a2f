// Weights in Q8_0: blocks of 32 signed bytes under one f16 scale.
// A unit is 16 bytes of a row: half a block, four quads.
const QUADS: u32 = 4u;

// Quad q of a unit, dequantised but not yet scaled.
fn quad(unit: vec4<u32>, q: u32) -> vec4<f32> {
    let word = unit[q];
    // An arithmetic shift of the byte moved to the top extends its sign.
    return vec4<f32>(
        f32(bitcast<i32>(word << 24u) >> 24u),
        f32(bitcast<i32>(word << 16u) >> 24u),
        f32(bitcast<i32>(word << 8u) >> 24u),
        f32(bitcast<i32>(word) >> 24u),
    );
}

// The scale of a unit's block: two f16 a word, behind the last row's units.
fn scale(row: u32, unit: u32) -> f32 {
    let block = (row * params.units + unit) >> 1u;
    let word = params.behind + (block >> 1u);
    let pair = unpack2x16float(weights[word >> 2u][word & 3u]);
    return select(pair.x, pair.y, (block & 1u) == 1u);
}
