// Weights in Q3_K: blocks of 256 times 3 bits, each minus 4; each 16 have a 6-bit scale, minus 32,
// which a block's f16 multiplies.
// A unit is 32 weights of a row, eight quads: 8 bytes with the low two bits as in Q2_K and, in the
// second plane, a word of third bits. The third plane has twelve bytes of scales a block, the
// fourth the f16.
const QUADS: u32 = 8u;

struct Unit {
    quants: vec2<u32>,
    thirds: u32,
    scales: vec2<f32>,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let pair = weights[at >> 1u];
    let block = at >> 3u;
    // The planes' offsets: units · 2 words, units · 1, and units · 3 / 8.
    let third = params.plane1_offset + (params.plane1_offset >> 1u);
    let fourth = third + 3u * (params.plane1_offset >> 4u);
    // For 16 groups, the low four bits of groups g and 8 + g are halves of byte g; the high two of
    // g, 4 + g, 8 + g and 12 + g lie in byte 8 + g. A unit has groups 2u and 2u + 1.
    let group = 2u * (at & 7u);
    let low = word_at(third + 3u * block, (group & 7u) >> 2u) >> ((group & 3u) * 8u);
    let high = word_at(third + 3u * block, 2u) >> ((group & 3u) * 8u);
    let lows = (vec2<u32>(low, low >> 8u) >> vec2<u32>((group >> 3u) << 2u)) & vec2<u32>(15u);
    let highs = (vec2<u32>(high, high >> 8u) >> vec2<u32>((group >> 2u) << 1u)) & vec2<u32>(3u);
    return Unit(
        select(pair.xy, pair.zw, (at & 1u) == 1u),
        word_at(params.plane1_offset, at),
        (vec2<f32>(lows | (highs << vec2<u32>(4u))) - 32.0) * half_at(fourth, block),
    );
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    let quants = twos(unit.quants, q) | (bits(unit.thirds, q) << 2u);
    return (bytes(quants) - 4.0) * unit.scales[q >> 2u];
}
