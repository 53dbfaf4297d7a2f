// Threads that draw a token on a CPU emulating a GPU, which switches threads at every barrier.
// Fewer would have loops of more than 65,535 iterations over large vocabularies, where lavapipe
// ends them.
const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32) {
    draw(local);
}
