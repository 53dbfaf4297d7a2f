// Weights in IQ4_XS: blocks of 256 nibbles that choose from IQ4_NL's table; each 32 have a scale of
// 6 bits, minus 32, which a block's f16 multiplies.
// A unit is one such 32, eight quads, its nibbles as in Q4_0. The second plane has two words a
// block: the f16 below the scales' upper two bits, and their lower four.
// Needs: iq4_levels.wgsl
const QUADS: u32 = 8u;

struct Unit {
    quants: vec4<u32>,
    scale: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let block = at >> 3u;
    let group = at & 7u;
    let header = word_at(params.plane1_offset, 2u * block);
    let low = (word_at(params.plane1_offset, 2u * block + 1u) >> (4u * group)) & 15u;
    let high = (header >> (16u + 2u * group)) & 3u;
    let scale = unpack2x16float(header).x * (f32(low | (high << 4u)) - 32.0);
    return Unit(weights[at], scale);
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    return levels(nibbles(unit.quants, q)) * unit.scale;
}
