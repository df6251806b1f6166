//! A server of its own for each situation, its sessions, and the record of it.

use crate::Situation;
use holdup_evidence::CollectOptions;
use holdup_host::{Host, Scheduling};
use holdup_load::Cancel;
use holdup_model::BundleData;
use holdup_model::progress::Silent;
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::{Binaries, Cluster, ClusterOptions};
use holdup_sql::Client;
use holdup_target::{RecordRequest, Watching, default_collectors, record};
use holdup_testkit::ignore;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WINDOWS: u32 = 4;
const WINDOW: Duration = Duration::from_millis(700);

/// Starts the server and its sessions, and records it.
pub(crate) fn watch(situation: &Situation) -> BundleData {
    let folder = tempfile::Builder::new().prefix("h").tempdir_in("/tmp").expect("a folder");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    let host = Host::real();
    let bin = Binaries::find(&SearchPath::of_this_host(None), Need::Server).unwrap_or_else(|problem| ignore(problem));
    let options = ClusterOptions { bin, workdir: folder.path().to_owned(), max_clients: 32, cancel: Cancel::default() };
    let cluster = Cluster::create(&host, &options).expect("a cluster");
    let config = cluster.config("postgres");
    let connect = || Client::connect(&config).expect("the server answers").with_limit(Duration::from_secs(120));
    {
        let mut client = connect();
        situation.setup.iter().for_each(|statement| drop(client.simple_query(statement).expect("set up")));
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut holder = (!situation.held.is_empty()).then(connect);
        if let Some(holder) = &mut holder {
            situation.held.iter().for_each(|statement| drop(holder.simple_query(statement).expect("held")));
        }
        for _ in 0..situation.sessions {
            let (stop, mut client) = (&stop, connect());
            scope.spawn(move || {
                // The server ends with the situation, and what waits with an error.
                while !stop.load(Ordering::Relaxed) && client.simple_query(situation.statement).is_ok() {}
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let bundle = recorded(&host, cluster.pid().expect("it runs"));
        stop.store(true, Ordering::Relaxed);
        cluster.discard().expect("nothing is left");
        bundle
    })
}

fn recorded(host: &Host, server: u32) -> BundleData {
    // Else it takes its turns among those that it watches, and its windows take as long.
    let wanted = Scheduling { policy: Scheduling::OTHER, reset_on_fork: false, nice: -20, priority: 0 };
    let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    if let Err(error) = host.set_scheduling(tid, wanted) {
        println!("what else runs here is not kept away: {error}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("bundle");
    let request = RecordRequest {
        host,
        watching: &Watching::pids(host, &[server]).expect("it runs"),
        postgres: None,
        duration_ns: u64::from(WINDOWS) * WINDOW.as_nanos() as u64,
        windows: WINDOWS,
        collectors: &default_collectors(false),
        options: CollectOptions::default(),
        maps: None,
        machine: holdup_host::machine(host),
        out: &out,
        command: Vec::new(),
        wait: Duration::from_secs(600),
        cancel: Cancel::default(),
    };
    record(&request, &mut Silent).expect("it records");
    holdup_store::read(&out).expect("it reads")
}
