//! What the trials say: ratios paired by block, losses, and losses compared.

use crate::arguments::Arguments;
use crate::{NONE, Trial};
use holdup_stats::random::Noise;
use holdup_stats::{BlockPair, geometric_mean, ratio_paired};
use std::collections::BTreeMap;

/// A measure of which more is better.
#[derive(Clone, Copy)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) of: fn(&Trial) -> f64,
}

pub(crate) const MEASURES: [Measure; 2] = [
    Measure { name: "throughput", of: |t| t.done.rate },
    // What others take of the machine does not change it much, and what the observer's own process takes counts.
    Measure { name: "work per CPU second", of: |t| t.done.work / (t.done.cpu_s + t.observer_cpu_s) },
];

/// At most this much of the loss of another, asked of ours.
pub(crate) const LIMITS: [(&str, &str, f64); 5] = [
    ("switches", "bare", 1.2),
    ("switches+critical-sections+faults", "bare", 1.6),
    ("switches+critical-sections+faults", "perf-sched", 1.0 / 3.0),
    ("switches+critical-sections+faults", "wprof", 0.5),
    ("switches+critical-sections+faults", "rezolus", 1.0),
];

/// The trials of one load.
pub(crate) struct Table<'a> {
    pub(crate) trials: &'a [Trial],
    pub(crate) blocks: u32,
}

fn some(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"))
}

/// A value with its interval.
struct Interval(f64, f64, f64);

impl Interval {
    fn in_words(&self, digits: usize) -> String {
        format!("{:.digits$} [{:.digits$}, {:.digits$}]", self.0, self.1, self.2)
    }
}

impl Table<'_> {
    /// One pair for each block: no observer, in the middle of the windows before and after, and the observer.
    fn pairs(&self, observer: &str, measure: Measure) -> Vec<BlockPair> {
        let pair = |around: &[Trial]| {
            let [before, trial, after] = around else { return None };
            let is_one = trial.observer == observer && before.observer == NONE && after.observer == NONE;
            let (session, block) = (0, trial.block);
            (is_one && before.block == block && after.block == block).then(|| {
                let a = ((measure.of)(before) * (measure.of)(after)).sqrt();
                BlockPair { session, block, a, b: (measure.of)(trial) }
            })
        };
        self.trials.windows(3).filter_map(pair).collect()
    }

    fn loss(&self, observer: &str, measure: Measure) -> Option<Interval> {
        let ratio = ratio_paired(&self.pairs(observer, measure), 0.95).ok()?;
        Some(Interval(100.0 * (1.0 - ratio.value), 100.0 * (1.0 - ratio.high), 100.0 * (1.0 - ratio.low)))
    }

    /// Logarithms of the ratios to no observer, of two observers, in the blocks where there are both.
    fn logs(&self, one: &str, other: &str, measure: Measure) -> Vec<(f64, f64)> {
        let (one, other) = (self.pairs(one, measure), self.pairs(other, measure));
        let log = |pair: &BlockPair| (pair.b / pair.a).ln();
        let both = |a: &BlockPair| other.iter().find(|b| b.block == a.block).map(|b| (log(a), log(b)));
        one.iter().filter_map(both).collect()
    }

    /// The loss of one as a multiple of the other's, with the percentile interval of 10,000 resamplings of the blocks.
    fn loss_ratio(&self, one: &str, other: &str, measure: Measure) -> Option<Interval> {
        let logs = self.logs(one, other, measure);
        if logs.len() < 2 {
            return None;
        }
        let n = logs.len() as f64;
        let ratio = |sum: (f64, f64)| {
            let (one, other) = (1.0 - (sum.0 / n).exp(), 1.0 - (sum.1 / n).exp());
            // Where the other loses nothing, no multiple of it is enough.
            if other > 0.0 { one / other } else { f64::INFINITY }
        };
        let plus = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
        let mut noise = Noise::new(1);
        let mut draw = || logs[((noise.uniform() * n) as usize).min(logs.len() - 1)];
        let mut draws: Vec<f64> =
            (0..10_000).map(|_| ratio((0..logs.len()).map(|_| draw()).fold((0.0, 0.0), plus))).collect();
        draws.sort_by(f64::total_cmp);
        Some(Interval(ratio(logs.iter().copied().fold((0.0, 0.0), plus)), draws[250], draws[9_749]))
    }

    /// The median over an observer's trials.
    fn median(&self, observer: &str, of: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.trials.iter().filter(|t| t.observer == observer).filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    #[allow(clippy::print_stdout, reason = "a bench shows what it measured")]
    fn losses(&self, observers: &[String], measure: Measure, unit: &str) {
        println!("\n{} ({unit}), paired by block with none; loss / bare's by resampling of blocks", measure.name);
        println!(
            "{:44} {:>11} {:24} {:>22} {:>24}",
            "observer", "mean", "ratio to none [95 %]", "loss, %", "loss / bare's"
        );
        for name in observers {
            let values: Vec<f64> =
                self.trials.iter().filter(|t| t.observer == *name).map(|t| (measure.of)(t)).collect();
            let ratio = match ratio_paired(&self.pairs(name, measure), 0.95) {
                Ok(e) if name != NONE => Interval(e.value, e.low, e.high).in_words(4),
                Ok(_) => "-".to_owned(),
                Err(why) => why.reason,
            };
            let loss = self.loss(name, measure).filter(|_| name != NONE).map(|l| l.in_words(1));
            let to_bare = self.loss_ratio(name, "bare", measure).filter(|_| !name.starts_with("none"));
            println!(
                "{name:44} {:>11} {ratio:24} {:>22} {:>24}",
                some(geometric_mean(&values), 0),
                loss.unwrap_or_else(|| "-".to_owned()),
                to_bare.map_or_else(|| "-".to_owned(), |r| r.in_words(2)),
            );
        }
    }

    #[allow(clippy::print_stdout, reason = "a bench shows what it measured")]
    fn selves(&self, observers: &[String]) {
        println!("\nwhat they say of themselves, and what is seen of them (medians; the kernel's account of BPF)");
        println!(
            "{:44} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9} {:>6} {:>9} {:>10}",
            "observer",
            "switch/s",
            "attach, s",
            "detach, s",
            "own CPU,%",
            "BPF ns/run",
            "ns/switch",
            "seen/s",
            "lost",
            "maps, MB",
            "written,MB"
        );
        for name in observers {
            let median = |of: &dyn Fn(&Trial) -> Option<f64>, digits| some(self.median(name, of), digits);
            let lost: u64 = self.trials.iter().filter(|t| t.observer == *name).map(|t| t.said.lost).sum();
            println!(
                "{name:44} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9} {lost:>6} {:>9} {:>10}",
                median(&|t| Some(t.switches / t.length_s), 0),
                median(&|t| Some(t.attach_s), 3),
                median(&|t| Some(t.detach_s), 3),
                median(&|t| Some(100.0 * t.observer_cpu_s / t.length_s), 1),
                median(&|t| t.said.bpf.map(|(runs, ns)| ns as f64 / runs as f64), 0),
                median(&|t| t.said.bpf.map(|(_, ns)| ns as f64 / t.switches), 0),
                median(&|t| Some(t.said.seen as f64 / t.length_s).filter(|seen| *seen > 0.0), 0),
                median(&|t| Some(t.said.memory_bytes as f64 / 1e6).filter(|mb| *mb > 0.0), 2),
                median(&|t| Some(t.said.bytes as f64 / 1e6).filter(|mb| *mb > 0.0), 1),
            );
        }
    }

    /// Each note once for an observer, with the number of its trials.
    #[allow(clippy::print_stdout, reason = "a bench shows what it measured")]
    fn notes(&self) {
        let mut notes: BTreeMap<(&str, String), u32> = BTreeMap::new();
        for t in self.trials {
            // Counts differ from trial to trial.
            let words = |note: &String| note.trim_start_matches(|c: char| c.is_ascii_digit()).trim().to_owned();
            let mut of_trial: Vec<String> = t.said.notes.iter().map(words).collect();
            of_trial.sort();
            of_trial.dedup();
            of_trial.into_iter().for_each(|note| *notes.entry((&t.observer, note)).or_default() += 1);
        }
        for ((observer, note), trials) in notes {
            println!("{observer}, in {trials} trials: {note}");
        }
    }

    #[allow(clippy::print_stdout, reason = "a bench shows what it measured")]
    fn limits(&self, measure: Measure) {
        for (ours, other, limit) in LIMITS {
            let Some(ratio) = self.loss_ratio(ours, other, measure) else { continue };
            let verdict = match () {
                () if ratio.2 <= limit => "kept",
                () if ratio.1 > limit => "missed",
                () => "undecided",
            };
            println!(
                "{}: {ours} loses {} of {other}'s loss; at most {limit:.2}: {verdict}",
                measure.name,
                ratio.in_words(2)
            );
        }
    }

    /// BPF time for each switch as a multiple of bare's, paired by block: other tenants of the machine change the
    /// throughput much, and this hardly.
    #[allow(clippy::print_stdout, reason = "a bench shows what it measured")]
    fn bpf_times(&self) {
        let time = |observer: &str, block: u32| {
            let trial = self.trials.iter().find(|t| t.observer == observer && t.block == block)?;
            trial.said.bpf.map(|(_, ns)| ns as f64 / trial.switches).filter(|ns| *ns > 0.0)
        };
        for (ours, other, limit) in LIMITS {
            let pair = |block| Some(BlockPair { session: 0, block, a: time(other, block)?, b: time(ours, block)? });
            let pairs: Vec<BlockPair> = (0..self.blocks).filter_map(pair).collect();
            if let Ok(e) = ratio_paired(&pairs, 0.95) {
                let ratio = Interval(e.value, e.low, e.high).in_words(2);
                println!("BPF time for each switch: {ours} takes {ratio} of {other}'s; at most {limit:.2}");
            }
        }
    }

    /// All that is known.
    #[allow(clippy::print_stdout, reason = "a bench shows what it measured")]
    pub(crate) fn show(&self, load: &str, unit: &str, observers: &[String], arguments: &Arguments) {
        println!("\n== {load}: {} blocks, windows of {} s, seed {}", self.blocks, arguments.seconds, arguments.seed);
        for (measure, unit) in MEASURES.into_iter().zip([unit.to_owned(), unit.replace("/s", "/CPU s")]) {
            self.losses(observers, measure, &unit);
        }
        self.selves(observers);
        self.notes();
        println!();
        self.bpf_times();
        MEASURES.into_iter().for_each(|measure| self.limits(measure));
    }
}
