// Weights in IQ2_XS: 16 bits for each eight, an entry's number below seven signs; a 4-bit scale for
// each 16: weight = d · (scale + ½) / 4 · ±number. The second plane has the scales, the third d.
// Needs: iq2.wgsl
const BLOCK_BYTES: u32 = 74u;

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let both = weights[at >> 1u];
    let words = select(both.xy, both.zw, (at & 1u) == 1u);
    let scales = word_at(params.plane1_offset, at >> 2u) >> (8u * (at & 3u));
    let nibbles = vec2<f32>((vec2<u32>(scales) >> vec2<u32>(0u, 4u)) & vec2<u32>(15u));
    // After 64 bytes of words and 8 of scales a block.
    let d = half_at(params.plane1_offset + (params.plane1_offset >> 3u), at >> 3u);
    return Unit(
        words & vec2<u32>(0x01ff01ffu),
        even_signs(words.xxyy >> vec4<u32>(9u, 25u, 9u, 25u)),
        d * (0.5 + nibbles) * 0.25,
    );
}
