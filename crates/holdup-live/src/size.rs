//! How much memory a window takes.

use holdup_model::{Collected, EvidenceItem, Measured, StackProfile, Trial};

/// What the allocator adds to a block, about.
const BLOCK_BYTES: usize = 16;

fn text(text: &str) -> usize {
    text.len() + BLOCK_BYTES
}

fn item(item: &EvidenceItem) -> usize {
    let why = match &item.value {
        Measured::Absent(why) => text(why),
        Measured::Value(_) => 0,
    };
    size_of::<EvidenceItem>() + text(&item.name) + text(&item.unit) + item.label.as_deref().map_or(0, text) + why
}

fn collected(of: &Collected) -> usize {
    let notes: usize = of.coverage.notes.iter().map(|note| text(note) + size_of::<String>()).sum();
    let histograms: usize = of.histograms.iter().map(|h| h.histogram.memory_bytes() + 2 * text(&h.name)).sum();
    let stacks: usize = of.stacks.iter().map(StackProfile::memory_bytes).sum();
    size_of::<Collected>() + of.items.iter().map(item).sum::<usize>() + notes + histograms + stacks
}

/// The memory of a window, bytes, within some percent: what its collectors brought, without a timeline or a capture, which
/// no live watch has.
pub(crate) fn trial(trial: &Trial) -> usize {
    let notes: usize = trial.notes.iter().map(|note| text(note)).sum();
    size_of::<Trial>() + notes + trial.evidence.iter().map(collected).sum::<usize>()
}
