//! What holds for every plan.
use crate::common;
use common::{check, check_with, from_command_line, pairs, plans};
use holdup_model::plan::{Exclusion, Layout, StopRule};
use holdup_model::{
    Arm, Design, Factor, Guest, Level, Parameters, Plan, Replica, Schedule, TrialSpec, WorkloadUse, guest,
};
use holdup_plan::{MOST_ARMS, Overhead, Overrides, estimate_ns, schedule};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn factor(name: String, levels: usize, workloads: Vec<String>) -> Factor {
    Factor { name, levels: (0..levels as i64).map(Level::plain).collect(), workloads, optional: false }
}

/// Names of factors: all chosen at boot, and only some of them.
const AT_BOOT: [&str; 4] = ["kernel", "boot.preempt", "boot.hz", "postgres-server"];
const MIXED: [&str; 4] = ["autogroup", "kernel", "postgres.jit", "boot.preempt"];

/// The trials of each block, in the order run; boots part them.
fn by_block(schedule: &Schedule) -> Vec<Vec<&TrialSpec>> {
    let mut blocks: BTreeMap<u32, Vec<&TrialSpec>> = BTreeMap::new();
    for trial in &schedule.trials {
        blocks.entry(trial.block).or_default().push(trial);
    }
    blocks.into_values().collect()
}

prop_compose! {
    fn any_plan()(
        axes in prop::collection::vec(prop::collection::vec(1_usize..4, 0..3), 1..3),
        factors in prop::collection::vec((1_usize..4, any::<bool>()), 0..4),
        names in prop::option::of(prop::sample::select(&[AT_BOOT, MIXED][..])),
        one_at_a_time in any::<bool>(),
        (blocks, sessions, seed) in (1_u32..5, 1_u32..4, any::<u64>()),
        (aa_pair, unobserved_pair) in (any::<bool>(), any::<bool>()),
    ) -> Plan {
        let workloads = axes.iter().enumerate().map(|(w, axes)| WorkloadUse {
            name: format!("w{w}"),
            kind: "pgbench".to_owned(),
            parameters: Parameters::default(),
            axes: axes.iter().enumerate().map(|(a, n)| factor(format!("axis{a}"), *n, Vec::new())).collect(),
            negative_control: false,
            semantics: holdup_model::Semantics::default(),
        }).collect();
        let factors = factors.iter().enumerate().map(|(f, (n, some))| {
            let name = names.map_or_else(|| format!("factor{f}"), |names| names[f].to_owned());
            factor(name, *n, if *some { vec!["w0".to_owned()] } else { Vec::new() })
        }).collect();
        Plan {
            name: "p".to_owned(),
            question: "?".to_owned(),
            workloads,
            factors,
            settings: Vec::new(),
            profiles: Vec::new(),
            design: Design {
                layout: if one_at_a_time { Layout::OneAtATime } else { Layout::Factorial },
                blocks, sessions, seed, aa_pair, unobserved_pair,
                settle_ns: 1, warmup_ns: 2, duration_ns: 3, stop: StopRule::Blocks, budget_ns: None, retries: 0,
                max_steal_share: 0.1,
            effect: Default::default(),
            },
            metrics: Vec::new(),
            collectors: Vec::new(),
            collect: Default::default(),
            target: if names.is_some() { "qemu" } else { "local" }.to_owned(),
            guest: names.map(|_| Guest::default()),
            hosts: None,
            nodes: None,
            exclude: Vec::new(),
            report: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_block_holds_every_arm_once(plan in any_plan()) {
        let schedule = schedule(&plan).unwrap();
        let arms: BTreeSet<u32> = schedule.arms.iter().map(|a| a.id).collect();
        prop_assert!(schedule.arms.iter().enumerate().all(|(i, a)| a.id as usize == i));
        let blocks = by_block(&schedule);
        let apart = schedule.trials.chunk_by(|a, b| a.block == b.block).count();
        prop_assert!(plan.varies_at_boot() || apart == blocks.len(), "only boots part a block");
        prop_assert_eq!(blocks.len() as u32, plan.design.blocks * plan.design.sessions);
        for (number, block) in blocks.iter().enumerate() {
            prop_assert_eq!(block.len(), arms.len());
            prop_assert_eq!(&block.iter().map(|t| t.arm).collect::<BTreeSet<_>>(), &arms);
            for (position, trial) in block.iter().enumerate() {
                prop_assert_eq!(trial.position as usize, position);
                prop_assert_eq!(trial.block as usize, number);
                prop_assert_eq!(trial.session, trial.block / plan.design.blocks);
            }
        }
        prop_assert!(schedule.trials.iter().enumerate().all(|(i, t)| t.seq as usize == i));
    }

    /// A boot is one guest: its trials stand together, in one session, and all have what was chosen when it booted.
    #[test]
    fn a_boot_is_one_choice(plan in any_plan()) {
        let schedule = schedule(&plan).unwrap();
        let boots: Vec<_> = schedule.trials.chunk_by(|a, b| a.boot == b.boot).collect();
        let mut of_sessions: BTreeMap<u32, Vec<BTreeSet<u32>>> = BTreeMap::new();
        for (number, boot) in boots.iter().enumerate() {
            prop_assert_eq!(boot[0].boot as usize, number, "boots count over the whole run");
            prop_assert!(boot.iter().all(|t| t.session == boot[0].session));
            let chosen = |t: &TrialSpec| plan.chosen_at_boot(&schedule.arms[t.arm as usize]);
            prop_assert!(boot.iter().all(|t| chosen(t) == chosen(&boot[0])));
            let arms: BTreeSet<u32> = boot.iter().map(|t| t.arm).collect();
            for block in boot.chunk_by(|a, b| a.block == b.block) {
                prop_assert_eq!(&block.iter().map(|t| t.arm).collect::<BTreeSet<_>>(), &arms, "each round has all of them");
            }
            prop_assert_eq!(boot.len(), arms.len() * plan.design.blocks as usize);
            let same = |t: &TrialSpec| schedule.arms[t.arm as usize].replica == Some(Replica::Same);
            let mixed = boot.iter().any(same) && !boot.iter().all(same);
            prop_assert!(!plan.varies_at_boot() || !mixed, "the A/A arms boot on their own");
            of_sessions.entry(boot[0].session).or_default().push(arms);
        }
        let mut boots_of: Vec<Vec<BTreeSet<u32>>> = of_sessions.into_values().collect();
        boots_of.iter_mut().for_each(|boots| boots.sort());
        prop_assert!(boots_of.windows(2).all(|w| w[0] == w[1]), "each session has the same boots");
        prop_assert!(plan.varies_at_boot() || boots_of.iter().all(|boots| boots.len() == 1));
        // No two boots of a session are the same choice, but for the A/A arms.
        let most = 2 * plan.factors.iter().filter(|f| guest::is_chosen_at_boot(&f.name)).map(|f| f.levels.len()).product::<usize>();
        prop_assert!(boots_of[0].len() <= most);
    }

    /// What is left out by exclusions is what they name, and everything else stays as it was.
    #[test]
    fn exclusions_take_away_what_they_name(plan in any_plan(), which in any::<prop::sample::Index>(), two in any::<bool>()) {
        let whole = schedule(&plan).unwrap();
        let arm = which.get(&whole.arms);
        let levels = arm.factors.iter().chain(&arm.axes).take(if two { 2 } else { 9 });
        let levels: Vec<(String, Vec<Level>)> = levels.map(|(name, level)| (name.clone(), vec![level.clone()])).collect();
        let exclusion = Exclusion { levels };
        let mut less = plan.clone();
        less.exclude.push(exclusion.clone());
        let named = |a: &Arm| exclusion.levels.iter().all(|(n, l)| a.factors.get(n).or_else(|| a.axes.get(n)) == Some(&l[0]));
        let expected: Vec<&str> = whole.arms.iter().filter(|a| !named(a)).map(|a| a.label.as_str()).collect();
        match schedule(&less) {
            Err(_) => prop_assert!(expected.is_empty(), "only nothing cannot be laid out"),
            Ok(schedule) => {
                prop_assert_eq!(schedule.arms.iter().map(|a| a.label.as_str()).collect::<Vec<_>>(), expected);
                prop_assert!(schedule.arms.iter().enumerate().all(|(i, a)| a.id as usize == i));
                prop_assert!(by_block(&schedule).iter().all(|block| block.len() == schedule.arms.len()));
            }
        }
    }

    #[test]
    fn arms_are_what_the_design_says(plan in any_plan()) {
        let arms = schedule(&plan).unwrap().arms;
        let labels: BTreeSet<&str> = arms.iter().map(|a| a.label.as_str()).collect();
        prop_assert_eq!(labels.len(), arms.len(), "labels are unique");
        for workload in &plan.workloads {
            let of: Vec<_> = arms.iter().filter(|a| a.workload == workload.name).collect();
            let cells: usize = workload.axes.iter().map(|a| a.levels.len()).product();
            let factors: Vec<&Factor> = plan.factors.iter()
                .filter(|f| f.workloads.is_empty() || f.workloads.contains(&workload.name)).collect();
            let plain = match plan.design.layout {
                Layout::Factorial => factors.iter().map(|f| f.levels.len()).product::<usize>(),
                Layout::OneAtATime => 1 + factors.iter().map(|f| f.levels.len() - 1).sum::<usize>(),
            };
            prop_assert_eq!(of.iter().filter(|a| a.replica.is_none()).count(), cells * plain);
            let pairs = of.iter().filter(|a| a.replica == Some(Replica::Same)).count();
            prop_assert_eq!(pairs, if plan.design.aa_pair { cells } else { 0 });
            for arm in of {
                prop_assert_eq!(arm.axes.len(), workload.axes.len());
                prop_assert_eq!(arm.factors.len(), factors.len(), "the factors that hold for it, and no other");
                let moved = factors.iter().filter(|f| arm.factors[&f.name] != f.levels[0]).count();
                prop_assert!(arm.replica.is_none() || moved == 0, "a replica repeats the baseline");
                prop_assert!(plan.design.layout == Layout::Factorial || moved <= 1);
            }
        }
    }

    #[test]
    fn a_schedule_is_a_function_of_the_plan(plan in any_plan()) {
        prop_assert_eq!(schedule(&plan).unwrap(), schedule(&plan.clone()).unwrap());
        let mut longer = plan.clone();
        longer.design.duration_ns += 1;
        longer.name.push('x');
        let (short, long) = (schedule(&plan).unwrap(), schedule(&longer).unwrap());
        prop_assert_eq!(short.trials, long.trials, "only arms and seed matter");
    }

    #[test]
    fn estimates_never_exceed_the_budget(plan in any_plan(), budget_ns in 1_u64..200_000_000_000) {
        let mut plan = plan;
        plan.design.budget_ns = Some(budget_ns);
        let schedule = schedule(&plan).unwrap();
        let estimate = estimate_ns(&plan, &schedule, &Overhead::default());
        prop_assert!(estimate <= budget_ns);
        let huge = Overhead { per_trial_ns: u64::MAX, per_session_ns: u64::MAX, per_restart_ns: u64::MAX, per_boot_ns: u64::MAX };
        prop_assert_eq!(estimate_ns(&plan, &schedule, &huge), budget_ns);
    }

    #[test]
    fn any_text_ends_in_a_plan_or_in_errors(text in ".{0,400}") {
        good_or_reported(&text);
    }

    #[test]
    fn any_toml_ends_in_a_plan_or_in_errors(
        lines in prop::collection::vec((any_key(), any_value()), 0..8),
        heads in prop::collection::vec(prop::sample::select(HEADS), 0..8),
    ) {
        let mut text = String::new();
        for (i, (key, value)) in lines.iter().enumerate() {
            text.push_str(heads.get(i).copied().unwrap_or_default());
            text.push_str(&format!("\n{key} = {value}\n"));
        }
        good_or_reported(&text);
    }

    #[test]
    fn mutated_plans_end_in_a_plan_or_in_errors(
        which in any::<prop::sample::Index>(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any_value()), 1..4),
    ) {
        let all = plans("valid");
        let mut chars: Vec<char> = which.get(&all).1.chars().collect();
        for (from, length, with) in cuts {
            let from = from.index(chars.len() + 1);
            let to = (from + length.index(12)).min(chars.len());
            chars.splice(from..to, with.chars());
        }
        good_or_reported(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn any_override_ends_in_a_plan_or_in_errors(key in any_key(), value in any_value(), vary in any::<bool>()) {
        let pair = pairs(&[(&key, &value)]);
        let mut overrides = Overrides::default();
        if vary { overrides.vary = pair } else { overrides.set = pair }
        for (file, text) in plans("valid").iter().take(3) {
            if let Ok(plan) = check_with("valid", file, text, &overrides) {
                schedule(&plan).unwrap();
            }
        }
    }

    /// The plan of a command line reads back as the same plan.
    #[test]
    fn command_lines_read_back(
        kind in prop::sample::select(&["pgbench", "lock-contention", "command"][..]),
        options in prop::collection::btree_map(any_key(), any_value(), 0..3),
        command in prop::option::of(prop::collection::vec(".{0,8}", 1..4)),
        metric in prop::option::of("[a-z_]{1,6}(=(regex:.{0,8}|json:/[a-z]{0,3}|duration))?(:(higher|lower))?"),
        set in prop::option::of((any_key(), any_value())),
    ) {
        let options: Vec<(&str, &str)> = options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let command: Option<Vec<&str>> = command.as_ref().map(|c| c.iter().map(String::as_str).collect());
        let metrics: Vec<&str> = metric.iter().map(String::as_str).collect();
        let set: Vec<(&str, &str)> = set.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let overrides = Overrides { set: pairs(&set), ..Overrides::default() };
        if let Ok((plan, toml)) = from_command_line(kind, &options, command.as_deref(), &metrics, &overrides) {
            let again = check_with("valid", "saved.toml", &toml, &Overrides::default());
            prop_assert_eq!(again.map_err(|e| format!("{e}\n{toml}")), Ok(plan));
        }
    }
}

/// A plan that passes can be laid out within the limits; one that does not has at least one error.
fn good_or_reported(text: &str) {
    match check(text) {
        Ok(plan) => {
            let schedule = schedule(&plan).unwrap();
            assert!(schedule.arms.len() as u64 <= MOST_ARMS && !schedule.arms.is_empty());
            let labels: BTreeSet<&str> = schedule.arms.iter().map(|a| a.label.as_str()).collect();
            assert_eq!(labels.len(), schedule.arms.len(), "labels are unique: {text}");
        }
        Err(errors) => {
            assert!(!errors.errors.is_empty());
            assert!(errors.errors.iter().all(|e| e.line > 0 && e.column > 0), "{errors}");
        }
    }
}

const HEADS: &[&str] = &[
    "",
    "[[workload]]\nkind = \"pgbench\"",
    "[factors]",
    "[set]",
    "[design]",
    "[[metric]]",
    "[collect]",
    "[guest]",
    "[[exclude]]",
    "[[published]]",
    "target = \"qemu\"\n[set]\nkernel = \"host\"\n[[workload]]\nkind = \"pgbench\"",
    "[[workload]]\nkind = \"command\"",
];

const KEYS: &[&str] = &[
    "name",
    "kind",
    "include",
    "clients",
    "scale",
    "rate",
    "threads",
    "section",
    "file",
    "region",
    "command",
    "negative_control",
    "autogroup",
    "sched-policy",
    "postgres.pool",
    "postgres.x",
    "\"postgres.y\"",
    "migration-cost",
    "levels",
    "layout",
    "blocks",
    "sessions",
    "seed",
    "aa",
    "unobserved",
    "duration",
    "budget",
    "stop",
    "id",
    "workload",
    "primary",
    "margin",
    "better",
    "unit",
    "from",
    "collectors",
    "target",
    "question",
    "workloads",
    "timeout",
    "script",
    "algorithm",
    "pin",
    "kernel",
    "boot.preempt",
    "postgres-server",
    "guest.cpus",
    "guest.pin",
    "cpus",
    "memory",
    "numa",
    "accel",
    "append",
];

const VALUES: &[&str] = &[
    "1",
    "-1",
    "0",
    "9223372036854775807",
    "1.5",
    "nan",
    "inf",
    "true",
    "\"on\"",
    "\"off\"",
    "\"pgbench\"",
    "\"2x cpus\"",
    "\"50% memory\"",
    "\"1e309x cpus\"",
    "\"1s\"",
    "\"99999999h\"",
    "\"2%\"",
    "[]",
    "[1, 2]",
    "[\"on\", \"off\"]",
    "{}",
    "{ levels = [1, 2] }",
    "{ levels = [\"on\", \"off\"], workloads = [\"pgbench\"] }",
    "{ regex = \"(\" }",
    "\"tps\"",
    "[[\"a\"], [\"b\"]]",
    "\"${SCALE}\"",
    "\"${\"",
    "2026-04-03",
    "\"\"",
    "\"_common.toml\"",
    "[\"_common.toml\", \"_common.toml\"]",
    "8,64",
    "on,off",
    "a\\,b",
    "${X}",
    "true,false",
    "1x cpus,64MB",
    "select-only",
    "[\"host\", \"debian:7.0\"]",
    "\"build:debian:7.2,A=y,patch=../x\"",
    "host,build:x\\,A=y",
    "qemu",
    "\"qemu\"",
    "tcg",
];

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![9 => prop::sample::select(KEYS).prop_map(str::to_owned), 1 => "[a-z._\"-]{1,8}"]
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![9 => prop::sample::select(VALUES).prop_map(str::to_owned), 1 => ".{0,12}"]
}

#[test]
fn what_is_too_large_is_refused_before_it_is_laid_out() {
    let levels: Vec<String> = (1..=9_000).map(|i| i.to_string()).collect();
    let levels = levels.join(", ");
    let text = format!(
        "[[workload]]\nkind = \"pgbench\"\nclients = [{levels}]\nscale = [{levels}]\n\
         threads = [{levels}]\nrate = [{levels}]\n"
    );
    let reported = check(&text).unwrap_err().to_string();
    assert!(reported.contains("its arms are 13122000000000000, at most 10000 are possible"), "{reported}");
    assert!(
        reported.contains("9000 clients × 9000 scale × 9000 threads × 9000 rate × (1 baseline + 1 A/A)"),
        "{reported}"
    );
    let large = format!("# {}\n", "x".repeat(2 << 20));
    assert!(check(&large).unwrap_err().to_string().contains("too large for a plan"));
}

/// Includes that fan out over three levels would be 8,000 files.
#[test]
fn includes_that_fan_out_end() {
    let vocabulary = common::vocabulary();
    let reads = std::cell::Cell::new(0);
    let read = |path: &str| {
        reads.set(reads.get() + 1);
        if path.matches('.').count() == 3 {
            return Ok(String::new());
        }
        let list: Vec<String> = (0..20).map(|i| format!("\"{path}.{i}\"")).collect();
        Ok(format!("include = [{}]\n", list.join(", ")))
    };
    let overrides = Overrides::default();
    let inputs = holdup_plan::Inputs {
        machine: common::MACHINE,
        vocabulary: &vocabulary,
        environment: &common::environment,
        read_include: &read,
        machine_of: &|_| Ok(None),
        overrides: &overrides,
    };
    let errors = holdup_plan::check("a.toml", "include = \"b\"\n", &inputs).unwrap_err();
    assert!(reads.get() <= 32, "{} files were read", reads.get());
    assert!(errors.to_string().contains("more than 32 files are included"), "{errors}");
}

/// Includes are asked for relative to the file that names them.
#[test]
fn includes_are_asked_for_by_their_path() {
    let vocabulary = common::vocabulary();
    let asked = std::cell::RefCell::new(Vec::new());
    let read = |path: &str| {
        asked.borrow_mut().push(path.to_owned());
        Ok(match path {
            "plans/sub/b.toml" => {
                "include = \"c.toml\"\n[[workload]]\nkind = \"pgbench\"\nfile = \"x.sql\"\n".to_owned()
            }
            _ => "[design]\nblocks = 4\n".to_owned(),
        })
    };
    let overrides = Overrides::default();
    let inputs = holdup_plan::Inputs {
        machine: common::MACHINE,
        vocabulary: &vocabulary,
        environment: &common::environment,
        read_include: &read,
        machine_of: &|_| Ok(None),
        overrides: &overrides,
    };
    let plan = holdup_plan::check("plans/a.toml", "include = [\"sub/b.toml\", \"/abs.toml\"]\n", &inputs).unwrap();
    assert_eq!(*asked.borrow(), ["plans/sub/b.toml", "plans/sub/c.toml", "/abs.toml"]);
    assert_eq!(plan.workloads[0].parameters.text("file"), Ok(Some("plans/sub/x.sql")));
    assert_eq!((plan.name.as_str(), plan.design.blocks), ("a", 4));
}

/// Boots take their time only where a guest boots, and each has its own cluster.
#[test]
fn the_estimate_counts_boots() {
    let text = "target = \"qemu\"\n[[workload]]\nkind = \"pgbench\"\n[factors]\nkernel = [\"host\", \"debian:7.0\"]\n\
                [design]\nwarmup = \"1s\"\nduration = \"2s\"\nsessions = 4\nblocks = 3\n";
    let plan = check(text).unwrap();
    let schedule = schedule(&plan).unwrap();
    let only = |per_session_ns, per_boot_ns| {
        let overhead = Overhead { per_trial_ns: 0, per_session_ns, per_restart_ns: 0, per_boot_ns };
        estimate_ns(&plan, &schedule, &overhead)
    };
    assert_eq!(only(0, 0), 4 * 3 * 3 * 3_000_000_000, "sessions × blocks × arms with the A/A arm × seconds");
    assert_eq!((only(5, 0) - only(0, 0), only(0, 7) - only(0, 0)), (12 * 5, 12 * 7));
    let local = check("[[workload]]\nkind = \"pgbench\"\n[factors]\nautogroup = [\"on\", \"off\"]\n").unwrap();
    let of_local = holdup_plan::schedule(&local).unwrap();
    let boot_of_a_day = Overhead { per_boot_ns: 86_400_000_000_000, ..Overhead::default() };
    let usual = estimate_ns(&local, &of_local, &Overhead::default());
    assert_eq!(estimate_ns(&local, &of_local, &boot_of_a_day), usual);
}

/// Restarts: each change of a server's setting, and each empty pool.
#[test]
fn the_estimate_counts_what_was_planned() {
    let text = "[[workload]]\nkind = \"pgbench\"\n[factors]\n\"postgres.pool\" = [\"warm\", \"cold\"]\n[design]\n\
                aa = false\nblocks = 4\nwarmup = \"1s\"\nduration = \"2s\"\nsettle = \"500ms\"\n";
    let plan = check(text).unwrap();
    let schedule = schedule(&plan).unwrap();
    let only = |per_trial_ns, per_session_ns, per_restart_ns| {
        estimate_ns(&plan, &schedule, &Overhead { per_trial_ns, per_session_ns, per_restart_ns, per_boot_ns: 0 })
    };
    assert_eq!(only(0, 0, 0), 8 * 3_500_000_000);
    assert_eq!(only(1, 0, 0) - only(0, 0, 0), 8);
    assert_eq!(only(0, 7, 0) - only(0, 0, 0), 7);
    // The expected number by a plain walk: a cold trial restarts, and so does a warm one after a cold one.
    let cold: Vec<bool> = schedule.trials.iter().map(|t| t.arm == 1).collect();
    let expected = cold.iter().filter(|c| **c).count() + cold.windows(2).filter(|w| w[0] && !w[1]).count();
    assert_eq!(only(0, 0, 1) - only(0, 0, 0), expected as u64);
}
