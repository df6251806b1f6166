//! What a backend of PostgreSQL and pgbench compute, on a temporary server of our own.

use super::bench::{REPEATS, refused};
use super::samples::Samples;
use super::{Context, Cost};
use holdup_host::Host;
use holdup_model::Problem;
use holdup_postgres::child::clean_command;
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::{Binaries, Cluster, ClusterOptions, sql};
use std::process::Stdio;
use std::time::Duration;

const DOCS: &str = "CPU time of a backend for it, 60 in a row in a repeat on 100,000 rows without waiting for the log, less two \
                    system calls, receive_ns, send_ns and wake_ns; BEGIN is half of an empty transaction, END what is left \
                    of one that inserts";

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
/// Statements of a kind in a repeat.
const IN_A_ROW: usize = 60;
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
    let bin = Binaries::find(&SearchPath::of_this_host(context.pg_bin.as_deref()), Need::Server)?;
    let workdir = context.workdir.clone();
    let options = ClusterOptions { bin, workdir, max_clients: 10, network: None, cancel: context.cancel.clone() };
    let cluster = Cluster::create(&Host::real(), &options)?;
    let times = on(&cluster, context, messages_ns);
    cluster.discard()?;
    times
}

fn on(cluster: &Cluster, context: &Context, messages_ns: f64) -> Result<Times, Problem> {
    let mut client = sql::connect_patiently(&cluster.config("postgres"))?;
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
    let mut backend = Backend { client, pid, aid: 1 };
    let mut times = Times::default();
    // The first repeat fills the backend's caches and does not count.
    for repeat in 0..=REPEATS {
        if context.cancel.is_cancelled() {
            return Err(Problem::interrupted("the calibration"));
        }
        let select_ns = backend.each_ns(&[Statement::Select])? - messages_ns;
        let begin_ns = backend.each_ns(&[Statement::Begin, Statement::End])? / 2.0 - messages_ns;
        let whole_ns = backend.each_ns(&[Statement::Begin, Statement::Insert, Statement::End])? - 3.0 * messages_ns;
        // Within one transaction, so that no commit is part of them.
        backend.run(Statement::Begin)?;
        let update_ns = backend.each_ns(&[Statement::Update])? - messages_ns;
        let insert_ns = backend.each_ns(&[Statement::Insert])? - messages_ns;
        backend.run(Statement::End)?;
        let all = [begin_ns, select_ns, update_ns, insert_ns, whole_ns - insert_ns - begin_ns];
        if repeat > 0 {
            times.iter_mut().zip(all).for_each(|(times, ns)| times.push(ns));
        }
    }
    for _ in 0..REPEATS {
        let (few, many) = (pgbench_ns(cluster, 200)?, pgbench_ns(cluster, 2_200)?);
        times[5].push((many - few) / 2_000.0 - messages_ns);
    }
    Ok(times)
}

/// The statements of `pgbench --builtin=simple-update`.
#[derive(Clone, Copy)]
enum Statement {
    Begin,
    Select,
    Update,
    Insert,
    End,
}

/// A connection and the process behind it.
struct Backend {
    client: holdup_sql::Client,
    pid: String,
    aid: u64,
}

impl Backend {
    fn run(&mut self, what: Statement) -> Result<(), Problem> {
        self.aid = (self.aid * 48_271 + 11) % ROWS + 1;
        let aid = self.aid;
        let text = match what {
            Statement::Begin => "BEGIN".to_owned(),
            Statement::Select => format!("SELECT abalance FROM pgbench_accounts WHERE aid = {aid}"),
            Statement::Update => format!("UPDATE pgbench_accounts SET abalance = abalance + 7 WHERE aid = {aid}"),
            Statement::Insert => format!(
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, {aid}, 7, CURRENT_TIMESTAMP)"
            ),
            Statement::End => "END".to_owned(),
        };
        sql::rows(&mut self.client, &text).map(drop)
    }

    /// The CPU time of the process for each time that it carries these out, one after the other, ns.
    fn each_ns(&mut self, what: &[Statement]) -> Result<f64, Problem> {
        let before_ns = cpu_ns(&self.pid)?;
        for _ in 0..IN_A_ROW {
            what.iter().try_for_each(|statement| self.run(*statement))?;
        }
        Ok((cpu_ns(&self.pid)? - before_ns) / IN_A_ROW as f64)
    }
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
    ns.map(|ns| ns as f64).ok_or_else(|| Problem::host("/proc/PID/schedstat", "it does not show the CPU time"))
}

/// The CPU time of pgbench for a number of transactions with one client.
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
    // SAFETY: our own child, which nothing else waits for: `child` is dropped without waiting.
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
