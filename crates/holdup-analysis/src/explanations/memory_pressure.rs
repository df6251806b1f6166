//! Tasks that wait until the kernel has memory for them.

use super::{Context, Kind, advice, judge, share_in_words};
use crate::watched::{Watched, window_s};
use holdup_model::explanation::{Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Meta, Trial};

pub static META: Meta = Meta {
    id: "memory-pressure",
    summary: "memory that is short: tasks wait for reclaim, and read back what it took from the page cache",
    docs: "The part of the time in which at least one task stalls for memory (PSI: memory some), of the control group of the \
           watched processes where that is known, else of the host (pressure). A task stalls for memory while the kernel frees \
           some for it, while it reads pages back that were taken from the page cache shortly before, and while it swaps in. \
           10 % and more is named.",
    references: &["Documentation/accounting/psi.rst (v6.18)", "kernel/sched/psi.c:psi_memstall_enter (v6.18)"],
};

static KIND: Kind = Kind { meta: &META, name: "memory pressure", of: "the time", minimum: 0.1 };

const GROUP: &str = "group_pressure_share";
const HOST: &str = "pressure_share";

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let item = item(watched);
    let pieces = watched.pieces(|trial| Ok((stalled_s(watched, trial, item, "memory some")?, window_s(trial))));
    let mut cause = judge(&KIND, watched, pieces);
    cause.evidence = watched.present(&[("pressure", item)]);
    let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) else { return cause };
    let whose = if item == GROUP { "their control group" } else { "this host" };
    cause.sentence = format!(
        "Memory is short: tasks of {whose} stall for it {} of the time (reclaim, and reading back what it took).",
        share_in_words(share)
    );
    cause.advice.push(advice(
        "a larger memory limit (memory.max, memory.high), or less that is kept in memory: shared_buffers, work_mem, other programs",
        "what is read again and again stays in the page cache",
        "the limit may be set in the unit (MemoryMax=), the container or the pod (limits.memory)",
        "",
        "write the old value back",
    ));
    cause
}

/// The pressure of the watched processes' group where it is known, else that of the host.
fn item(watched: &Watched<'_>) -> &'static str {
    let is_known = watched.pieces(|trial| Ok((stalled_s(watched, trial, GROUP, "memory some")?, 0.0))).is_ok();
    if is_known { GROUP } else { HOST }
}

/// True if most of the time in which tasks wait for a disk is one in which they wait for memory: then they read back what was
/// taken from the page cache.
pub(super) fn explains_reads(watched: &Watched<'_>) -> bool {
    let item = item(watched);
    let sum = |label| watched.pieces(|trial| Ok((stalled_s(watched, trial, item, label)?, 0.0))).map(|p| p.sums().0);
    matches!((sum("memory some"), sum("io some")), (Ok(memory_s), Ok(io_s)) if memory_s * 2.0 >= io_s)
}

fn stalled_s(watched: &Watched<'_>, trial: &Trial, item: &str, label: &str) -> Result<f64, Missing> {
    Ok(watched.required(trial, "pressure", item, |of| of == label)? * window_s(trial))
}
