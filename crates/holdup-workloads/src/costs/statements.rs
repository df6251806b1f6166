//! What a backend of PostgreSQL and pgbench compute, on a temporary server of our own.

use super::bench::{REPEATS, refused};
use super::samples::{Samples, middle};
use super::{Context, Cost};
use crate::postgres::child::clean_command;
use crate::postgres::find::{Need, Places};
use crate::postgres::{Binaries, Cluster, ClusterOptions, sql};
use holdup_host::Host;
use holdup_model::Problem;
use std::process::Stdio;
use std::time::Duration;

const DOCS: &str = "CPU time of a backend for it in transactions of pgbench over 100,000 rows without waiting for the log, \
                    less its two system calls, receive_ns, send_ns and wake_ns; the middle of 12 in a repeat";

pub(super) const BEGIN: Cost = Cost { name: "pg_begin_ns", docs: DOCS, measure: |c| of(c, 0) };
pub(super) const SELECT: Cost = Cost { name: "pg_select_ns", docs: DOCS, measure: |c| of(c, 1) };
pub(super) const UPDATE: Cost = Cost { name: "pg_update_ns", docs: DOCS, measure: |c| of(c, 2) };
pub(super) const INSERT: Cost = Cost { name: "pg_insert_ns", docs: DOCS, measure: |c| of(c, 3) };
pub(super) const END: Cost = Cost { name: "pg_end_ns", docs: DOCS, measure: |c| of(c, 4) };
pub(super) const CLIENT: Cost = Cost {
    name: "pg_client_ns",
    docs: "CPU time of pgbench --select-only with one client for each of 2,000 further transactions, less two system calls, \
           receive_ns, send_ns and wake_ns",
    measure: |c| of(c, 5),
};

/// Kinds of statements, and pgbench behind them.
const KINDS: usize = 6;
/// Transactions in a repeat.
const TRANSACTIONS: usize = 12;
/// Rows that statements pick from.
const ROWS: u64 = 100_000;

/// What each repeat gave, ns: begin, select, update, insert, end, and pgbench.
pub(super) type Times = [Vec<f64>; KINDS];

fn of(context: &Context, kind: usize) -> Result<Samples, Problem> {
    let times = context.statements.get_or_init(|| measure(context)).as_ref().map_err(Clone::clone)?;
    Samples::of("statements", times[kind].clone())
}

fn measure(context: &Context) -> Result<Times, Problem> {
    // Each statement is a message there and one back.
    let messages_ns = 2.0 * context.known("syscall_ns")?
        + context.known("receive_ns")?
        + context.known("send_ns")?
        + context.known("wake_ns")?;
    let bin = Binaries::find(&Places::of_this_host(context.pg_bin.as_deref()), Need::Server)?;
    let workdir = context.workdir.clone();
    let options = ClusterOptions { bin, workdir, max_clients: 10, cancel: context.cancel.clone() };
    let cluster = Cluster::create(&Host::real(), &options)?;
    let times = on(&cluster, context, messages_ns);
    cluster.discard()?;
    times
}

fn on(cluster: &Cluster, context: &Context, messages_ns: f64) -> Result<Times, Problem> {
    let mut client = sql::connect(&cluster.config("postgres"))?;
    let setup = format!(
        "CREATE TABLE pgbench_accounts(aid int NOT NULL, bid int, abalance int, filler char(84));\
         INSERT INTO pgbench_accounts SELECT n, 1, 0, '' FROM generate_series(1, {ROWS}) n;\
         ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid);\
         CREATE TABLE pgbench_branches(bid int, bbalance int); INSERT INTO pgbench_branches VALUES (1, 0);\
         CREATE TABLE pgbench_history(tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))"
    );
    sql::rows(&mut client, &setup)?;
    sql::rows(&mut client, "VACUUM ANALYZE pgbench_accounts")?;
    sql::rows(&mut client, "SET synchronous_commit = off")?;
    let pid = sql::one(&mut client, "SELECT pg_backend_pid()")?;
    let mut times = Times::default();
    let mut aid = 1;
    // The first repeat fills the backend's caches and does not count.
    for repeat in 0..=REPEATS {
        let mut pieces: [Vec<f64>; 5] = Default::default();
        for _ in 0..TRANSACTIONS {
            if context.cancel.is_cancelled() {
                return Err(Problem::interrupted("the calibration"));
            }
            aid = (aid * 48_271 + 11) % ROWS + 1;
            let mut before_ns = cpu_ns(&pid)?;
            for (text, pieces) in transaction(aid).iter().zip(&mut pieces) {
                sql::rows(&mut client, text)?;
                let now_ns = cpu_ns(&pid)?;
                pieces.push(now_ns - before_ns - messages_ns);
                before_ns = now_ns;
            }
        }
        if repeat > 0 {
            times.iter_mut().zip(pieces).for_each(|(times, pieces)| times.extend(middle(pieces)));
        }
    }
    for _ in 0..REPEATS {
        let (few, many) = (pgbench_ns(cluster, 200)?, pgbench_ns(cluster, 2_200)?);
        times[5].push((many - few) / 2_000.0 - messages_ns);
    }
    Ok(times)
}

/// The statements of `pgbench --builtin=simple-update`.
fn transaction(aid: u64) -> [String; 5] {
    [
        "BEGIN".to_owned(),
        format!("SELECT abalance FROM pgbench_accounts WHERE aid = {aid}"),
        format!("UPDATE pgbench_accounts SET abalance = abalance + 7 WHERE aid = {aid}"),
        format!("INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, {aid}, 7, CURRENT_TIMESTAMP)"),
        "END".to_owned(),
    ]
}

/// The CPU time that a process has had, once it sleeps: the kernel brings it up to date when it leaves the CPU.
fn cpu_ns(pid: &str) -> Result<f64, Problem> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).map_err(refused("the backend"));
    for _ in 0..2_000 {
        if read("stat")?.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')) {
            break;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    // It says that it sleeps some instructions before it has left the CPU.
    std::thread::sleep(Duration::from_micros(50));
    let text = read("schedstat")?;
    let ns = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    ns.map(|ns| ns as f64).ok_or_else(|| Problem::host("/proc/PID/schedstat", "it does not tell the CPU time"))
}

/// The CPU time of pgbench for so many transactions with one client.
fn pgbench_ns(cluster: &Cluster, transactions: u32) -> Result<f64, Problem> {
    let failed = refused("pgbench");
    let mut command = clean_command(&cluster.bin().program("pgbench"));
    command
        .args(["--select-only", "--no-vacuum", "--scale=1", "--client=1"])
        .arg(format!("--transactions={transactions}"));
    command.arg(cluster.connection_string_for("postgres"));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(&failed)?;
    let mut status = 0;
    // SAFETY: all zeroes are a valid rusage, which the kernel writes.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: our own child, which nobody else waits for: `child` is dropped without waiting.
    let waited = unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut usage) };
    if waited == -1 {
        return Err(failed(std::io::Error::last_os_error()));
    }
    if status != 0 {
        return Err(Problem::host("pgbench", format!("it ended with status {status}")));
    }
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    Ok(ns(usage.ru_utime) + ns(usage.ru_stime))
}
