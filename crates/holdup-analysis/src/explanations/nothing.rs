//! No cause among those that are known.

use super::{Context, Kind, blank};
use crate::account;
use crate::words;
use holdup_model::Meta;
use holdup_model::explanation::Cause;
use holdup_model::outcome::FindingVerdict;

pub static META: Meta = Meta {
    id: "nothing",
    summary: "no known cause, and how large an undetected one can be",
    docs: "Supported when every other cause was looked for and refuted. The largest upper end of their intervals, by what \
           would count, bounds what can still be there. It is undecided when one of them could not be judged.",
    references: &[],
};

static KIND: Kind = Kind { meta: &META, name: "none of these causes", of: "", minimum: 0.0 };

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let with = |verdict| context.so_far.iter().filter(move |c| c.verdict == verdict);
    let mut cause = blank(&KIND);
    let open: Vec<&str> = with(FindingVerdict::Undecided).map(|c| c.name.as_str()).collect();
    let found = with(FindingVerdict::Supported).count();
    let closest = with(FindingVerdict::Refuted)
        .filter_map(|c| Some((c, c.share.as_ref()?.high / c.minimum)))
        // Those that lie above were ruled out for another reason.
        .filter(|(_, of_minimum)| *of_minimum < 1.0)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((most, _)) = closest.filter(|_| found == 0) {
        let high = most.share.as_ref().map_or(0.0, |s| s.high);
        cause.details.push(format!(
            "Closest to its threshold: {}, at most {} of {} (threshold {}).",
            most.name,
            words::percent(high),
            most.of,
            words::percent(most.minimum)
        ));
    }
    if found == 0 {
        for missing in with(FindingVerdict::Undecided).flat_map(|c| &c.missing) {
            if !cause.missing.contains(missing) {
                cause.missing.push(missing.clone());
            }
        }
    }
    cause.trials = context.watched.trials.iter().map(|t| t.seq).collect();
    (cause.verdict, cause.sentence) = if found > 0 {
        (FindingVerdict::Refuted, format!("{} found.", words::count(found, "cause")))
    } else if open.is_empty() {
        let looked: Vec<&str> = context.so_far.iter().map(|c| c.name.as_str()).collect();
        let where_it_goes = account::on_cpu_in_words(context.watched);
        (
            FindingVerdict::Supported,
            format!("No known cause of delay{where_it_goes}; ruled out: {}.", words::list(&looked)),
        )
    } else {
        (
            FindingVerdict::Undecided,
            format!("No cause found; {} not judged: {}.", words::count(open.len(), "cause"), words::list(&open)),
        )
    };
    cause
}
