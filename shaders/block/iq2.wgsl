// Shared by IQ2_XXS, IQ2_XS and IQ2_S: eight weights are an entry of a code book, eight times 2
// bits for 8, 25 and 43, and eight signs; 16 weights have a scale. A unit is 32 weights, eight
// quads. The book follows all planes, two entries a word.
// Needs: book.wgsl
const QUADS: u32 = 8u;

struct Unit {
    entries: vec2<u32>,  // of each eight 16 bits
    signs: u32,          // of each eight a byte
    steps: vec2<f32>,    // of each sixteen
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    let entry = (unit.entries[q >> 2u] >> (8u * (q & 2u))) & 0xffffu;
    let packed = word_at(book(), entry >> 1u) >> (16u * (entry & 1u) + 8u * (q & 1u));
    let pairs = (vec4<u32>(packed) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u);
    let magnitudes = vec4<f32>(vec4<u32>(8u) + 17u * pairs + (pairs >> vec4<u32>(1u)));
    return with_signs(magnitudes, unit.signs >> (4u * q)) * unit.steps[q >> 2u];
}
