//! What imported captures say against the first of them.

use super::{Context, note};
use holdup_model::{Finding, Meta};

pub static META: Meta = Meta {
    id: "captures",
    summary: "what got worse from one imported capture to another",
    docs: "The comparison that `holdup packets` makes of the same captures, by rates with intervals. It is made when they are imported, \
           by all of their connections, because a bundle does not keep all of very many.",
    references: &["docs/packets.md"],
};

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let bundle = context.bundle();
    let first = bundle.trials.first().map(|t| t.seq);
    let done = bundle.trials.iter().filter(|t| t.is_done());
    let compared = done.flat_map(|t| t.evidence.iter().map(move |c| (t.seq, c.capture.as_ref())));
    compared
        .filter_map(|(seq, kept)| {
            let comparison = kept?.comparison.as_ref()?;
            let sentence = format!("{} → {}: {}", comparison.baseline, comparison.other, comparison.answer);
            Some(Finding {
                details: comparison.details.clone(),
                trials: first.into_iter().chain([seq]).collect(),
                headline: true,
                ..note(&META, comparison.verdict, sentence)
            })
        })
        .collect()
}
