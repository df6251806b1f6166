//! How much memory a window takes.

use holdup_model::{Collected, EvidenceItem, Measured, StackProfile, Trial};

/// What the allocator adds to a block, and rounds it up by, about.
const BLOCK_BYTES: usize = 24;

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

/// The memory of a window that was made small, bytes, within some percent: what its collectors brought, without a timeline or a
/// capture, which no live watch has.
pub(crate) fn trial(trial: &Trial) -> usize {
    let notes: usize = trial.notes.iter().map(|note| text(note)).sum();
    size_of::<Trial>() + notes + trial.evidence.iter().map(collected).sum::<usize>()
}

/// Gives back what lists and texts of a window have room for and do not use: they grew while it was measured.
pub(crate) fn shrink(trial: &mut Trial) {
    trial.evidence.shrink_to_fit();
    for of in &mut trial.evidence {
        of.items.shrink_to_fit();
        for item in &mut of.items {
            item.name.shrink_to_fit();
            item.unit.shrink_to_fit();
            item.label.as_mut().into_iter().for_each(String::shrink_to_fit);
        }
        of.coverage.notes.shrink_to_fit();
        of.histograms.shrink_to_fit();
        for histogram in &mut of.histograms {
            histogram.histogram.shrink_to_fit();
        }
        of.stacks.shrink_to_fit();
        for profile in &mut of.stacks {
            profile.frames.shrink_to_fit();
            profile.stacks.shrink_to_fit();
            profile.stacks.iter_mut().for_each(|stack| stack.frames.shrink_to_fit());
        }
    }
}
