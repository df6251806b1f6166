//! What disturbs an exporter that stays on: BPF is refused later, it is stopped for a while, others watch too.

use crate::common::{Sandbox, is_root, signal, wait_for};
use crate::exporter::server::{Exporter, Server};
use holdup_testkit::ignore;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

fn is_there(exporter: &Exporter, collector: &str) -> bool {
    exporter.sum("holdup_collector_available", &[&format!("collector=\"{collector}\"")]) > 0.5
}

/// A program of the kernel is a descriptor: a limit that is lowered while the exporter runs refuses what a restart of the
/// server asks for anew.
pub(crate) fn bpf_that_is_refused_later_is_said_and_used_again_when_it_is_given() {
    if !is_root() {
        ignore("takes root for BPF programs");
    }
    let (place, server) = (Sandbox::new(), Server::start());
    let _load = server.load("120");
    let exporter = Exporter::start(&place, &server.url(), &[]);
    let watched = || exporter.sum("holdup_watched_seconds_total", &[]);
    wait_for("windows", || watched() >= 2.0);
    assert!(is_there(&exporter, "account"), "{:?}", exporter.said());
    let pid = Pid::from_child(&exporter.child);
    let few = Rlimit { current: Some(24), ..getrlimit(Resource::Nofile) };
    let before = prlimit(Some(pid), Resource::Nofile, few).unwrap();
    server.cluster.restart().unwrap();
    wait_for("the server that restarted", || exporter.sum("holdup_watch_begins_total", &[]) >= 2.0);
    wait_for("the account to be missing", || !is_there(&exporter, "account"));
    let then = watched();
    wait_for("windows without it", || watched() >= then + 2.0);
    assert!(exporter.sum("holdup_host_cpu_seconds_total", &[]) > 0.0);
    let said = exporter.said();
    assert!(said.iter().any(|line| line.contains("account: ") && line.contains("Too many open files")), "{said:?}");
    prlimit(Some(pid), Resource::Nofile, before).unwrap();
    wait_for("the account again", || is_there(&exporter, "account"));
    wait_for("the line about it", || exporter.said().iter().any(|line| line.ends_with("account: works again")));
    exporter.end();
    server.cluster.discard().unwrap();
}

/// As a host that was suspended, or a guest that was paused.
pub(crate) fn a_process_that_was_stopped_has_one_long_window_and_no_counter_goes_back() {
    let (place, server) = (Sandbox::new(), Server::start());
    let _load = server.load("60");
    let exporter = Exporter::start(&place, &server.url(), &[]);
    let watched = || exporter.sum("holdup_watched_seconds_total", &[]);
    wait_for("windows", || watched() >= 2.0);
    let (begun, before) = (std::time::Instant::now(), watched());
    signal(&exporter.child, Signal::STOP);
    std::thread::sleep(std::time::Duration::from_secs(4));
    signal(&exporter.child, Signal::CONT);
    wait_for("the time in which it was stopped", || watched() >= before + 4.0);
    // A window may have begun before the first look.
    let elapsed_s = begun.elapsed().as_secs_f64();
    assert!(watched() - before <= elapsed_s + 1.5, "{} s in {elapsed_s} s", watched() - before);
    let checkpointer = exporter.sum("holdup_task_seconds_total", &["kind=\"checkpointer\""]);
    if is_root() {
        assert!((checkpointer / watched() - 1.0).abs() < 0.1, "{checkpointer} s of one process in {} s", watched());
    }
    exporter.end();
    server.cluster.discard().unwrap();
}

pub(crate) fn two_exporters_a_record_and_a_screen_see_the_same_server() {
    let (place, server) = (Sandbox::new(), Server::start());
    let load = server.load("60");
    let all = [0, 1].map(|_| Exporter::start(&place, &server.url(), &[]));
    let watched = |exporter: &Exporter| exporter.sum("holdup_watched_seconds_total", &[]);
    wait_for("windows of both", || all.iter().all(|exporter| watched(exporter) >= 2.0));
    place.expect(0, &["record", "--pg", &server.url(), "--duration", "2s", "--out", "beside.holdup"]);
    let (screen, _) = place.expect(0, &["watch", "--pg", &server.url(), "--once", "--window", "1s"]);
    assert!(screen.starts_with("PostgreSQL"), "{screen}");
    if is_root() {
        let share = |exporter: &Exporter| {
            exporter.sum("holdup_task_seconds_total", &["kind=\"client backend\""]) / watched(exporter)
        };
        let [a, b] = [share(&all[0]), share(&all[1])];
        assert!((a / b - 1.0).abs() < 0.2, "{a} and {b} backends");
    }
    all.into_iter().for_each(Exporter::end);
    drop(load);
    server.cluster.discard().unwrap();
}
