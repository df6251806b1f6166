//! What the harness with its default collectors costs pgbench:
//! `cargo bench -p holdup-target --bench harness_cost [-- BLOCKS]`.
//!
//! One PostgreSQL, select-only, prepared, 32 clients. Each block holds, in random order, 10 s each: pgbench
//! alone; a whole trial of the harness (log of every transaction, facts, every default collector); the same
//! without collectors. All are compared by the throughput that pgbench itself prints for its whole run. The
//! answer is a ratio with its 95 % interval over the blocks.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement for people; it may stop at the first error"
)]

use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions};
use holdup_model::plan::{Layout, StopRule};
use holdup_model::progress::Silent;
use holdup_model::{Arm, Design, Plan, Replica, Schedule, TrialSpec, WorkloadUse};
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::{Binaries, Cluster, ClusterOptions};
use holdup_stats::{BlockPair, ratio_paired};
use holdup_target::{Session, SessionRequest};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const WINDOW_NS: u64 = 9_000_000_000;

fn main() {
    let blocks: u32 = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(20);
    let host = Host::real();
    let bin = Binaries::find(&SearchPath::of_this_host(None), Need::Server).unwrap();
    let workdir = std::env::temp_dir();
    let options =
        ClusterOptions { bin, workdir: workdir.clone(), max_clients: 64, network: None, cancel: Cancel::default() };
    let cluster = Cluster::create(&host, &options).unwrap();
    client(&cluster, "pgbench", &["-i", "-q", "-s", "10"]);

    let plan = plan();
    let schedule = Schedule { arms: vec![arm(0, None), arm(1, Some(Replica::Unobserved))], trials: Vec::new() };
    let postgres =
        PostgresOptions { url: Some(cluster.connection_string_for("postgres")), ..PostgresOptions::default() };
    let request = SessionRequest {
        clients: None,
        host: &host,
        plan: &plan,
        schedule: &schedule,
        postgres: &postgres,
        workdir,
        guests: &holdup_target::GuestOptions::default(),
        ssh: &holdup_target::SshOptions::default(),
        boot_cache: holdup_target::BootCache::default(),
        threads: None,
        cancel: Cancel::default(),
    };
    let at = TrialSpec { seq: 0, session: 0, boot: 0, block: 0, position: 0, arm: 0 };
    let mut session = holdup_target::find("local").unwrap().open(&request, &at, &mut Silent).unwrap();
    let mut random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let mut measured: Vec<[f64; 3]> = Vec::new();
    for block in 0..blocks {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut order = [0, 1, 2];
        order.rotate_left((random >> 29) as usize % 3);
        if random >> 31 == 1 {
            order.swap(0, 1);
        }
        let mut tps = [0.0; 3];
        for variant in order {
            tps[variant] = match variant {
                0 => bare(&cluster),
                _ => in_harness(session.as_mut(), &schedule.arms[variant - 1], block),
            };
        }
        println!(
            "block {block}: alone {:.0}, in the harness {:.0}, without collectors {:.0} tps",
            tps[0], tps[1], tps[2]
        );
        measured.push(tps);
    }
    for (what, a, b) in
        [("harness / alone", 0, 1), ("harness without collectors / alone", 0, 2), ("collectors / without", 2, 1)]
    {
        let pairs: Vec<BlockPair> = (0..blocks)
            .zip(&measured)
            .map(|(block, tps)| BlockPair { session: 0, block, a: tps[a], b: tps[b] })
            .collect();
        let ratio = ratio_paired(&pairs, 0.95).unwrap();
        println!("{what}: {:.4} ({:.4} to {:.4}), {} blocks", ratio.value, ratio.low, ratio.high, ratio.n);
    }
    assert!(session.close().left.is_none());
}

fn plan() -> Plan {
    let mut parameters = holdup_catalogue::pgbench::Parameters::defaults(2);
    for (name, value) in [("script", "select-only"), ("protocol", "prepared")] {
        parameters.set(name, value);
    }
    for (name, value) in [("clients", 32), ("scale", 10), ("fillfactor", 100), ("threads", 2)] {
        parameters.set(name, value);
    }
    Plan {
        name: "harness-cost".to_owned(),
        question: "what does the harness cost?".to_owned(),
        workloads: vec![WorkloadUse {
            name: "pgbench".to_owned(),
            kind: "pgbench".to_owned(),
            parameters,
            axes: Vec::new(),
            negative_control: false,
            semantics: holdup_model::Semantics::default(),
        }],
        factors: Vec::new(),
        settings: Vec::new(),
        profiles: Vec::new(),
        design: Design {
            layout: Layout::Factorial,
            blocks: 1,
            sessions: 1,
            seed: 1,
            aa_pair: false,
            unobserved_pair: false,
            settle_ns: 0,
            warmup_ns: 500_000_000,
            duration_ns: WINDOW_NS,
            stop: StopRule::Blocks,
            budget_ns: None,
            retries: 0,
            max_steal_share: 0.1,
            effect: Default::default(),
        },
        metrics: Vec::new(),
        collectors: holdup_target::vocabulary().default_collectors.iter().map(|id| (*id).to_owned()).collect(),
        collect: Default::default(),
        target: "local".to_owned(),
        guest: None,
        hosts: None,
        nodes: None,
        exclude: Vec::new(),
        report: None,
    }
}

fn arm(id: u32, replica: Option<Replica>) -> Arm {
    Arm {
        id,
        label: format!("pgbench {id}"),
        workload: "pgbench".to_owned(),
        axes: BTreeMap::new(),
        factors: BTreeMap::new(),
        replica,
    }
}

fn in_harness(session: &mut dyn Session, arm: &Arm, block: u32) -> f64 {
    let spec = TrialSpec { seq: block, session: 0, boot: 0, block, position: 0, arm: arm.id };
    let draft = session.trial(arm, &spec, u64::from(block));
    assert!(draft.problem.is_none(), "{:?}", draft.problem);
    draft.trial.metric("pgbench_tps").unwrap()
}

/// pgbench alone: its own figure.
fn bare(cluster: &Cluster) -> f64 {
    let out = client(cluster, "pgbench", &["-n", "-S", "-M", "prepared", "-c", "32", "-j", "2", "-T", "10"]);
    let line = out.lines().find_map(|l| l.strip_prefix("tps = ")).unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}

fn client(cluster: &Cluster, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(cluster.bin().program(program));
    command
        .args(arguments)
        .env("PGHOST", cluster.socket_folder())
        .env("PGUSER", "holdup")
        .env("PGDATABASE", "postgres");
    if let Some(user) = cluster.user() {
        command.uid(user.uid).gid(user.gid);
    }
    let output = command.current_dir("/").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
