// Weights in IQ2_XXS: for each 32, four bytes that choose entries, and a word of four times seven
// signs below a 4-bit scale: weight = d · (scale + ½) / 4 · ±number. The second plane has d.
// Needs: iq2.wgsl
const BLOCK_BYTES: u32 = 66u;

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let both = weights[at >> 1u];
    let words = select(both.xy, both.zw, (at & 1u) == 1u);
    let bytes = (vec4<u32>(words.x) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu);
    let step = half_at(params.plane1_offset, at >> 3u) * (0.5 + f32(words.y >> 28u)) * 0.25;
    return Unit(
        bytes.xz | (bytes.yw << vec2<u32>(16u)),
        even_signs(vec4<u32>(words.y) >> vec4<u32>(0u, 7u, 14u, 21u)),
        vec2<f32>(step),
    );
}
