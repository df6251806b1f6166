//! How long the critical sections of preempted holders are, from what was left of them, against what is known of
//! `lock-contention`.

use holdup_catalogue::lock_contention;
use holdup_evidence::{CollectContext, Collecting, Subject};
use holdup_induce::trial::{Trial, prepare};
use holdup_model::{Availability, Collected, Parameters, SparseHistogram};
use holdup_stats::residual::{MIN_RESIDUALS, mean_length};
use holdup_testkit::{ignore, ignore_part};
use std::sync::mpsc;
use std::time::Duration;

/// The number of windows that are watched until the estimate fits.
const WINDOWS: usize = 3;

/// What critical-sections says of holders that are inside for so long, and how long a section takes by the workers' own count, ns.
fn watched(section_ns: i64, window_ms: u64) -> (Collected, f64) {
    let mut parameters: Parameters = lock_contention::Parameters::defaults(4);
    parameters.set("section", section_ns);
    parameters.set("think", section_ns / 4);
    let mut prepared = prepare("lock-contention", &parameters).expect("it can be prepared everywhere");
    let (sender, receiver) = mpsc::channel();
    let mut on_open = || {
        let collector = holdup_evidence::find("critical-sections").expect("it exists");
        let subjects = vec![Subject { role: "load".to_owned(), pid: std::process::id() }];
        let context = CollectContext { subjects, ..CollectContext::default() }.for_collectors(&[collector]);
        let running: Box<dyn Collecting> = collector.start(&context).unwrap_or_else(|p| panic!("{p:?}"));
        let sender = sender.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(window_ms));
            sender.send(running.stop()).expect("the test waits for it");
        });
    };
    let trial = Trial::new(&parameters, window_ms + 400).run_with(&mut *prepared, &mut on_open).expect("it runs");
    let seen = receiver.recv().expect("the watcher ended");
    let rate = trial.measurements.iter().find(|m| m.metric == "operations_per_s").expect("it is measured");
    let off_s: f64 = seen.items.iter().filter(|i| i.name == "holder_off_cpu_s").filter_map(|i| i.value.value()).sum();
    // Four workers always want the lock, so it is held all the time.
    let on_share = 1.0 - off_s / (window_ms as f64 / 1e3);
    (seen, on_share / rate.value.value().expect("it runs") * 1e9)
}

/// True if it is among the notes.
fn says(seen: &Collected, what: &str) -> bool {
    seen.coverage.notes.iter().any(|note| note.contains(what))
}

fn sections_are_as_long_as_they_are() {
    let collector = holdup_evidence::find("critical-sections").expect("it exists");
    if let Availability::Unavailable { reason, .. } = collector.probe(&CollectContext::default()) {
        ignore(format!("critical-sections cannot work here: {reason}"));
    }
    // Sections of up to 20 us do their work in the line of code of their release; longer ones call for it.
    for section_ns in [20_000, 60_000, 200_000] {
        let mut residuals = SparseHistogram::new();
        // Of 250 residuals, which is what one window gives, one interval in ten misses what it is of.
        let fits = (0..WINDOWS).any(|_| fits(section_ns, &mut residuals));
        assert!(fits, "{section_ns} ns");
    }
}

/// Watches one more window, and asks whether the mean length of all windows' residuals is what is known. It is so as well
/// where nothing can be said.
fn fits(section_ns: i64, residuals: &mut SparseHistogram) -> bool {
    let (seen, known_ns) = watched(section_ns, 15_000);
    println!("{:?} {:?}", seen.coverage, seen.cost);
    for item in seen.items.iter().filter(|i| i.name.starts_with("holder_preempted_by")) {
        println!("  {} {:?} {:?}", item.name, item.label, item.value);
    }
    if let Some(more) = seen.histograms.iter().find(|h| h.name == "section_residual_ns") {
        residuals.add(&more.histogram);
    }
    let quantile = |q| residuals.quantile_ns(q);
    println!("{} residuals: {:?}", residuals.count(), [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99].map(quantile));
    if residuals.count() < MIN_RESIDUALS {
        // Whether holders lose the CPU at all is the host's affair, and so is what a breakpoint takes.
        assert!(
            residuals.count() > 0
                || !says(&seen, "residual times")
                || ["are too short", "a breakpoint there slows"].iter().any(|why| says(&seen, why)),
            "{seen:?}"
        );
        ignore_part("too few holders were preempted here, or breakpoints take longer");
        return true;
    }
    let e = mean_length(residuals, None, 1);
    println!("{section_ns} ns, by the workers' count {known_ns:.0} ns: {e:?}");
    // The work is longer than asked for where others share the core; the count has what lies between two sections.
    e.is_ok_and(|e| e.low <= 1.6 * known_ns && e.high >= 0.6 * known_ns)
}

holdup_testkit::tests!(
    truth:
    sections_are_as_long_as_they_are
);
