// Weights in Q2_K: blocks of 256 times 2 bits; each 16 have a scale and a minimum of 4 bits, which
// a block's two f16 multiply: weight = d · scale · quant − e · minimum.
// A unit is 32 weights of a row, eight quads: 8 bytes, of which word q / 4, bits 2(q mod 4) of
// each byte, belongs to quad q. The second plane has a byte for each 16, the scale below the
// minimum; the third d and e.
const QUADS: u32 = 8u;

struct Unit {
    quants: vec2<u32>,
    scales: vec2<f32>,
    minimums: vec2<f32>,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let pair = weights[at >> 1u];
    let nibbles = word_at(params.plane1_offset, at >> 1u) >> ((at & 1u) * 16u);
    // After 8 bytes of quants and 2 of scales a unit.
    let factors = halves_at(params.plane1_offset + (params.plane1_offset >> 2u), at >> 3u);
    return Unit(
        select(pair.xy, pair.zw, (at & 1u) == 1u),
        vec2<f32>(f32(nibbles & 15u), f32((nibbles >> 8u) & 15u)) * factors.x,
        vec2<f32>(f32((nibbles >> 4u) & 15u), f32((nibbles >> 12u) & 15u)) * factors.y,
    );
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    return bytes(twos(unit.quants, q)) * unit.scales[q >> 2u] - unit.minimums[q >> 2u];
}
