// Weights in IQ3_XXS: for each 32, eight bytes that choose entries, and in the second plane a word
// of four times seven signs below a 4-bit scale: weight = d · (scale + ½) / 2 · ±number. The third
// plane has d.
// Needs: iq3.wgsl
const BLOCK_BYTES: u32 = 98u;

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let both = weights[at >> 1u];
    let words = select(both.xy, both.zw, (at & 1u) == 1u);
    let low = (words.xxyy >> vec4<u32>(0u, 16u, 0u, 16u)) & vec4<u32>(0xffu);
    let high = (words.xxyy >> vec4<u32>(8u, 24u, 8u, 24u)) & vec4<u32>(0xffu);
    let signs = word_at(params.plane1_offset, at);
    // After 64 bytes and 32 a block.
    let d = half_at(params.plane1_offset + (params.plane1_offset >> 1u), at >> 3u);
    return Unit(
        low | (high << vec4<u32>(16u)),
        even_signs(vec4<u32>(signs) >> vec4<u32>(0u, 7u, 14u, 21u)),
        d * (0.5 + f32(signs >> 28u)) * 0.5,
    );
}

// 4, 12, 20, … and 62.
fn magnitudes(threes: vec4<u32>) -> vec4<u32> {
    let last = (threes + vec4<u32>(1u)) >> vec4<u32>(3u);
    return vec4<u32>(4u) + 8u * threes + 2u * last;
}
