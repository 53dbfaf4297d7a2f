// Heads of up to 512 numbers: their queries fill half of a workgroup's memory.
const MOST_QUADS: u32 = 128u;
