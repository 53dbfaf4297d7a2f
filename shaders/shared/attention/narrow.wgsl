// Heads of up to 256 numbers.
const MOST_QUADS: u32 = 64u;
