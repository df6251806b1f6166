//! The record of a situation, as `holdup record` makes it.

use holdup_evidence::CollectOptions;
use holdup_host::{Host, Scheduling};
use holdup_load::Cancel;
use holdup_model::BundleData;
use holdup_model::progress::{Observer, Silent};
use holdup_watch::{RecordRequest, Watching, default_collectors};
use std::time::Duration;

/// How a record is divided.
#[derive(Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) count: u32,
    pub(crate) length: Duration,
    /// True if it comes before real-time tasks of a situation, which would keep it from its own work.
    pub(crate) is_real_time: bool,
}

pub(crate) const USUAL: Windows = Windows { count: 4, length: Duration::from_millis(700), is_real_time: false };

/// As many windows as `holdup record` has: one stall of the machine widens the interval less.
pub(crate) const MANY: Windows = Windows { count: 10, length: Duration::from_millis(600), ..USUAL };

/// Records processes and what they start.
pub(crate) fn of(pids: &[u32], windows: Windows) -> BundleData {
    observed(pids, None, windows, &mut Silent)
}

/// The same, with a connection to the server where there is one, and something sees the windows begin and end.
pub(crate) fn observed(
    pids: &[u32],
    postgres: Option<String>,
    windows: Windows,
    observer: &mut dyn Observer,
) -> BundleData {
    let host = Host::real();
    // Else it takes its turns among those that it watches, and its windows take as long.
    let (policy, nice, priority) =
        if windows.is_real_time { (Scheduling::FIFO, 0, 20) } else { (Scheduling::OTHER, -20, 0) };
    let wanted = Scheduling { policy, reset_on_fork: false, nice, priority };
    let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    if let Err(error) = host.set_scheduling(tid, wanted) {
        println!("what else runs here is not kept away: {error}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("bundle");
    let request = RecordRequest {
        host: &host,
        watching: &Watching::pids(&host, pids).expect("they run"),
        collectors: &default_collectors(postgres.is_some()),
        postgres,
        duration_ns: u64::from(windows.count) * windows.length.as_nanos() as u64,
        windows: windows.count,
        options: CollectOptions::default(),
        maps: None,
        machine: holdup_host::machine(&host),
        out: &out,
        command: Vec::new(),
        wait: Duration::from_secs(600),
        cancel: Cancel::default(),
    };
    holdup_watch::record(&request, observer).expect("it records");
    let usual = Scheduling { policy: Scheduling::OTHER, reset_on_fork: false, nice: 0, priority: 0 };
    let _stays = host.set_scheduling(tid, usual);
    holdup_bundle::read(&out).expect("it reads")
}
