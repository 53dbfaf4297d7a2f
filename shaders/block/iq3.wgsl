// Shared by IQ3_XXS and IQ3_S: four weights are an entry of a code book, four 3-bit magnitudes, and
// four signs; 32 weights have a scale. A unit is 32 weights, eight quads. The book follows all
// planes, two entries a word.
// Needs: book.wgsl
const QUADS: u32 = 8u;

struct Unit {
    entries: vec4<u32>,  // of each quad 16 bits
    signs: u32,          // of each quad 4 bits
    step: f32,
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    let entry = (unit.entries[q >> 1u] >> (16u * (q & 1u))) & 0xffffu;
    let packed = word_at(book(), entry >> 1u) >> (16u * (entry & 1u));
    let threes = (vec4<u32>(packed) >> vec4<u32>(0u, 3u, 6u, 9u)) & vec4<u32>(7u);
    return with_signs(vec4<f32>(magnitudes(threes)), unit.signs >> (4u * q)) * unit.step;
}
