//! What the command line changes in a plan, and plans that are a command line only.

use crate::common;
use common::{check_with, from_command_line, pairs, plans};
use holdup_model::plan::EffectKind;
use holdup_model::{Plan, Problem, Value};
use holdup_plan::{Overrides, schedule};

const PLAN: &str = "
[[workload]]
name = \"select-only\"
kind = \"pgbench\"
clients = [8, 64]
[[workload]]
name = \"lock\"
kind = \"lock-contention\"
[factors]
sched-policy = { levels = [\"other\", \"batch\"], workloads = [\"lock\"] }
[set]
autogroup = \"on\"
";

fn changed(set: &[(&str, &str)], vary: &[(&str, &str)]) -> Result<Plan, String> {
    let overrides = Overrides { set: pairs(set), vary: pairs(vary), ..Overrides::default() };
    check_with("valid", "p.toml", PLAN, &overrides).map_err(|e| e.to_string())
}

/// What a plan has under a name: parameters and axes of each workload, factors, settings.
fn under(plan: &Plan, name: &str) -> String {
    let labels = |f: &holdup_model::Factor| f.levels.iter().map(|l| l.label.clone()).collect::<Vec<_>>().join(",");
    let mut found = Vec::new();
    for w in &plan.workloads {
        let axis = w.axes.iter().find(|a| a.name == name).map(|a| format!("{}=[{}]", w.name, labels(a)));
        found.extend(axis.or_else(|| w.parameters.get(name).map(|v| format!("{}={v}", w.name))));
    }
    let factors = plan.factors.iter().filter(|f| f.name == name);
    found.extend(factors.map(|f| format!("factor [{}] for {:?}", labels(f), f.workloads)));
    found.extend(plan.settings.iter().filter(|(n, _)| n == name).map(|(_, l)| format!("set {}", l.label)));
    found.join(" ")
}

#[test]
fn set_and_vary_change_what_they_name() {
    let check = |set: &[(&str, &str)], vary: &[(&str, &str)], name: &str, expect: &str| {
        assert_eq!(under(&changed(set, vary).unwrap(), name), expect, "{set:?} {vary:?}");
    };
    check(&[], &[], "clients", "select-only=[8,64]");
    check(&[("clients", "16")], &[], "clients", "select-only=16");
    check(&[("clients", "8,16,2x cpus,64")], &[], "clients", "select-only=[8,16,64]");
    check(&[("threads", "3")], &[], "threads", "select-only=3 lock=3");
    check(&[("lock.threads", "3,5")], &[], "threads", "lock=[3,5]");
    check(&[("latency-limit", "5ms")], &[], "latency_limit", "select-only=5000000");
    check(&[], &[("scale", "1,50")], "scale", "select-only=[1,50]");
    check(&[("autogroup", "off")], &[], "autogroup", "set off");
    check(&[("autogroup", "off,on")], &[], "autogroup", "factor [off,on] for []");
    check(&[], &[("autogroup", "on,off")], "autogroup", "factor [on,off] for []");
    check(&[("sched-policy", "batch")], &[], "sched-policy", "set batch");
    check(&[], &[("sched-policy", "other,nice:5")], "sched-policy", "factor [other,nice:5] for [\"lock\"]");
    check(&[], &[("postgres.huge_pages", "off,on")], "postgres.huge_pages", "factor [off,on] for [\"select-only\"]");
    check(&[("postgres.pool", "cold")], &[], "postgres.pool", "set cold");
    check(&[("postgres.shared_preload_libraries", "a\\,b")], &[], "postgres.shared_preload_libraries", "set a,b");
}

#[test]
fn the_design_can_be_set() {
    let plan = changed(
        &[
            ("design.blocks", "7"),
            ("sessions", "2"),
            ("layout", "one-at-a-time"),
            ("name", "other"),
            ("lock.negative_control", "on"),
        ],
        &[],
    )
    .unwrap();
    assert_eq!((plan.design.blocks, plan.design.sessions, plan.name.as_str()), (7, 2, "other"));
    assert_eq!(plan.design.layout, holdup_model::plan::Layout::OneAtATime);
    let effect = |set: &[(&str, &str)]| changed(set, &[]).unwrap().design.effect;
    assert_eq!(effect(&[]), EffectKind::Mean);
    assert_eq!(effect(&[("effect", "trimmed")]), EffectKind::Trimmed);
    assert!(plan.workloads[1].negative_control && !plan.workloads[0].negative_control);
    let overrides = Overrides {
        set: pairs(&[("blocks", "9")]),
        blocks: Some(2),
        sessions: Some(3),
        seed: Some(u64::MAX),
        warmup: Some("1s".to_owned()),
        duration: Some("3s".to_owned()),
        budget: Some("1m".to_owned()),
        collect: Some(Vec::new()),
        no_breakpoints: true,
        target: Some("local".to_owned()),
        ..Overrides::default()
    };
    let Plan { design, collect, .. } = check_with("valid", "p.toml", PLAN, &overrides).unwrap();
    assert!(collect.without_breakpoints && !changed(&[], &[]).unwrap().collect.without_breakpoints);
    assert_eq!((design.blocks, design.sessions, design.seed), (2, 3, u64::MAX));
    assert_eq!(
        (design.warmup_ns, design.duration_ns, design.budget_ns),
        (1_000_000_000, 3_000_000_000, Some(60_000_000_000))
    );
}

#[test]
fn wrong_overrides_are_reported_with_the_option() {
    let check = |set: &[(&str, &str)], vary: &[(&str, &str)], expect: &str| {
        assert_eq!(changed(set, vary).map(|_| ()).unwrap_err(), expect, "{set:?} {vary:?}");
    };
    check(
        &[("clients", "many")],
        &[],
        "--set clients=many: clients of workload select-only = many: a whole number was expected, this is the \
         text `many`\n\
         hint: for example 16 or \"2x cpus\"",
    );
    check(
        &[("blocks", "1,2")],
        &[],
        "--set blocks=1,2: key `blocks`: it takes one value\nhint: only parameters and factors can have several",
    );
    check(
        &[("clients", "")],
        &[],
        "--set clients=: key `clients`: it has no value\nhint: clients=VALUE, several values with commas between",
    );
    check(
        &[("clients", "8,,9")],
        &[],
        "--set clients=8,,9: key `clients`: one of its values is empty\n\
         hint: clients=VALUE, several values with commas between",
    );
    check(
        &[],
        &[("autogroup", "on")],
        "--vary autogroup=on: key `autogroup`: one value is nothing to vary\n\
         hint: --vary autogroup=V1,V2 with the baseline first, or --set autogroup=V",
    );
    check(
        &[],
        &[("blocks", "1,2")],
        "--vary blocks=1,2: key `blocks`: it is the same for all arms and cannot be varied\n\
         hint: --set blocks=VALUE sets it",
    );
    let near = changed(&[("cleints", "8")], &[]).unwrap_err();
    assert!(
        near.contains(
            "--set cleints=8: key `cleints`: the plan has nothing of this name\nhint: did you mean `clients`?"
        ),
        "{near}"
    );
    let near = changed(&[("select-only.client", "8")], &[]).unwrap_err();
    assert!(near.contains("did you mean `clients`?"), "{near}");
    let both = changed(&[("nope", "1")], &[("autogroup", "on,7")]).unwrap_err();
    assert!(both.contains("--set nope=1") && both.contains("--vary autogroup=on,7"), "all errors: {both}");
    // A parameter that only an unused workload has is no key of this plan.
    assert!(changed(&[("timeout", "1s")], &[]).is_err());
}

/// What boots, changed from the command line: the guest, its kernels, and whether there is one.
#[test]
fn guests_can_be_set() {
    let text = "[[workload]]\nkind = \"pgbench\"\nclients = \"2x cpus\"\n[set]\n\"postgres.shared_buffers\" = \"25% memory\"\n";
    let with = |overrides: &Overrides| check_with("valid", "plans/p.toml", text, overrides).map_err(|e| e.to_string());
    let qemu = || Overrides { target: Some("qemu".to_owned()), ..Overrides::default() };
    let plan = with(&Overrides {
        set: pairs(&[
            ("guest.cpus", "3"),
            ("guest.memory", "1GB"),
            ("guest.pin", "0,1"),
            ("guest.accel", "kvm"),
            ("guest.peer", "on"),
        ]),
        vary: pairs(&[("kernel", "debian:6.19,build:debian:7.2\\,RSEQ_SLICE_EXTENSION=y\\,patch=./a.patch")]),
        accel: Some("tcg".to_owned()),
        ..qemu()
    })
    .unwrap();
    assert_eq!(plan.target, "qemu");
    let guest = plan.guest.as_ref().unwrap();
    assert_eq!((guest.cpus, guest.memory_bytes, guest.pin.as_slice()), (3, 1 << 30, &[0, 1][..]));
    assert!(guest.peer);
    assert_eq!(guest.accel, holdup_model::guest::Accelerator::Tcg, "the option wins");
    assert_eq!(under(&plan, "clients"), "pgbench=6", "relative to the guest");
    assert_eq!(under(&plan, "postgres.shared_buffers"), "set 256MB", "relative to the guest");
    // A path of the command line is relative to where it is typed.
    let built = "build:debian:7.2,RSEQ_SLICE_EXTENSION=y,patch=./a.patch";
    assert_eq!(under(&plan, "kernel"), format!("factor [debian:6.19,{built}] for []"));
    assert_eq!((plan.design.sessions, plan.design.blocks), (5, 1));
    let one = with(&Overrides { set: pairs(&[("kernel", "host"), ("boot.preempt", "lazy")]), ..qemu() }).unwrap();
    assert_eq!(one.guest, Some(holdup_model::Guest::default()));
    assert_eq!((under(&one, "kernel"), under(&one, "boot.preempt")), ("set host".to_owned(), "set lazy".to_owned()));
    assert_eq!((one.design.sessions, one.design.blocks), (1, 5), "nothing varies at boot");
    let check = |overrides: Overrides, expect: &str| assert_eq!(with(&overrides).unwrap_err(), expect);
    check(qemu(), "--target qemu: the plan: no kernel is named for its guests\nhint: kernel = \"debian:7.0\" in [set]");
    check(
        Overrides { accel: Some("kvm".to_owned()), ..Overrides::default() },
        "--accel kvm: accel of [guest]: the target of this plan boots no guest\nhint: target = \"qemu\"",
    );
    check(
        Overrides { set: pairs(&[("guest.cpu", "3"), ("kernel", "host")]), ..qemu() },
        "--set guest.cpu=3: key `guest.cpu`: the plan has nothing of this name\n\
         hint: did you mean `cpus`? known here: cpus, memory, numa, hugepages, append, arch, program, accel, \
         pin, devices, boot_timeout, peer, nic_options",
    );
    check(
        Overrides { vary: pairs(&[("guest.cpus", "2,4")]), set: pairs(&[("kernel", "host")]), ..qemu() },
        "--vary guest.cpus=2,4: key `guest.cpus`: it is the same for all arms and cannot be varied\n\
         hint: --set guest.cpus=VALUE sets it",
    );
}

#[test]
fn one_error_becomes_a_problem_with_its_parts_and_several_are_all_reported() {
    let one = check_with("valid", "p.toml", "[[workload]]\nkind = \"pgbench\"\nclient = 8\n", &Overrides::default());
    let problem = Problem::from(one.unwrap_err());
    assert_eq!(problem.kind.exit_code(), 2);
    assert_eq!(problem.what, "p.toml:3:1: key `client` of workload pgbench");
    assert!(problem.hint.unwrap().starts_with("did you mean `clients`?"));
    let two = check_with("valid", "p.toml", "a = 1\nb = 2\n", &Overrides::default()).unwrap_err();
    assert_eq!(two.errors.len(), 2);
    let reported = Problem::from(two).to_string();
    assert!(
        reported.starts_with("p.toml: 2 errors\np.toml:1:1: key `a`") && reported.contains("p.toml:2:1: key `b`"),
        "{reported}"
    );
}

type Line<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a [&'a str]>, &'a [&'a str], Overrides);

fn lines() -> Vec<Line<'static>> {
    let none = Overrides::default;
    vec![
        ("pgbench", &[], None, &[], none()),
        (
            "pgbench",
            &[("clients", "8,64"), ("scale", "1"), ("latency_limit", "5ms"), ("rate", "0.5,1000")],
            None,
            &[],
            Overrides { vary: pairs(&[("postgres.huge_pages", "off,on"), ("postgres.pool", "warm,cold")]), ..none() },
        ),
        (
            "pgbench",
            &[("clients", "2x cpus"), ("script", "file"), ("file", "./my script.sql")],
            None,
            &["latency_p99_us", "tps"],
            Overrides {
                set: pairs(&[
                    ("autogroup", "off"),
                    ("postgres.shared_buffers", "25% memory"),
                    ("postgres.x", "007"),
                    ("layout", "one-at-a-time"),
                    ("question", "Is ${HOME} where it is?"),
                ]),
                vary: pairs(&[("fillfactor", "90,100"), ("sched-policy", "other,nice:5")]),
                blocks: Some(3),
                max_blocks: None,
                sessions: Some(2),
                seed: Some(u64::MAX),
                warmup: Some("0s".to_owned()),
                duration: Some("1.5s".to_owned()),
                budget: Some("5m30s".to_owned()),
                collect: Some(vec!["cpu".to_owned()]),
                sections: Some(vec!["my_lock".to_owned()]),
                frequency: Some(499),
                no_breakpoints: true,
                target: Some("local".to_owned()),
                accel: None,
            },
        ),
        (
            "lock-contention",
            &[("threads", "8"), ("algorithm", "tas,ticket"), ("pin", "on"), ("region", "64MB,1GiB")],
            None,
            &[],
            none(),
        ),
        (
            "pgbench",
            &[("clients", "1x cpus,4x cpus")],
            None,
            &[],
            Overrides {
                set: pairs(&[("guest.memory", "50% memory"), ("guest.pin", "0,1"), ("postgres-server", "deb:18")]),
                vary: pairs(&[("kernel", "debian:6.19,build:debian:7.2\\,A=y"), ("boot.preempt", "default,lazy")]),
                target: Some("qemu".to_owned()),
                accel: Some("tcg".to_owned()),
                ..none()
            },
        ),
        ("command", &[], Some(&["sh", "-c", "echo ${HOME} \"$1\"\n", "3", ""]), &[], none()),
        (
            "command",
            &[("timeout", "1m")],
            Some(&["bench"]),
            &["rps=regex:rate: ([0-9.]+)/s:higher", "x=json:/a/b:lower", "wall=duration", "duration_s:lower"],
            Overrides { vary: pairs(&[("autogroup", "on,off")]), ..none() },
        ),
    ]
}

/// The plan of a command line can be saved: the file reads back as the same plan in any environment.
#[test]
fn command_lines_become_plans_that_read_back() {
    for (i, (workload, options, command, metrics, overrides)) in lines().into_iter().enumerate() {
        let (plan, toml) =
            from_command_line(workload, options, command, metrics, &overrides).unwrap_or_else(|e| panic!("{e}"));
        let again =
            check_with("valid", "saved.toml", &toml, &Overrides::default()).unwrap_or_else(|e| panic!("{e}\n{toml}"));
        assert_eq!(again, plan, "{toml}");
        assert_eq!(schedule(&again).unwrap(), schedule(&plan).unwrap());
        insta::assert_snapshot!(format!("command_line_{i}"), toml);
    }
}

#[test]
fn a_command_line_means_what_it_says() {
    let (plan, _) = from_command_line(
        "command",
        &[],
        Some(&["sh", "-c", "echo ${HOME}"]),
        &["rps=regex:rate: ([0-9.]+):lower"],
        &Overrides::default(),
    )
    .unwrap();
    assert_eq!(plan.workloads[0].parameters.get("command"), Some(&Value::from("[\"sh\",\"-c\",\"echo ${HOME}\"]")));
    let metric = &plan.metrics[0];
    assert_eq!(metric.from, Some(holdup_model::plan::Extract::Regex("rate: ([0-9.]+)".to_owned())));
    assert_eq!((metric.better, metric.primary), (Some(holdup_model::Direction::Lower), true));
}

#[test]
fn wrong_command_lines_are_reported_with_the_option() {
    let check = |workload: &str, options: &[(&str, &str)], command: Option<&[&str]>, metrics: &[&str], expect: &str| {
        let reported =
            from_command_line(workload, options, command, metrics, &Overrides::default()).unwrap_err().to_string();
        assert_eq!(reported, expect);
    };
    check(
        "pgbensh",
        &[],
        None,
        &[],
        "pgbensh: workload kind = pgbensh: there is no such workload\n\
         hint: did you mean `pgbench`? known here: pgbench, lock-contention, command, mixed",
    );
    check(
        "pgbench",
        &[("clients", "x")],
        None,
        &[],
        "--clients x: clients of workload pgbench = x: a whole number was expected, this is the text `x`\n\
         hint: for example 16 or \"2x cpus\"",
    );
    check(
        "pgbench",
        &[("latency_limit", "")],
        None,
        &[],
        "--latency-limit : option latency_limit: it has no value\nhint: several values have commas between",
    );
    check(
        "pgbench",
        &[],
        Some(&["true"]),
        &[],
        "after --: a program: workload pgbench runs no program\nhint: `holdup run command -- PROGRAM …`",
    );
    check(
        "command",
        &[],
        None,
        &[],
        "command: command of workload command: it is missing\n\
         hint: it is the program and its arguments, as a list or after `--`",
    );
    check(
        "command",
        &[],
        Some(&["true"]),
        &["rps=grep:x"],
        "--metric rps=grep:x: metric rps: it does not say how the metric is read\n\
         hint: NAME=regex:EXPRESSION, NAME=json:/POINTER or NAME=duration, then :higher or :lower",
    );
}

/// What the demo plan is in the tests' vocabulary; the plans of the repository themselves are in the corpus.
#[test]
fn overrides_apply_to_every_plan_of_the_corpus() {
    let overrides =
        Overrides { blocks: Some(1), seed: Some(9), duration: Some("1ms".to_owned()), ..Overrides::default() };
    for (file, text) in plans("valid") {
        let plan = check_with("valid", &file, &text, &overrides).unwrap();
        assert_eq!((plan.design.blocks, plan.design.seed, plan.design.duration_ns), (1, 9, 1_000_000), "{file}");
    }
}

#[test]
fn what_nodes_must_have_is_absolute_and_in_plain_words() {
    let with = |text: &str, set: &[(&str, &str)]| {
        let overrides = Overrides { set: pairs(set), ..Overrides::default() };
        let text = format!("{text}\n[[workload]]\nkind = \"pgbench\"\n");
        check_with("valid", "plans/p.toml", &text, &overrides).map_err(|e| e.to_string())
    };
    assert_eq!(with("", &[]).expect("a plan").nodes, None);
    let written = "[nodes]\narch = \"x86_64\"\ncpus = 16\nmemory = \"64GB\"\nfeatures = [\"milan\", \"nvme\"]";
    let nodes =
        with(written, &[("nodes.cpus", "32"), ("nodes.features", "genoa")]).expect("a plan").nodes.expect("nodes");
    assert_eq!((nodes.arch.as_deref(), nodes.cpus, nodes.memory_bytes), (Some("x86_64"), Some(32), Some(64 << 30)));
    assert_eq!(nodes.features, ["genoa"]);
    for (set, says) in [
        (("nodes.cpus", "2x cpus"), "it cannot be relative to one"),
        (("nodes.memory", "50% memory"), "it cannot be relative to one"),
        (("nodes.cpus", "1,2"), "it takes one value"),
        (("nodes.cpus", "0"), "nodes.cpus=0"),
        (("nodes.arch", "x86_64,aarch64"), "holdup runs on one architecture"),
        (("nodes.features", "milan|genoa"), "it is no name of a feature"),
        (("nodes.feature", "milan"), "did you mean `features`"),
    ] {
        let said = with("", &[set]).expect_err(says);
        assert!(said.contains(says), "{says}: {said}");
    }
}

#[test]
fn two_ends_make_the_target_and_are_two_hosts() {
    let text = "[[workload]]\nkind = \"pgbench\"\n";
    let with = |set: &[(&str, &str)], target: Option<&str>| {
        let overrides = Overrides { set: pairs(set), target: target.map(str::to_owned), ..Overrides::default() };
        check_with("valid", "plans/p.toml", text, &overrides).map_err(|e| e.to_string())
    };
    let seventeen = (0..17).map(|at| format!("h{at}")).collect::<Vec<_>>().join(",");
    let both = [("hosts.server", "db1"), ("hosts.client", "load1")];
    let plan = with(&both, None).expect("a plan");
    let hosts = plan.hosts.expect("two ends");
    assert_eq!(
        (plan.target.as_str(), hosts.clients.as_slice(), hosts.address),
        ("ssh:db1", &["load1".to_owned()][..], None)
    );
    let several = with(&[("hosts.server", "db1"), ("hosts.client", "load1,load2")], None).expect("a plan");
    assert_eq!(several.hosts.expect("three hosts").clients, ["load1", "load2"]);
    assert!(with(&both, Some("ssh:db1")).is_ok() && with(&both, Some("ssh")).is_ok());
    for (set, target, says) in [
        (&both[..], Some("ssh:db2"), "[hosts] has the target ssh:db1"),
        (&both[..1], None, "it does not say which host is the client"),
        (&[("hosts.server", "a"), ("hosts.client", "a")], None, "both ends are a"),
        (&[("hosts.server", "a,b"), ("hosts.client", "c")], None, "it names 2 hosts, and there is one server"),
        (&[("hosts.server", "a"), ("hosts.client", "b,a")], None, "both ends are a"),
        (&[("hosts.server", "a"), ("hosts.client", "b,c,b")], None, "b is named twice"),
        (&[("hosts.server", "a"), ("hosts.client", &seventeen)], None, "it names 17 hosts"),
        (&[("hosts.server", "a b"), ("hosts.client", "c")], None, "it is no name of a host"),
        (&[("hosts.serve", "a")], None, "did you mean `server`"),
    ] {
        let said = with(set, target).expect_err(says);
        assert!(said.contains(says), "{says}: {said}");
    }
}
