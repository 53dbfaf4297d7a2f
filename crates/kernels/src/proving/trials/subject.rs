//! The kernels to try for a model, and the choices without a failed one.

use super::{Trial, cache, draws, experts, products, rows, states};
use crate::ops::attention::is_wide;
use crate::ops::experts::ExpertKernel;
use crate::proving::Kernels;
use crate::serial::attention::fits;
use crate::{Choices, Format, GpuError, Launcher, NormOf, ProductKernel};

/// A kernel in one of its forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Embed(Format),
    RmsNorm,
    NormAdd,
    PickNorm,
    PutRows,
    GatherRows,
    Gated,
    /// Norms of each head come after its rotation if `rotated`, and otherwise before it.
    Append {
        exact: bool,
        rotated: bool,
    },
    /// With `long`, caches are too long for serial threads, and cooperative ones attend.
    Attention {
        exact: bool,
        long: bool,
        wide: bool,
    },
    /// Attention in chunks, and their join.
    Chunks {
        exact: bool,
        long: bool,
        wide: bool,
    },
    KeepRows,
    KeepRowsOfOne,
    Convolve {
        exact: bool,
    },
    RecurrenceMix,
    RecurrenceRule,
    GateHeads,
    Route,
    GroupChoices,
    JoinExperts,
    Experts {
        format: Format,
        kernel: ExpertKernel,
    },
    Product(Product),
    Sample,
    TargetLogits(Format),
    Score(Format),
}

/// A product in one of its forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    pub kernel: ProductKernel,
    pub format: Format,
    /// Whether the norm is fused.
    pub normed: bool,
    pub gated: bool,
}

impl Kernels {
    /// The kernels that a device with these choices launches, in order of dependence.
    pub(crate) fn subjects(&self, choices: Choices) -> Vec<Subject> {
        let embeddings = self.embeddings.iter().copied();
        let mut all: Vec<Subject> = embeddings.map(Subject::Embed).collect();
        all.extend([
            Subject::RmsNorm,
            Subject::PickNorm,
            Subject::PutRows,
            Subject::GatherRows,
            Subject::Sample,
            Subject::TargetLogits(self.head),
        ]);
        for &heads in &self.heads {
            let (exact, wide) = (heads.exact, is_wide(heads));
            let attention = |long| {
                [
                    Subject::Attention { exact, long, wide },
                    Subject::Chunks { exact, long, wide },
                ]
            };
            // Where a serial thread cannot take a cache in one chunk, it can in enough chunks.
            let long = choices.serial && !fits(heads, 1);
            let rotated = self.norms_rotated;
            let mut of_heads = vec![Subject::Append { exact, rotated }, Subject::KeepRows];
            for long in [false, true].into_iter().take(1 + usize::from(long)) {
                of_heads.extend(&attention(long)[..1 + usize::from(choices.chunks)]);
            }
            of_heads.retain(|subject| !all.contains(subject));
            all.extend(of_heads);
        }
        if let Some(exact) = self.convolves {
            all.extend([Subject::Convolve { exact }, Subject::KeepRowsOfOne]);
        }
        if self.recurrences {
            all.extend([Subject::RecurrenceMix, Subject::RecurrenceRule]);
        }
        if self.gated_heads {
            all.push(Subject::GateHeads);
        }
        if !self.experts.is_empty() {
            all.extend([Subject::Route, Subject::JoinExperts]);
        }
        let grouped = choices.groups();
        if grouped && !self.experts.is_empty() {
            all.push(Subject::GroupChoices);
        }
        for &format in &self.experts {
            let forms = [false, true].into_iter().take(1 + usize::from(grouped));
            all.extend(forms.map(|grouped| Subject::Experts {
                format,
                kernel: choices.experts(grouped),
            }));
        }
        if self.apart || !self.experts.is_empty() {
            all.push(Subject::Gated);
        }
        if self.post_norms {
            all.push(Subject::NormAdd);
        }
        let several = [2, 32].map(|rows| choices.product(rows));
        let mut add = |kernel, format, normed, gated| {
            let subject = Subject::Product(Product {
                kernel,
                format,
                normed,
                gated,
            });
            if !all.contains(&subject) {
                all.push(subject);
            }
        };
        let one = choices.product(1);
        let normed = |kernel: ProductKernel| kernel.takes_norms() && choices.norm_inside;
        add(one, self.head, normed(one), false);
        for (formats, gated) in [(&self.products, false), (&self.gates, true)] {
            for &format in formats {
                add(one, format, normed(one), gated);
                // In a pass of one token the norm is separate.
                add(one, format, false, gated);
                for kernel in several {
                    add(kernel, format, normed(kernel), gated);
                }
            }
        }
        all
    }
}

impl Subject {
    /// The choices without the failed kernel.
    pub(crate) fn without(self, choices: Choices) -> Option<Choices> {
        let safe = match self {
            Self::Chunks { .. } => Choices {
                chunks: false,
                ..choices
            },
            Self::Product(Product {
                kernel: ProductKernel::VectorSubgroups,
                ..
            })
            | Self::Experts {
                kernel: ExpertKernel::VectorSubgroups,
                ..
            } => Choices {
                subgroups: false,
                ..choices
            },
            Self::Product(Product { normed: true, .. }) => Choices {
                norm_inside: false,
                ..choices
            },
            Self::Product(Product {
                kernel: ProductKernel::Tile,
                ..
            }) => Choices {
                as_a_tile: None,
                ..choices
            },
            Self::Product(Product {
                kernel: ProductKernel::Block,
                ..
            })
            | Self::Experts {
                kernel: ExpertKernel::Block,
                ..
            } if !choices.serial => Choices {
                blocks: false,
                ..choices
            },
            // Without another form it is tried again, and fails for good.
            _ if choices.serial => Choices {
                serial: false,
                ..choices
            },
            _ => return None,
        };
        Some(safe)
    }

    /// Its launches, with uploaded arguments.
    pub(crate) fn trial(self, launcher: &Launcher) -> Result<Trial, GpuError> {
        match self {
            Self::Embed(format) => products::embed(launcher, format),
            Self::RmsNorm => rows::rms_norm(launcher),
            Self::NormAdd => rows::norm_add(launcher),
            Self::PickNorm => rows::pick_norm(launcher),
            Self::PutRows => rows::put_rows(launcher),
            Self::GatherRows => rows::gather_rows(launcher),
            Self::Gated => rows::gated(launcher),
            Self::Append { exact, rotated } => {
                let over = match rotated {
                    true => NormOf::RotatedHead,
                    false => NormOf::Head,
                };
                cache::append(launcher, exact, over)
            }
            Self::Attention { exact, long, wide } => {
                cache::attention(launcher, exact, long, wide, 1)
            }
            Self::Chunks { exact, long, wide } => cache::attention(launcher, exact, long, wide, 2),
            Self::KeepRows => cache::keep_rows(launcher),
            Self::KeepRowsOfOne => cache::keep_rows_of_one(launcher),
            Self::Convolve { exact } => cache::convolve(launcher, exact),
            Self::RecurrenceMix => states::recurrence_mix(launcher),
            Self::RecurrenceRule => states::recurrence_rule(launcher),
            Self::GateHeads => states::gate_heads(launcher),
            Self::Route => experts::route(launcher),
            Self::GroupChoices => experts::group_choices(launcher),
            Self::JoinExperts => experts::join_experts(launcher),
            Self::Experts { format, kernel } => experts::experts(launcher, format, kernel),
            Self::Product(product) => products::product(launcher, product),
            Self::Sample => draws::sample(launcher),
            Self::TargetLogits(format) => products::target_logits(launcher, format),
            Self::Score(format) => products::score(launcher, format),
        }
    }
}
