//! pgbench and the backends that serve it.
//!
//! Each client has a backend, its own process and session; pgbench's threads serve their clients in turn. A statement is a
//! message there and one back. A backend computes for as long as the machine file says, appends its commit to the log
//! and flushes it with others (group commit). With a cold pool, pages that were not read yet come through
//! StrategyGetBuffer's list of free buffers, under its spinlock, where the first touch of a page of buffer descriptors
//! faults in each backend (src/backend/storage/buffer/freelist.c, PostgreSQL 15 to 18).

use super::{Files, Levels, Results, Workload};
use crate::machine::{Arch, Costs, Machine};
use crate::program::{Channel, Op, Preemption, Program};
use crate::random::Span;
use crate::stats::WindowStats;
use crate::world::{Load, LogSpec, RegionSpec, TaskSpec};
use holdup_catalogue::pgbench::{self, BUILD, Script};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Measurement, Parameters, Problem, Value};
use std::iter;

pub(super) struct Pgbench;

const TRANSACTION: u8 = 0;
/// The lock of the list of free buffers.
const FREE_LIST: u32 = 0;
/// The lock of the backend that writes the log.
const WAL_WRITE: u32 = 1;
/// The region of buffer descriptors.
const DESCRIPTORS: u32 = 0;
/// The write-ahead log.
const LOG: u32 = 0;
/// A statement is done, and the transaction continues.
const NEXT: u8 = 0;
/// The transaction is done.
const END: u8 = 1;
/// Bytes of a page of PostgreSQL.
const PAGE_BYTES: u64 = 8192;
/// Buffer descriptors in a page of memory: 64 bytes each.
const IN_4K: u32 = 64;
/// The same of 2 MB.
const IN_2M: u32 = 32_768;
/// Pages of table and index that one unit of scale has: 1,640 and 276 with fill factor 100.
const PAGES_OF_SCALE: u64 = 1_916;
/// PostgreSQL's default.
const SHARED_BUFFERS_BYTES: u64 = 128 << 20;

/// A statement of a script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Statement {
    Begin,
    Select,
    Update,
    Insert,
    End,
}

/// What an arm says.
struct Setup {
    script: &'static [Statement],
    clients: u32,
    threads: u32,
    cold: bool,
    huge: bool,
    buffers: u64,
    pages: u64,
    flushes: bool,
    /// What the server is built from; without it nothing waits for a lock until the log is written.
    build: Option<&'static Build>,
    /// The lock of the list of free buffers.
    free_list: &'static str,
}

/// What PostgreSQL is built from.
struct Build {
    /// The level of `postgres.build`.
    id: &'static str,
    /// WALWriteLock.
    lwlock: &'static str,
    /// True if s_lock asks for slice extensions.
    extends: bool,
    /// True if a backend maps the headers of buffers when it starts.
    prefaults: bool,
}

const STOCK: Build = Build { id: "stock", lwlock: "lwlock", extends: false, prefaults: false };

const BUILDS: &[Build] = &[
    STOCK,
    Build { id: "patches/lwlock-wait-list-futex", lwlock: "lwlock-futex", ..STOCK },
    Build { id: "patches/lwlock-wait-list-park", lwlock: "lwlock-park", ..STOCK },
    Build { id: "patches/spin-slice-extension", extends: true, ..STOCK },
    Build { id: "patches/prefault-buffer-headers", prefaults: true, ..STOCK },
];

fn build(level: &Value) -> Result<&'static Build, Problem> {
    let name = level.to_string();
    BUILDS.iter().find(|build| build.id == name).ok_or_else(|| {
        let known: Vec<&str> = BUILDS.iter().map(|build| build.id).collect();
        Problem::usage(format!("{BUILD} {name}"), "the simulator does not have it")
            .hint(format!("it has {}", known.join(", ")))
    })
}

/// s_lock of the server: on arm64 its turns exchange up to PostgreSQL 17 (`TAS_SPIN()`,
/// src/include/storage/s_lock.h).
fn s_lock(machine: &Machine, extends: bool) -> &'static str {
    let exchanges = machine.kernel.arch == Arch::Arm && machine.kernel.mechanisms.exchanging_turns;
    match (exchanges, extends) {
        (false, false) => "postgres-s-lock",
        (false, true) => "postgres-s-lock-slice",
        (true, false) => "postgres-s-lock-exchange",
        (true, true) => "postgres-s-lock-exchange-slice",
    }
}

impl Setup {
    fn read(parameters: &Parameters, levels: &Levels, machine: &Machine) -> Result<Self, Problem> {
        use Statement::{Begin, End, Insert, Select, Update};
        let p = pgbench::Parameters::read_simulated(parameters)?;
        let script: &[Statement] = match p.script {
            Script::SelectOnly => &[Select],
            Script::SimpleUpdate => &[Begin, Update, Select, Insert, End],
            Script::TpcbLike => &[Begin, Update, Select, Update, Update, Insert, End],
            Script::File => {
                return Err(Problem::host("script file", "the simulator does not have it")
                    .hint("it has select-only, simple-update and tpcb-like"));
            }
        };
        let level = |name: &str| levels.get(name);
        // A switch as PostgreSQL's settings have it; `None` where it says neither.
        let switch = |name: &str| match level(name) {
            Some(Value::Bool(is_on)) => Some(*is_on),
            Some(Value::Text(text)) if text == "on" => Some(true),
            Some(Value::Text(text)) if text == "off" => Some(false),
            _ => None,
        };
        let build = level(BUILD).map(build).transpose()?;
        let shared = level("postgres.shared_buffers").map(bytes).transpose()?.unwrap_or(SHARED_BUFFERS_BYTES);
        Ok(Setup {
            script,
            clients: p.clients,
            threads: p.threads.unwrap_or(machine.topology.cpus()).min(p.clients),
            cold: matches!(level(pgbench::POOL), Some(Value::Text(text)) if text == "cold"),
            huge: switch("postgres.huge_pages") == Some(true),
            buffers: (shared / PAGE_BYTES).max(16),
            pages: u64::from(p.scale) * PAGES_OF_SCALE * 100 / u64::from(p.fillfactor),
            build,
            free_list: s_lock(machine, build.is_some_and(|build| build.extends)),
            flushes: switch("postgres.synchronous_commit") != Some(false),
        })
    }
}

/// A size as PostgreSQL's settings have it: a number of bytes, or a text such as `120GB`.
fn bytes(value: &Value) -> Result<u64, Problem> {
    let text = value.to_string();
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    let unit = match text[digits.len()..].trim() {
        "" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => 0,
    };
    match digits.parse::<u64>() {
        Ok(n) if unit > 0 => Ok(n.saturating_mul(unit)),
        _ => Err(Problem::usage(format!("postgres.shared_buffers {text}"), "it is no size").hint("give it as 120GB")),
    }
}

/// What a backend does for one statement, without its messages.
fn statement(ops: &mut Vec<Op>, what: Statement, setup: &Setup, costs: &Costs) {
    let compute = |ns: u64| Op::Compute(Span::Uniform(ns - ns / 5, ns + ns / 5));
    ops.push(compute(match what {
        Statement::Begin => costs.pg_begin_ns,
        Statement::Select => costs.pg_select_ns,
        Statement::Update => costs.pg_update_ns,
        Statement::Insert => costs.pg_insert_ns,
        Statement::End => costs.pg_end_ns,
    }));
    // The page of the account, when this transaction is the first to want it.
    let reads = what == Statement::Update || setup.script.len() == 1;
    if setup.cold && reads {
        let after = ops.len() as u32 + 7;
        ops.extend([
            Op::Found { region: DESCRIPTORS, of: setup.pages.min(u64::from(u32::MAX)) as u32, to: after },
            Op::UsedUp { region: DESCRIPTORS, to: after - 1 },
            Op::Lock(FREE_LIST),
            Op::Touch { region: DESCRIPTORS, pages: 1 },
            Op::Compute(Span::Fixed(costs.pg_free_list_ns)),
            Op::Unlock(FREE_LIST),
            Op::System { work: Span::Fixed(costs.pg_read_ns), preemption: Preemption::On },
        ]);
    }
    if what == Statement::End {
        ops.push(Op::Append(LOG));
        if setup.flushes {
            ops.push(Op::Flush(LOG));
        }
    }
}

fn backend(setup: &Setup, costs: &Costs) -> Program {
    let mut ops = vec![Op::Send { to: Channel::Peer, tag: END }];
    for (number, what) in setup.script.iter().enumerate() {
        let is_last = number + 1 == setup.script.len();
        ops.push(Op::Receive(Channel::Mine));
        statement(&mut ops, *what, setup, costs);
        ops.push(Op::Send { to: Channel::Peer, tag: if is_last { END } else { NEXT } });
    }
    ops.push(Op::Jump(1));
    Program { name: "postgres".to_owned(), role: "server".to_owned(), ops }
}

fn client(costs: &Costs) -> Program {
    let ns = costs.pg_client_ns;
    let ops = vec![
        Op::Receive(Channel::Mine),
        Op::Compute(Span::Uniform(ns - ns / 5, ns + ns / 5)),
        Op::IfTag { tag: NEXT, to: 5 },
        Op::DoneFor(TRANSACTION),
        Op::BeginFor(TRANSACTION),
        Op::Send { to: Channel::Sender, tag: NEXT },
        Op::Jump(0),
    ];
    Program::new("pgbench", ops)
}

fn load(setup: &Setup, costs: &Costs) -> Load {
    // Channels: one for each backend, then one for each thread of pgbench.
    let (clients, threads) = (setup.clients, setup.threads);
    let backends = (0..clients).map(|n| TaskSpec {
        session: 1 + n,
        inbox: Some(n),
        peer: Some(clients + n % threads),
        ..TaskSpec::new(0, n)
    });
    let loads = (0..threads).map(|n| TaskSpec { inbox: Some(clients + n), ..TaskSpec::new(1, clients) });
    let mut channels = vec![16.into(); clients as usize];
    channels.resize((clients + threads) as usize, clients.into());
    let steps = if setup.huge { IN_2M } else { IN_4K };
    let mapped = setup.build.is_some_and(|build| build.prefaults);
    Load {
        programs: vec![backend(setup, costs), client(costs)],
        tasks: backends.chain(loads).collect(),
        locks: iter::once(setup.free_list).chain(setup.build.map(|build| build.lwlock)).collect(),
        regions: vec![RegionSpec { huge: setup.huge, steps, together: true, end: setup.buffers, mapped }],
        channels,
        devices: vec![1],
        logs: vec![LogSpec {
            device: 0,
            write: Span::Uniform(costs.pg_flush_ns * 4 / 5, costs.pg_flush_ns * 6 / 5),
            lock: setup.build.map(|_| WAL_WRITE),
        }],
        marks: 1,
        ..Load::default()
    }
}

impl Workload for Pgbench {
    fn id(&self) -> &'static str {
        "pgbench"
    }

    fn leaves_out(&self) -> &'static str {
        "statements compute for as long as the machine file says; rows are not contended, checkpoints and other \
         processes of the server do not run, and of shared memory only the list of free buffers is locked, and the log where \
         postgres.build is a factor"
    }

    fn changes(&self, factor: &str) -> Option<&'static str> {
        Some(match factor {
            pgbench::POOL => "whether the simulated buffer pool is filled when the run begins",
            "postgres.shared_buffers" => "the size of the simulated buffer pool",
            "postgres.huge_pages" => "the pages that the simulated buffer descriptors lie in",
            BUILD => "what the simulated PostgreSQL is built from",
            "postgres.synchronous_commit" => "whether the simulated commits wait for the log",
            _ => return None,
        })
    }

    fn load(&self, parameters: &Parameters, levels: &Levels, machine: &Machine, _: &Files) -> Result<Load, Problem> {
        Ok(load(&Setup::read(parameters, levels, machine)?, &machine.costs))
    }

    fn results(&self, _parameters: &Parameters, seen: &WindowStats, length_ns: u64) -> Results {
        let transactions = &seen.marks[TRANSACTION as usize];
        let latency = &transactions.lengths;
        let mean = match latency.mean_ns() {
            Some(ns) => Measurement::new("latency_mean_us", ns / 1e3),
            None => Measurement::absent("latency_mean_us", "no transaction ended in the window"),
        };
        let zero = |id| Measurement::new(id, 0.0);
        let measurements = vec![
            Measurement::per_second("tps", transactions.count, length_ns),
            mean,
            Measurement::percentile("latency_p50_us", latency, 0.5, 1e3),
            Measurement::percentile("latency_p95_us", latency, 0.95, 1e3),
            Measurement::percentile("latency_p99_us", latency, 0.99, 1e3),
            Measurement::percentile("latency_p999_us", latency, 0.999, 1e3),
            Measurement::absent("think_mean_us", "a simulated client does not think"),
            zero("failed_transactions"),
            zero("retried_transactions"),
            Measurement::absent("skipped", "no rate was asked for"),
            Measurement::absent("schedule_lag_mean_us", "no rate was asked for"),
            Measurement::absent("connect_ms", "simulated clients are connected when the run begins"),
            Measurement::absent("pgbench_tps", "there is no pgbench that says it"),
        ];
        (measurements, vec![NamedHistogram { name: "latency".to_owned(), histogram: latency.clone() }])
    }
}
