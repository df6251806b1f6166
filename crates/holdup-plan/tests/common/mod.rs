//! The vocabulary of the tests: it mirrors the catalogues, and is a copy so that the plan checker's tests say what
//! they test against.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot read its corpus fails")]

use holdup_model::catalogue::{KnobWords, Vocabulary, WorkloadWords};
use holdup_model::{Machine, Parameter, ParameterKind, Plan};
use holdup_plan::{Inputs, Overrides, PlanErrors};

pub(crate) const MACHINE: Machine = Machine { cpus: 4, memory_bytes: 8 << 30 };

const fn parameter(name: &'static str, kind: ParameterKind, default: Option<&'static str>) -> Parameter {
    Parameter { name, kind, default, required: false, summary: "what it is", simulated: true }
}

const fn whole(min: i64, max: i64) -> ParameterKind {
    ParameterKind::Integer { min, max }
}

const PGBENCH: &[Parameter] = &[
    parameter(
        "script",
        ParameterKind::Choice(&["simple-update", "tpcb-like", "select-only", "file"]),
        Some("tpcb-like"),
    ),
    parameter("file", ParameterKind::Path, None),
    parameter("scale", whole(1, 1_000_000), Some("10")),
    parameter("fillfactor", whole(10, 100), Some("100")),
    parameter("clients", whole(1, 100_000), Some("1x cpus")),
    parameter("threads", whole(1, 100_000), None),
    parameter("protocol", ParameterKind::Choice(&["simple", "extended", "prepared"]), Some("prepared")),
    parameter("rate", ParameterKind::Float { min: 0.001, max: 1e9 }, None),
    parameter("latency_limit", ParameterKind::DURATION, None),
];

const POOL: &[Parameter] = &[parameter("postgres.pool", ParameterKind::Choice(&["warm", "cold"]), Some("warm"))];

const ALGORITHMS: &[&str] = &["tas", "ttas-backoff", "postgres-s-lock", "ticket", "futex-mutex", "pthread-mutex"];

const LOCK_CONTENTION: &[Parameter] = &[
    parameter("threads", whole(1, 100_000), Some("1x cpus")),
    parameter("algorithm", ParameterKind::Choice(ALGORITHMS), Some("tas")),
    parameter("section", ParameterKind::DURATION, Some("100ns")),
    parameter("think", ParameterKind::DURATION, Some("100ns")),
    parameter("sharing", ParameterKind::Choice(&["threads", "processes"]), Some("threads")),
    parameter("faults", whole(0, 4096), Some("0")),
    parameter("pages", ParameterKind::Choice(&["4k", "huge"]), Some("4k")),
    parameter("pin", ParameterKind::Bool, Some("off")),
    parameter("region", ParameterKind::SIZE, Some("64MB")),
];

const COMMAND: &[Parameter] = &[
    Parameter {
        name: "command",
        kind: ParameterKind::CommandLine,
        default: None,
        required: true,
        summary: "the program and its arguments, as a list or after `--`",
        simulated: true,
    },
    parameter("timeout", ParameterKind::DURATION, None),
    parameter("expect_exit", whole(0, 255), Some("0")),
];

const MIXED: &[Parameter] = &[
    Parameter {
        name: "foreground",
        kind: ParameterKind::Text,
        default: None,
        required: true,
        summary: "the kind of the workload that is measured",
        simulated: true,
    },
    parameter("background", ParameterKind::Text, Some("none")),
    parameter("pgbench.clients", whole(1, 100_000), None),
    parameter("lock-contention.threads", whole(1, 100_000), None),
    parameter("lock-contention.section", ParameterKind::DURATION, None),
    parameter("command.command", ParameterKind::CommandLine, None),
];

pub(crate) fn vocabulary() -> Vocabulary {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    let workload = |id, parameters, factors, metrics: &[&str], primary_metric, has_postgres| WorkloadWords {
        id,
        parameters,
        factors,
        metrics: ids(metrics),
        primary_metric,
        semantics: holdup_model::Semantics::default(),
        has_postgres,
        takes_metrics: id == "command",
        combines: id == "mixed",
    };
    let knob = |id, prefix, values| KnobWords { id, prefix, values };
    let pgbench_metrics = [
        "tps",
        "latency_mean_us",
        "latency_p50_us",
        "latency_p95_us",
        "latency_p99_us",
        "latency_p999_us",
        "failed_transactions",
    ];
    let lock_metrics = ["operations_per_s", "acquire_p99_ns", "fairness"];
    let collectors = vec!["cpu", "switch-counters", "run-queue", "migrations", "fault-counters", "pressure"];
    Vocabulary {
        workloads: vec![
            workload("pgbench", PGBENCH, POOL, &pgbench_metrics, Some("tps"), true),
            workload("lock-contention", LOCK_CONTENTION, &[], &lock_metrics, Some("operations_per_s"), false),
            workload("command", COMMAND, &[], &["duration_s", "user_s", "system_s"], Some("duration_s"), false),
            workload("mixed", MIXED, &[], &[], None, true),
        ],
        knobs: vec![
            knob("postgres-setting", Some("postgres."), ParameterKind::Text),
            knob("autogroup", None, ParameterKind::Bool),
            knob("sched-policy", None, ParameterKind::Text),
            knob("migration-cost", None, ParameterKind::DURATION),
            knob("huge-pages-reserved", None, whole(0, 4_294_967_295)),
        ],
        default_collectors: collectors[..4].to_vec(),
        collectors,
        targets: vec!["local", "qemu", "ssh", "sim"],
        boot_targets: vec!["qemu"],
        host_targets: Vec::new(),
        simulated_targets: vec!["sim"],
        simulated_factors: vec![KnobWords {
            id: "mechanism.fault-under-lock",
            prefix: None,
            values: ParameterKind::Bool,
        }],
        boot_factors: vec![
            knob("kernel", None, ParameterKind::Text),
            knob("postgres-server", None, ParameterKind::Text),
            knob("boot", Some("boot."), ParameterKind::Text),
        ],
        reports: vec!["tweaks-2013"],
    }
}

/// The only variable that is set.
pub(crate) fn environment(name: &str) -> Option<String> {
    (name == "SCALE").then(|| "50".to_owned())
}

pub(crate) fn corpus(folder: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)
}

/// The plans of a corpus by name; files that begin with `_` are there to be included.
pub(crate) fn plans(folder: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = std::fs::read_dir(corpus(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".toml") && !name.starts_with('_'))
        .map(|name| (name.clone(), std::fs::read_to_string(corpus(folder).join(&name)).unwrap()))
        .collect();
    all.sort();
    all
}

pub(crate) fn check_with(folder: &str, file: &str, text: &str, overrides: &Overrides) -> Result<Plan, PlanErrors> {
    let read = |path: &str| std::fs::read_to_string(corpus(folder).join(path)).map_err(|_| "no such file".to_owned());
    check_including(file, text, overrides, &read)
}

/// Checks a plan whose includes come from a function.
pub(crate) fn check_including(
    file: &str,
    text: &str,
    overrides: &Overrides,
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Plan, PlanErrors> {
    let vocabulary = vocabulary();
    let inputs = Inputs {
        machine: MACHINE,
        vocabulary: &vocabulary,
        environment: &environment,
        read_include: read,
        machine_of: &|_| Ok(None),
        overrides,
    };
    holdup_plan::check(file, text, &inputs)
}

pub(crate) fn check(text: &str) -> Result<Plan, PlanErrors> {
    check_with("valid", "test.toml", text, &Overrides::default())
}

pub(crate) fn from_command_line(
    workload: &str,
    options: &[(&str, &str)],
    command: Option<&[&str]>,
    metrics: &[&str],
    overrides: &Overrides,
) -> Result<(Plan, String), PlanErrors> {
    let vocabulary = vocabulary();
    let inputs = Inputs {
        machine: MACHINE,
        vocabulary: &vocabulary,
        environment: &environment,
        read_include: &|_| Err("nothing is included here".to_owned()),
        machine_of: &|_| Ok(None),
        overrides,
    };
    let options: Vec<(String, String)> = options.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<String>>();
    let command = command.map(words);
    holdup_plan::from_command_line(workload, &options, command.as_slice(), &words(metrics), &inputs)
}

pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// One case of a table: `=== name`, the text of a file, and below a line `---` the errors in it. A case without errors is
/// there to be included.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) expected: Option<String>,
}

pub(crate) fn table(name: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(corpus(name)).unwrap();
    let case = |case: &str| {
        let (name, rest) = case.split_once('\n').unwrap();
        let (text, expected) = match format!("\n{rest}").split_once("\n---\n") {
            Some((text, expected)) => (format!("{text}\n"), Some(expected.to_owned())),
            None => (format!("\n{rest}"), None),
        };
        Case { name: name.to_owned(), text: text[1..].to_owned(), expected }
    };
    format!("\n{text}")
        .split("\n=== ")
        .skip(1)
        .map(|text| case(&format!("{}\n", text.trim_end_matches('\n'))))
        .collect()
}

/// Compares a table with what is said of each case now. With REGENERATE=1 it is written anew: look at the difference before
/// you commit it.
pub(crate) fn compare(name: &str, cases: &[Case], check: impl Fn(&Case) -> String) {
    let mut wrong = Vec::new();
    let mut table = String::new();
    for case in cases {
        let got = case.expected.is_some().then(|| check(case));
        if got != case.expected {
            let text = |errors: &Option<String>| errors.clone().unwrap_or_default();
            wrong.push(format!("--- {}: expected\n{}--- got\n{}", case.name, text(&case.expected), text(&got)));
        }
        table.push_str(&format!("=== {}\n{}", case.name, case.text));
        table.extend(got.map(|got| format!("---\n{got}")));
    }
    if std::env::var_os("REGENERATE").is_some() {
        std::fs::write(corpus(name), table).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
