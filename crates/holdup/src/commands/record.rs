//! `holdup record`: watch a live system, write a bundle, say what held it up.

use super::explain;
use crate::progress::Progress;
use crate::{bundles, output, signals};
use clap::ArgMatches;
use holdup_evidence::CollectOptions;
use holdup_host::Host;
use holdup_model::Problem;
use holdup_model::bundle::Ending;
use holdup_target::{DEFAULT_WINDOWS, RecordOutcome, RecordRequest, Watching, default_collectors, record};
use std::path::{Path, PathBuf};

/// The shortest window: shorter ones hold too little to be told apart.
const SHORTEST_NS: u64 = 1_000_000_000;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let host = Host::real();
    let duration_ns = duration(matches)?;
    let windows = windows(matches, duration_ns)?;
    let (watching, postgres) = watching(matches, &host)?;
    let collectors = match matches.get_one::<String>("collect") {
        Some(list) => list.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect(),
        None => default_collectors(postgres.is_some()),
    };
    if collectors.is_empty() {
        return Err(Problem::usage("--collect", "without collectors nothing would be seen").into());
    }
    let out = matches.get_one::<PathBuf>("out").cloned().unwrap_or_else(|| bundles::free_name_of("record"));
    let quiet = matches.get_flag("quiet");
    if !quiet {
        let each_s = duration_ns as f64 / f64::from(windows) / 1e9;
        output::say(&format!(
            "watching {} in {windows} windows of {each_s:.1} s; nothing is changed",
            watching.in_words()
        ));
        output::say(&format!("collectors: {}; what they cost is told with the answer", collectors.join(", ")));
    }
    let request = RecordRequest {
        host: &host,
        watching: &watching,
        postgres,
        duration_ns,
        windows,
        collectors: &collectors,
        options: CollectOptions {
            sections: matches.get_many::<String>("section").map(|s| s.cloned().collect()).unwrap_or_default(),
            frequency_hz: matches.get_one("frequency").copied(),
        },
        maps: holdup_kernels::Cache::open(&holdup_kernels::Cache::default_root()).ok().map(|c| c.root().join("maps")),
        machine: holdup_host::machine(&host),
        out: &out,
        command: std::env::args().collect(),
        wait: super::run::wait(matches)?,
        cancel: signals::cancel_on_signals()?,
    };
    let outcome = record(&request, &mut Progress::new(quiet))?;
    if !quiet && outcome.windows_done > 0 {
        explain::tell(&holdup_analysis::explain(&bundles::read(&out)?), &out, matches.get_flag("json"))?;
    }
    Ok(tell(&out, &outcome))
}

/// Says where the bundle is and how it ended; gives the exit code.
fn tell(out: &Path, outcome: &RecordOutcome) -> u8 {
    output::say(&format!("bundle: {} ({} windows)", out.display(), outcome.windows_done));
    match &outcome.ending {
        Ending::Interrupted => {
            output::say("interrupted; the bundle holds what was seen");
            4
        }
        Ending::Failed { reason } => {
            output::error(&format!("the record ended early: {reason}"));
            3
        }
        Ending::Complete | Ending::Decided | Ending::Budget => 0,
    }
}

fn watching(matches: &ArgMatches, host: &Host) -> Result<(Watching, Option<String>), Problem> {
    let one = |name: &str| matches.get_one::<String>(name);
    if let Some(pids) = matches.get_many::<u32>("pid") {
        return Ok((Watching::pids(host, &pids.copied().collect::<Vec<_>>())?, None));
    }
    if let Some(name) = one("comm") {
        return Ok((Watching::comm(host, name)?, None));
    }
    if let Some(path) = one("cgroup") {
        return Ok((Watching::cgroup(host, path)?, None));
    }
    match one("pg") {
        Some(named) => Watching::postgres(host, named),
        None => Err(Problem::usage("holdup record", "it needs to know what to watch")
            .hint("--pid PID, --comm NAME, --cgroup PATH or --pg auto")),
    }
}

fn duration(matches: &ArgMatches) -> Result<u64, Problem> {
    let Some(text) = matches.get_one::<String>("duration") else {
        return Ok(u64::from(DEFAULT_WINDOWS) * 3 * SHORTEST_NS);
    };
    let ns = holdup_plan::parse_duration_ns(text).ok_or_else(|| {
        Problem::usage(format!("--duration {text}"), "not a duration").hint("for example --duration 30s")
    })?;
    if ns < SHORTEST_NS {
        return Err(Problem::usage(format!("--duration {text}"), "a window takes a second at least")
            .hint("--duration 2s has two windows, the least that give an interval"));
    }
    Ok(ns)
}

fn windows(matches: &ArgMatches, duration_ns: u64) -> Result<u32, Problem> {
    let most = u32::try_from(duration_ns / SHORTEST_NS).unwrap_or(u32::MAX);
    match matches.get_one::<u32>("windows").copied() {
        None => Ok(most.min(DEFAULT_WINDOWS)),
        Some(asked) if asked <= most => Ok(asked),
        Some(asked) => Err(Problem::usage(format!("--windows {asked}"), "a window takes a second at least")
            .hint(format!("--windows {most}, or a longer --duration"))),
    }
}
