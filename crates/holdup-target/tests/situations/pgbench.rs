//! The account against two measures that know nothing of it: the latency that pgbench logs, and samples of pg_stat_activity.
//!
//! pgbench and a backend do not see the same time. A transaction of pgbench begins before the statement is sent and ends when
//! pgbench has run again and read the answer; a session is at work from the wake-up by the statement until it sleeps for the
//! next one. What lies between is time in which pgbench runs or waits for a CPU, which the account has as well where it watches
//! pgbench: the two may differ by that.

use crate::recording;
use crate::situations::record::{self, MANY};
use crate::situations::server::Server;
use crate::situations::{QUIET, Situation, needs_account, sampling};
use holdup_model::{BundleData, Trial};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "pgbench",
    setup: &["CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT g, 0 FROM generate_series(1, 3) g"],
    ..QUIET
};

/// Clients that update few rows wait for locks.
const LOCKS: &str = "\\set id random(1, 3)\nUPDATE t SET v = v + 1 WHERE id = :id;\n";
/// Clients that read wait for nothing but a CPU; more rows go to a temporary file (work_mem).
const READS: &str = "SELECT sum(g) FROM generate_series(1, 50000) g;\n";
const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgbench'";
/// A backend runs for this long between the answer and its sleep, and so on: this part of the latency at most.
const TOLERANCE: f64 = 0.03;

/// pgbench with a thread for each client, so that no client waits for another one's answer to be read.
struct Pgbench {
    child: Child,
    folder: tempfile::TempDir,
}

impl Pgbench {
    fn start(server: &Server, script: &str, clients: usize, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("script.sql");
        std::fs::write(&file, script).expect("a script");
        let clients = clients.to_string();
        let mut command = server.program("pgbench");
        command.args(["-n", "-T", "3000", "-M", "prepared", "-l", "-c", &clients, "-j", &clients]);
        command.arg("--log-prefix").arg(folder.path().join("log")).arg("-f").arg(&file).args(more).arg("postgres");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbench starts");
        std::thread::sleep(Duration::from_secs(1));
        Pgbench { child, folder }
    }

    /// Its transactions, each with its begin and its end, ns since 1970. They end with their sessions, after one that a window
    /// cut: pgbench writes its log at the end.
    fn transactions(mut self, server: &Server) -> Vec<(i64, i64)> {
        std::thread::sleep(Duration::from_secs(1));
        server.ask(END);
        self.child.wait().expect("it ends");
        let files = std::fs::read_dir(self.folder.path()).expect("logs").map(|entry| entry.expect("a file").path());
        let logs = files.filter(|path| path.extension().is_none_or(|extension| extension != "sql"));
        logs.flat_map(|path| transactions(&path)).collect()
    }
}

impl Drop for Pgbench {
    fn drop(&mut self) {
        let _has_ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// `client number latency script seconds microseconds [lag]`: with `--rate` the latency counts from when the transaction was due,
/// and the lag is how late it began (pgbench.c:doLog).
fn transactions(log: &Path) -> Vec<(i64, i64)> {
    let text = std::fs::read_to_string(log).expect("a log");
    let of_line = |line: &str| {
        let fields: Vec<i64> = line.split(' ').map_while(|field| field.parse().ok()).collect();
        let &[_, _, latency_us, _, s, us, ref lag_us @ ..] = fields.as_slice() else { return None };
        let end_ns = (s * 1_000_000 + us) * 1000;
        Some((end_ns - (latency_us - lag_us.first().copied().unwrap_or(0)) * 1000, end_ns))
    };
    text.lines().filter_map(of_line).collect()
}

/// The time of transactions within a window, s.
fn within(transactions: &[(i64, i64)], trial: &Trial) -> f64 {
    let window = trial.window.expect("it was closed");
    let of_one = |(begin, end): &(i64, i64)| (end.min(&window.end_unix_ns) - begin.max(&window.begin_unix_ns)).max(0);
    transactions.iter().map(|one| of_one(one) as f64 / 1e9).sum()
}

/// An item of the account in a window, over the labels that are wanted, s.
pub(crate) fn account_s(trial: &Trial, item: &str, is_wanted: impl Fn(&str) -> bool) -> f64 {
    let account = trial.evidence.iter().find(|c| c.collector == "account").expect("it runs by default");
    let wanted = account.items.iter().filter(|i| i.name == item && i.label.as_deref().is_some_and(&is_wanted));
    wanted.filter_map(|i| i.value.value()).sum()
}

/// What pgbench measures, what the account has, and what lies between them, in all windows.
fn agrees(name: &str, bundle: &BundleData, transactions: &[(i64, i64)]) {
    let sum = |of: &dyn Fn(&Trial) -> f64| bundle.trials.iter().map(of).sum::<f64>();
    let latency_s = sum(&|trial| within(transactions, trial));
    let is_at_work = |label: &str| label.starts_with("client backend |") && !label.ends_with("| Client:ClientRead");
    let at_work_s = sum(&|trial| account_s(trial, "account_s", is_at_work));
    let idle_s = sum(&|trial| account_s(trial, "account_s", |label| label.starts_with("client backend |"))) - at_work_s;
    let is_pgbench = |label: &str| label.starts_with("watched |") && !label.starts_with("watched | asleep");
    let pgbench_s = sum(&|trial| account_s(trial, "account_s", is_pgbench));
    let percent = |s: f64| 100.0 * s / latency_s;
    println!(
        "{name}: {} transactions, {latency_s:.3} s by pgbench, {at_work_s:.3} s at work ({:+.2} %), {idle_s:.3} s in ClientRead; \
         pgbench runs or waits for a CPU {pgbench_s:.3} s ({:.2} %)",
        transactions.len(),
        percent(at_work_s - latency_s),
        percent(pgbench_s),
    );
    assert!(latency_s > 0.5 && at_work_s > 0.5, "{name}: nothing was measured");
    let off_s = (at_work_s - latency_s).abs();
    assert!(off_s < pgbench_s + TOLERANCE * latency_s, "{name}: {latency_s} s by pgbench, {at_work_s} s at work");
}

/// A load of pgbench on a new server: its latency and, of a second record, samples.
fn load(name: &str, script: &str, clients: usize, more: &[&str]) {
    needs_account();
    let mut server = Server::begin(&SITUATION);
    let pgbench = Pgbench::start(&server, script, clients, more);
    let bundle = record::of(&[server.pid(), pgbench.child.id()], MANY);
    let sampler = sampling::sample(&mut server);
    let sampled = record::of(&[server.pid()], MANY);
    sampling::agrees(name, &sampled, &sampler.stop(&server));
    agrees(name, &bundle, &pgbench.transactions(&server));
    recording::keep(&bundle, &recording::Demand::default());
}

pub(crate) fn clients_that_wait_for_locks() {
    load("locks", LOCKS, 16, &[]);
}

pub(crate) fn clients_that_read() {
    load("reads", READS, 8, &[]);
}

/// Clients that are mostly idle: that the latency is all their time does not make the two agree.
pub(crate) fn clients_that_read_now_and_then() {
    load("reads at a rate", READS, 4, &["--rate", "25"]);
}
