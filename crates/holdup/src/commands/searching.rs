//! What searches share: their folders, their shares, the host that their trials are of.

use crate::world::World;
use holdup_host::Host;
use holdup_model::{Event, Observer, Problem};
use holdup_search::{Line, Log};
use std::path::PathBuf;

fn numbered<L: Line>(n: u32) -> PathBuf {
    PathBuf::from(format!("{}-{n}", L::COMMAND))
}

/// The first free folder `COMMAND-N`.
pub(super) fn free_folder<L: Line>() -> PathBuf {
    (1..).map(numbered::<L>).find(|path| !path.exists()).expect("one of four thousand million names is free")
}

/// The newest folder `COMMAND-N` here.
pub(super) fn newest_folder<L: Line>() -> Result<PathBuf, Problem> {
    (1..).map(numbered::<L>).take_while(|path| path.exists()).last().ok_or_else(|| {
        let why = format!("there is no {} in this folder", numbered::<L>(1).display());
        Problem::usage("no search", why).hint("name the folder of the search")
    })
}

/// `5%` or `0.05`, not below zero.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    let scale = if text.trim().ends_with('%') { 100.0 } else { 1.0 };
    let share = number.map(|x| x / scale).filter(|x| (0.0..10.0).contains(x));
    share.ok_or_else(|| "not a share such as 1%".to_owned())
}

/// Notes down which host this is, unless what was measured so far is of the same.
pub(super) fn note_host<L: Line>(
    log: &mut Log<L>,
    (host, world): (&Host, &World),
    observer: &mut dyn Observer,
) -> Result<(), Problem> {
    let kernel = host.read_text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let machine = world.machine;
    let now = format!("{} CPUs, {} MB, Linux {}", machine.cpus, machine.memory_bytes >> 20, kernel.trim());
    let last = log.entries().iter().rev().find_map(|line| line.host().map(str::to_owned));
    if last.as_ref() == Some(&now) {
        return Ok(());
    }
    if let Some(last) = last {
        let before = log.entries().iter().filter(|line| line.is_measurement()).count();
        let what = holdup_model::text::count(before, L::MEASURED);
        observer.event(Event::Note(&format!("the host changed ({last}; now {now}): {what} void")));
    }
    log.add(L::of_host(now))
}
