// A workgroup computes one item: its threads share the work, and their results are joined.
const THREADS: u32 = 64u;  // of an item
const ITEMS: u32 = 1u;     // of a workgroup

var<workgroup> sums: array<f32, THREADS>;

// The sum over all threads of the item; once a kernel. Every thread sums all of it: one barrier
// instead of seven.
fn sum_of_all(own: f32, local: u32) -> f32 {
    sums[local] = own;
    workgroupBarrier();
    var all = 0.0;
    for (var i = 0u; i < THREADS; i++) {
        all += sums[i];
    }
    return all;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    make(group, groups.x, local);
}
