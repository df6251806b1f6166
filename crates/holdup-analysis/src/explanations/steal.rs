//! CPU time that the hypervisor gave to other machines.

use super::{Context, Kind, advice, judge, share_in_words};
use crate::watched::window_s;
use crate::words;
use holdup_model::Meta;
use holdup_model::explanation::Cause;
use holdup_model::outcome::FindingVerdict;

pub static META: Meta = Meta {
    id: "steal",
    summary: "CPU time that the hypervisor gave to other machines",
    docs: "The share `steal` of /proc/stat: time in which a virtual CPU of this machine was runnable and the hypervisor ran \
           something else. Zero on hardware, and also where the hypervisor does not report it. 2 % of all CPU time and more is \
           named. A virtual CPU that is taken away while its task holds a lock makes all others wait; nothing in this \
           machine can see that directly.",
    references: &["proc_stat(5)", "kernel/sched/cputime.c:steal_account_process_time (v6.18)"],
};

static KIND: Kind = Kind { meta: &META, name: "CPU steal", of: "all CPU time", minimum: 0.02 };

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let pieces = watched.pieces(|trial| {
        let share = watched.cpu_share(trial, &["steal"])?;
        let whole = window_s(trial) * watched.cpus;
        Ok((share * whole, whole))
    });
    let mut cause = judge(&KIND, watched, pieces);
    cause.evidence = watched.present(&[("cpu", "cpu_share")]);
    if let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) {
        cause.sentence = format!("CPU steal: the hypervisor took {} of all CPU time.", share_in_words(share));
        cause.advice.push(advice(
            "dedicated CPUs for this machine (a dedicated size, pinned virtual CPUs)",
            "removes it; no setting inside this machine does",
            "",
            "",
            "return to the present size",
        ));
    } else if cause.verdict == FindingVerdict::Refuted {
        let most = cause.share.as_ref().map_or(0.0, |s| s.high);
        cause.sentence = format!(
            "CPU steal: at most {} of all CPU time, as far as the hypervisor reports it (threshold {}).",
            words::percent(most),
            words::percent(KIND.minimum)
        );
    }
    cause
}
