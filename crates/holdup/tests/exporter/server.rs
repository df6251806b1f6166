//! The exporter that watches, and the server that it watches.

pub(crate) use crate::common::server::Server;
use crate::common::{Sandbox, is_root, signal, wait_for};
use crate::exporter::http::get;
use holdup_testkit::ignore;
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A running exporter.
pub(crate) struct Exporter {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
}

impl Exporter {
    /// Starts one that watches this server, on a port that the kernel chooses.
    pub(crate) fn start(place: &Sandbox, server: &str, more: &[&str]) -> Exporter {
        let args = [&["exporter", "--pg", server, "--listen", "127.0.0.1:0", "--window", "1s"], more].concat();
        Exporter::of(place.holdup(&args))
    }

    pub(crate) fn of(mut command: Command) -> Exporter {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, kept) = (BufReader::new(child.stderr.take().unwrap()).lines(), said.clone());
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line)));
        let mut exporter = Exporter { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), said };
        wait_for("the address of the exporter", || {
            let said = exporter.said();
            assert!(exporter.child.try_wait().unwrap().is_none(), "it ended: {said:?}");
            let address = said.iter().find_map(|line| line.split("://").nth(1)?.split('/').next()?.parse().ok());
            address.map(|address| exporter.address = address).is_some()
        });
        exporter
    }

    /// The lines that it has said.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn metrics(&self) -> String {
        get(self.address, "/metrics", "").1
    }

    /// The sum of the series of this name whose labels have all of these parts.
    pub(crate) fn sum(&self, name: &str, parts: &[&str]) -> f64 {
        sum(&self.metrics(), name, parts)
    }

    /// Ends it as a service's manager does.
    pub(crate) fn end(mut self) {
        signal(&self.child, Signal::TERM);
        let said = self.said();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said:?}");
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// The sum of the series of this name in an exposition whose labels have all of these parts.
pub(crate) fn sum(text: &str, name: &str, parts: &[&str]) -> f64 {
    let lines =
        text.lines().filter(|line| line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} ")));
    let chosen = lines.filter(|line| parts.iter().all(|part| line.contains(part)));
    chosen.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

pub(crate) fn a_server_that_restarts_is_watched_again_and_no_counter_goes_back() {
    let (place, server) = (Sandbox::new(), Server::start());
    let _load = server.load("60");
    let exporter = Exporter::start(&place, &server.url(), &[]);
    let watched = || exporter.sum("holdup_watched_seconds_total", &[]);
    wait_for("windows", || watched() >= 3.0);
    let counters = |text: &str| -> Vec<(String, f64)> {
        let lines = text.lines().filter(|line| line.split('{').next().unwrap().ends_with("_total"));
        lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(s, n)| (s.to_owned(), n.parse().unwrap())).collect()
    };
    let before = counters(&exporter.metrics());
    server.cluster.restart().unwrap();
    wait_for("the restarted server", || exporter.sum("holdup_watch_begins_total", &[]) >= 2.0);
    let at_restart = watched();
    wait_for("more windows", || watched() >= at_restart + 2.0);
    assert!((exporter.sum("holdup_up", &[]) - 1.0).abs() < f64::EPSILON);
    let text = exporter.metrics();
    let after = counters(&text);
    for (series, then) in &before {
        let now = after.iter().find(|(name, _)| name == series).map(|(_, n)| *n);
        assert!(now.is_some_and(|now| now >= *then), "{series}: {then} and then {now:?}");
    }
    let said = exporter.said();
    assert!(said.iter().any(|line| line.contains("not watched")), "{said:?}");
    assert!(said.iter().any(|line| line.contains("watched again")), "{said:?}");
    // No password, no text of a query.
    assert!(!text.contains("SELECT") && !text.contains("password"), "{text}");
    exporter.end();
    server.cluster.discard().unwrap();
}

pub(crate) fn without_root_what_is_left_works_and_what_is_missing_is_said() {
    if !is_root() {
        ignore("only root can run it as another user");
    }
    let (place, server) = (Sandbox::new(), Server::start());
    let pid = server.cluster.pid().unwrap().to_string();
    let folder = place.path(".");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    let without_root = |capabilities: &str| {
        let program = place.holdup(&[]).get_program().to_owned();
        // The build folder may be closed to others.
        let copy = place.path("holdup-copy");
        if !copy.exists() {
            std::fs::copy(program, &copy).unwrap();
        }
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"])
            .args(["--inh-caps", capabilities, "--ambient-caps", capabilities, "--bounding-set", capabilities])
            .arg(copy)
            .args(["exporter", "--pg", &pid, "--listen", "127.0.0.1:0", "--window", "1s"])
            .current_dir(&folder)
            .env("HOME", &folder)
            .env("HOLDUP_STATE_DIR", place.path("state-of-nobody"))
            .env("HOLDUP_CACHE", place.path("cache-of-nobody"));
        command
    };
    let exporter = Exporter::of(without_root("-all"));
    wait_for("a window", || exporter.sum("holdup_watched_seconds_total", &[]) >= 2.0);
    assert!(exporter.sum("holdup_collector_available", &["collector=\"account\""]) < 0.5);
    assert!(exporter.sum("holdup_host_cpu_seconds_total", &[]) > 0.0, "{}", exporter.metrics());
    let said = exporter.said();
    assert!(said.iter().any(|line| line.contains("account: ")), "{said:?}");
    exporter.end();
    // What the unit for systemd gives.
    let load = server.load("40");
    let exporter = Exporter::of(without_root("-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search,+syslog"));
    let waits = || exporter.sum("holdup_task_seconds_total", &["kind=\"client backend\"", "wait_event=\"ClientRead\""]);
    wait_for("wait events of another user's server", || waits() > 0.0);
    for collector in ["account", "switches", "faults", "critical-sections"] {
        let label = format!("collector=\"{collector}\"");
        assert!(exporter.sum("holdup_collector_available", &[&label]) > 0.5, "{collector}: {:?}", exporter.said());
    }
    drop(load);
    exporter.end();
    server.cluster.discard().unwrap();
}
