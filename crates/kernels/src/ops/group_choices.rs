//! The choices of a pass, grouped by expert for products of several rows at once.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count};

use super::route::{ExpertCounts, MAX_EXPERTS};
use crate::{Buffer, Gpu, GpuError, Rows};

const WGSL: &str = wgsl!("group_choices.wgsl");

const _: () = assert!(conclave_gpu::number_in(WGSL, "MAX_EXPERTS: u32 = ") as usize == MAX_EXPERTS);

/// Value that fills a group with fewer than four choices.
const NO_CHOICE: u32 = u32::MAX;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    count: u32,
    used: u32,
    spare: [u32; 2],
}

pub(crate) static SHADER: Shader = Shader::new::<Params>("group_choices", &[WGSL]);

/// Largest number of groups of four that the choices of `tokens` tokens make.
pub fn choice_groups(tokens: usize, of: ExpertCounts) -> usize {
    let choices = tokens * of.used;
    (choices + 3 * of.count.min(choices)) / 4
}

/// Groups the choices of a pass, `chosen` `[m, used]` (u32), by index into `groups`
/// `[`[`choice_groups`]`, 4]` (u32), expert by expert; missing ones are `u32::MAX`.
///
/// # Errors
/// [`GpuError::Shape`] for unsupported counts of experts, and buffers too small.
pub fn group_choices(
    gpu: &Gpu,
    chosen: &Buffer,
    rows: Rows<'_>,
    of: ExpertCounts,
    groups: &Buffer,
) -> Result<(), GpuError> {
    let name = SHADER.name;
    of.check(name)?;
    count(name, "choices", 4 * rows.count * of.used)?;
    chosen.holds(rows.count * of.used, name, "chosen")?;
    rows.counts.holds(1, name, "counts")?;
    groups.holds(4 * choice_groups(rows.count, of), name, "groups")?;
    let params = Params {
        count: of.count as u32,
        used: of.used as u32,
        spare: [0; 2],
    };
    let buffers = [
        Use::Read(chosen),
        Use::Read(rows.counts),
        Use::Write(groups),
    ];
    gpu.launch(&SHADER, &buffers, &params, [1; 3])
}

/// The CPU twin.
pub fn group_choices_cpu(chosen: &[u32], of: ExpertCounts) -> Vec<[u32; 4]> {
    let mut groups = Vec::new();
    for expert in 0..of.count as u32 {
        let choices = (0..chosen.len() as u32).filter(|&i| chosen[i as usize] == expert);
        let choices: Vec<u32> = choices.collect();
        groups.extend(choices.chunks(4).map(|some| {
            let mut four = [NO_CHOICE; 4];
            four[..some.len()].copy_from_slice(some);
            four
        }));
    }
    groups.resize(choice_groups(chosen.len() / of.used, of), [NO_CHOICE; 4]);
    groups
}
