//! Progress on stderr: a bar on a terminal, a line per trial into a file, nothing when quiet.

use holdup_model::foreign::line;
use holdup_model::{Event, Observer, Trial, TrialStatus};
use indicatif::{ProgressBar, ProgressBarIter, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// How a run shows its progress.
pub(crate) enum Progress {
    /// Nothing.
    Quiet,
    /// A bar that is redrawn.
    Bar(ProgressBar),
    /// One line for each event.
    Lines,
}

impl Progress {
    /// Chooses by what stderr is; `HOLDUP_NO_PROGRESS` asks for lines on a terminal as well.
    pub(crate) fn new(quiet: bool) -> Self {
        if quiet {
            Progress::Quiet
        } else if std::io::stderr().is_terminal() && std::env::var_os("HOLDUP_NO_PROGRESS").is_none() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(
                ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}").expect("the template is valid"),
            );
            bar.enable_steady_tick(Duration::from_millis(250));
            Progress::Bar(bar)
        } else {
            Progress::Lines
        }
    }

    fn line(&self, text: &str) {
        match self {
            Progress::Quiet => {}
            Progress::Bar(bar) => bar.suspend(|| crate::output::say(text)),
            Progress::Lines => crate::output::say(text),
        }
    }

    fn begin_trial(&self, number: u32, of: u32, label: &str, left_ns: u64) {
        let left = duration_in_words(left_ns);
        match self {
            Progress::Quiet => {}
            Progress::Bar(bar) => {
                bar.set_length(u64::from(of));
                bar.set_position(u64::from(number - 1));
                bar.set_message(line(&format!("{left} left · {label}")));
            }
            Progress::Lines => crate::output::say(&line(&format!("trial {number} of {of} · {left} left · {label}"))),
        }
    }

    fn end_trial(&self, trial: &Trial, label: &str) {
        if let TrialStatus::Void { reason } = &trial.status {
            self.line(&format!("void: {label}: {reason}"));
        }
    }
}

impl Observer for Progress {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin { trials, at_most, estimate_ns } => {
                let length = duration_in_words(estimate_ns);
                self.line(&match at_most {
                    true => format!("at most {trials} trials in {length}; the run ends when every headline is decided"),
                    false => format!("{trials} {}, about {length}", if trials == 1 { "trial" } else { "trials" }),
                });
            }
            Event::Step(text) | Event::Note(text) => {
                if let Progress::Bar(bar) = self {
                    bar.set_message(line(text));
                }
                self.line(text);
            }
            Event::TrialBegin { number, of, arm, left_ns } => self.begin_trial(number, of, &arm.label, left_ns),
            Event::TrialEnd { trial, arm } => self.end_trial(trial, &arm.label),
            Event::End => {
                if let Progress::Bar(bar) = self {
                    bar.finish_and_clear();
                }
            }
        }
    }
}

/// A file that is read, with a bar for how much of it on a terminal; files that take no second have none.
pub(crate) fn reading(file: std::fs::File, name: &str, quiet: bool) -> ProgressBarIter<std::fs::File> {
    let bytes = file.metadata().map_or(0, |m| m.len());
    let is_shown = !quiet
        && bytes >= LARGE_BYTES
        && std::io::stderr().is_terminal()
        && std::env::var_os("HOLDUP_NO_PROGRESS").is_none();
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    bar.set_style(
        ProgressStyle::with_template("{bar:24} {bytes}/{total_bytes} {eta} left · {wide_msg}")
            .expect("the template is valid"),
    );
    bar.set_message(line(name));
    bar.wrap_read(file)
}

/// From here on reading takes about a second.
const LARGE_BYTES: u64 = 1 << 30;

/// `95 s`, `6 min`, `2 h 10 min`: as exact as an estimate deserves.
pub(crate) fn duration_in_words(ns: u64) -> String {
    let seconds = ns.div_ceil(1_000_000_000);
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::duration_in_words;

    #[test]
    fn estimates_are_no_more_exact_than_they_deserve() {
        for (ns, words) in [
            (0, "0 s"),
            (1, "1 s"),
            (99_000_000_000, "99 s"),
            (100_000_000_000, "2 min"),
            (330_000_000_000, "6 min"),
            (7_800_000_000_000, "2 h 10 min"),
        ] {
            assert_eq!(duration_in_words(ns), words);
        }
    }
}
