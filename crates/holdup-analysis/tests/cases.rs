//! Each case over hosts that differ in one thing: it names what hits, clears what does not, and leaves open what is
//! not known.

use Exposure::{Exposed, NotExposed, Undecided};
use holdup_analysis::{check, impossible, overall};
use holdup_model::survey::*;
use holdup_model::{KernelVersion, PreemptModel};

fn known<T>(value: T) -> Reading<T> {
    Reading::found(value, "/test")
}

fn unknown<T>() -> Reading<T> {
    Reading::unknown("/test", "permission denied").but("run holdup as root")
}

fn setting(name: &str, value: &str, default: &str) -> Setting {
    Setting {
        name: name.to_owned(),
        unit: None,
        value: known(value.to_owned()),
        default: Some(default.to_owned()),
        folklore: None,
    }
}

fn server() -> Server {
    Server {
        name: "postmaster 812".to_owned(),
        pid: known(812),
        data_directory: known("/srv/pg".to_owned()),
        major_version: known(17),
        version: known("17.11".to_owned()),
        shared_buffers_bytes: known(120 << 30),
        huge_pages_asked: known(HugePagesAsked::Try),
        huge_pages_in_effect: known(false),
        max_connections: known(1100),
        clients: known(1024),
        active_clients: known(1000),
        page_tables_bytes: known(1 << 30),
        page_tables_largest_bytes: known(1 << 20),
        pool: known(Pool { unused_buffers: 10, buffers: 1000 }),
        spin_waits: known(SpinWaits { waiting: 40, looks: 100 }),
        is_in_root_task_group: known(true),
        cpu_limit_cpus: known(None),
        notes: Vec::new(),
    }
}

/// A host that every case hits.
fn host() -> Survey {
    Survey {
        kernel: Kernel {
            release: known("7.1.13".to_owned()),
            version: known(KernelVersion::new(7, 1)),
            has_backports: false,
            architecture: known("s390x".to_owned()),
            command_line: known("preempt=none".to_owned()),
            lockdown: known("none".to_owned()),
            hz: known(250),
            distribution: known("Test".to_owned()),
        },
        preempt: Preemption {
            model: known(PreemptModel::Lazy),
            choices: known(vec![PreemptModel::Full, PreemptModel::Lazy]),
            asked: Some("none".to_owned()),
            refused: Some("this kernel offers full and lazy only since 7.0".to_owned()),
            sources: Vec::new(),
            disagreement: None,
        },
        settings: vec![
            setting("autogroup", "1", "1"),
            setting("migration-cost", "5000000", "500000"),
            setting("hrtick", "on", "on"),
        ],
        slice_extension: SliceExtension {
            usable: known(false),
            reasons: vec!["available: a".to_owned(), "not available: b".to_owned()],
            length_ns: unknown(),
            feature_size_bytes: known(33),
            libc: known("glibc 2.36".to_owned()),
        },
        machine: MachineSurvey {
            cpus_online: known(96),
            numa_nodes: known(1),
            steal_share: known(0.0),
            hypervisor: known("none".to_owned()),
            governor: known("performance".to_owned()),
            cpu_limit_cpus: known(None),
            throttled_periods: known(0),
            virtual_switch: known(vec!["openvswitch".to_owned()]),
            cpu_pressure_share: known(0.0),
        },
        memory: MemorySurvey {
            total_bytes: known(384 << 30),
            available_bytes: known(300 << 30),
            page_tables_bytes: known(1 << 30),
            huge_pages_total: known(0),
            huge_pages_all_bytes: known(0),
            huge_pages_free: known(0),
            huge_page_bytes: known(2 << 20),
            transparent_huge_pages: known("madvise".to_owned()),
            memory_pressure_share: known(0.0),
        },
        servers: known(vec![server()]),
        probe: None,
    }
}

fn finding(survey: &Survey, case: &str) -> CaseFinding {
    check(survey).into_iter().find(|f| f.case == case).unwrap()
}

const ALL: &[&str] = &[
    "lazy-cold-pool",
    "spin-oversubscription",
    "autogroup-sessions",
    "migration-cost-folklore",
    "kworker-hog",
    "hrtick-confounder",
    "advice-without-effect",
];

#[test]
fn a_host_with_every_cause_gets_every_case_with_advice() {
    let findings = check(&host());
    assert_eq!(findings.len(), ALL.len());
    for finding in &findings {
        assert_eq!(finding.exposure, Exposure::Exposed, "{finding:#?}");
        assert!(!finding.advice.is_empty() && !finding.reasons.is_empty(), "{finding:#?}");
        for advice in &finding.advice {
            assert!(!advice.evidence.is_empty() && !advice.undo.is_empty(), "{advice:?}");
        }
    }
    assert_eq!(overall(&findings), Exposure::Exposed);
}

/// What one change of the host makes of a case, and the sentence that says so.
type Change = (&'static str, fn(&mut Survey), Exposure, &'static str);

const CHANGES: &[Change] = &[
    (
        "lazy-cold-pool",
        |h| h.preempt.model = known(PreemptModel::None),
        NotExposed,
        "interrupts it, so that few wait for the return",
    ),
    ("lazy-cold-pool", |h| h.preempt.model = known(PreemptModel::Voluntary), NotExposed, "voluntary"),
    ("lazy-cold-pool", |h| h.preempt.model = known(PreemptModel::Full), Undecided, "few events"),
    ("lazy-cold-pool", |h| h.preempt.model = unknown(), Undecided, "model is not known"),
    ("lazy-cold-pool", |h| with(|s| s.major_version = known(18), h), Exposed, ""),
    ("lazy-cold-pool", |h| with(|s| s.major_version = known(19), h), NotExposed, "has no freelist"),
    ("lazy-cold-pool", |h| with(|s| s.major_version = unknown(), h), Undecided, "version of PostgreSQL is not known"),
    ("lazy-cold-pool", |h| with(|s| s.huge_pages_in_effect = known(true), h), NotExposed, "lies on huge pages"),
    // `try` without a single huge page is the same as off, even when the server's memory can be read.
    ("lazy-cold-pool", |h| with(|s| s.huge_pages_in_effect = unknown(), h), Exposed, ""),
    (
        "lazy-cold-pool",
        |h| {
            h.memory.huge_pages_all_bytes = known(70_000 << 21);
            with(|s| s.huge_pages_in_effect = unknown(), h);
        },
        Undecided,
        "lies on huge pages is not known",
    ),
    (
        "lazy-cold-pool",
        |h| {
            h.memory.huge_pages_all_bytes = known(1 << 30);
            with(
                |s| {
                    s.huge_pages_in_effect = unknown();
                    s.huge_pages_asked = Reading::found(HugePagesAsked::On, "pg_settings (huge_pages)");
                },
                h,
            );
        },
        NotExposed,
        "huge_pages = on",
    ),
    // A file does not show what the server was started with.
    (
        "lazy-cold-pool",
        |h| {
            h.memory.huge_pages_all_bytes = known(1 << 30);
            with(
                |s| {
                    s.huge_pages_in_effect = unknown();
                    s.huge_pages_asked = known(HugePagesAsked::On);
                },
                h,
            );
        },
        Undecided,
        "whether the server was started with it is not known",
    ),
    ("kworker-hog", |h| h.kernel.has_backports = true, Undecided, "On s390x"),
    (
        "lazy-cold-pool",
        |h| with(|s| s.pool = known(Pool { unused_buffers: 0, buffers: 1000 }), h),
        NotExposed,
        "pool is full",
    ),
    ("lazy-cold-pool", |h| with(|s| s.pool = unknown(), h), Undecided, "still fills is not known"),
    ("lazy-cold-pool", |h| with(|s| s.clients = known(96), h), NotExposed, "no more than the 96 CPUs"),
    // A limit that cannot be read may leave the server fewer CPUs than are online, and never more.
    (
        "lazy-cold-pool",
        |h| {
            with(
                |s| {
                    s.clients = known(12);
                    s.cpu_limit_cpus = unknown();
                },
                h,
            );
        },
        Undecided,
        "It has 12 clients, no more than 96 CPUs; whether a limit leaves it fewer is not known",
    ),
    ("lazy-cold-pool", |h| with(|s| s.cpu_limit_cpus = unknown(), h), Exposed, ""),
    (
        "lazy-cold-pool",
        |h| {
            h.machine.cpus_online = unknown();
            with(|s| s.cpu_limit_cpus = known(Some(4.0)), h);
        },
        Exposed,
        "",
    ),
    ("lazy-cold-pool", |h| h.machine.cpus_online = unknown(), Undecided, "number of CPUs is not known"),
    (
        "lazy-cold-pool",
        |h| h.probe = measured(&[PreemptModel::None, PreemptModel::Voluntary]),
        Undecided,
        "is not certain",
    ),
    ("lazy-cold-pool", |h| h.probe = measured(&[PreemptModel::Lazy]), Exposed, ""),
    (
        "kworker-hog",
        |h| {
            h.preempt.model = unknown();
            h.probe = measured(&[PreemptModel::Full, PreemptModel::Rt]);
        },
        NotExposed,
        "full or rt (measured)",
    ),
    ("lazy-cold-pool", |h| with(|s| s.clients = unknown(), h), Undecided, "number of its clients"),
    ("spin-oversubscription", |h| with(|s| s.active_clients = known(20), h), NotExposed, "no more than"),
    (
        "spin-oversubscription",
        |h| {
            with(
                |s| {
                    s.active_clients = known(20);
                    s.cpu_limit_cpus = known(Some(4.0));
                },
                h,
            );
        },
        Exposed,
        "",
    ),
    (
        "spin-oversubscription",
        |h| with(|s| s.spin_waits = known(SpinWaits { waiting: 0, looks: 60 }), h),
        NotExposed,
        "At none of 60 looks",
    ),
    (
        "spin-oversubscription",
        |h| with(|s| s.spin_waits = known(SpinWaits { waiting: 0, looks: 3 }), h),
        Undecided,
        "at 3 looks only",
    ),
    ("spin-oversubscription", |h| with(|s| s.spin_waits = unknown(), h), Undecided, "wait for spinlocks is not"),
    ("autogroup-sessions", |h| h.settings[0].value = known("0".to_owned()), NotExposed, "Autogroup is off"),
    ("autogroup-sessions", |h| h.settings[0].value = unknown(), Undecided, "autogroup is on is not known"),
    ("autogroup-sessions", |h| with(|s| s.is_in_root_task_group = known(false), h), NotExposed, "does not act"),
    ("autogroup-sessions", |h| with(|s| s.is_in_root_task_group = unknown(), h), Undecided, "control group is not"),
    (
        "migration-cost-folklore",
        |h| h.settings[1].value = known("500000".to_owned()),
        NotExposed,
        "the kernel's default",
    ),
    ("migration-cost-folklore", |h| h.settings[1].value = unknown(), Undecided, "migration cost is not known"),
    ("migration-cost-folklore", |h| h.settings[1].default = None, Undecided, "default of this kernel is not known"),
    ("kworker-hog", |h| h.preempt.model = known(PreemptModel::Full), NotExposed, "was not seen"),
    ("kworker-hog", |h| h.machine.virtual_switch = known(Vec::new()), NotExposed, "No virtual switch"),
    ("kworker-hog", |h| h.machine.virtual_switch = unknown(), Undecided, "virtual switch or guests"),
    ("kworker-hog", |h| h.kernel.version = known(KernelVersion::new(7, 2)), Undecided, "directly"),
    ("kworker-hog", |h| h.kernel.architecture = known("x86_64".to_owned()), Undecided, "On x86_64"),
    ("hrtick-confounder", |h| h.settings[2].value = known("off".to_owned()), NotExposed, "HRTICK is off"),
    ("hrtick-confounder", |h| h.settings[2].value = unknown(), Undecided, "By default it is on"),
    (
        "hrtick-confounder",
        |h| {
            h.settings[2].value = unknown();
            h.settings[2].default = None;
        },
        Undecided,
        "HRTICK is on is not known",
    ),
    ("advice-without-effect", |h| h.preempt.refused = None, NotExposed, "is taken"),
    ("advice-without-effect", |h| h.preempt.asked = None, NotExposed, "No preempt="),
];

fn measured(models: &[PreemptModel]) -> Option<Probed> {
    Some(Probed { models: known(models.to_vec()), measured: Vec::new(), duration_ns: 1 })
}

fn with(change: fn(&mut Server), survey: &mut Survey) {
    survey.servers.value.as_mut().unwrap().iter_mut().for_each(change);
}

#[test]
fn taking_one_condition_away_clears_a_case_and_withholding_it_leaves_it_open() {
    for (case, change, expect, sentence) in CHANGES {
        let mut host = host();
        change(&mut host);
        let found = finding(&host, case);
        assert_eq!(found.exposure, *expect, "{case} {sentence}: {found:#?}");
        assert!(sentence.is_empty() || found.reasons[0].contains(sentence), "{case} {sentence}: {found:#?}");
        assert_eq!(found.advice.is_empty(), *expect != Exposed, "advice is for those who are hit: {found:#?}");
    }
    for case in ALL {
        assert!(CHANGES.iter().any(|(c, _, e, _)| c == case && *e == NotExposed), "{case} is never cleared");
        let is_open = CHANGES.iter().any(|(c, _, e, _)| c == case && *e == Undecided);
        assert!(is_open || *case == "advice-without-effect", "{case} is never left open");
    }
}

#[test]
fn without_a_server_the_cases_of_servers_are_cleared_and_an_unseen_one_leaves_them_open() {
    let mut none = host();
    none.servers = known(Vec::new());
    let mut unseen = host();
    unseen.servers = unknown();
    for case in ["lazy-cold-pool", "spin-oversubscription", "autogroup-sessions"] {
        assert_eq!(finding(&none, case).exposure, Exposure::NotExposed);
        assert_eq!(finding(&unseen, case).exposure, Exposure::Undecided);
    }
    let mut two = host();
    two.servers = known(vec![server(), Server { name: "other".to_owned(), major_version: known(19), ..server() }]);
    let of: Vec<(Option<String>, Exposure)> =
        check(&two).into_iter().filter(|f| f.case == "lazy-cold-pool").map(|f| (f.server, f.exposure)).collect();
    assert_eq!(
        of,
        [(Some("postmaster 812".to_owned()), Exposure::Exposed), (Some("other".to_owned()), Exposure::NotExposed)]
    );
}

#[test]
fn what_is_no_harm_by_itself_does_not_count() {
    let mut host = host();
    host.servers = known(Vec::new());
    host.settings[1].value = known("500000".to_owned());
    host.preempt.model = known(PreemptModel::Full);
    let findings = check(&host);
    assert!(findings.iter().any(|f| f.exposure == Exposure::Exposed && f.weight == Weight::None));
    assert_eq!(overall(&findings), Exposure::NotExposed);
}

/// Advice must be possible on the kernel that it is given for.
#[test]
fn no_advice_names_a_model_that_this_kernel_does_not_offer() {
    let models = PreemptModel::SWITCHABLE;
    for mask in 1_u32..16 {
        let choices: Vec<PreemptModel> = (0..4).filter(|i| mask >> i & 1 == 1).map(|i| models[i]).collect();
        for model in models.iter().copied() {
            let mut host = host();
            host.preempt.choices = known(choices.clone());
            host.preempt.model = known(model);
            for finding in check(&host) {
                for advice in &finding.advice {
                    for other in models.iter().filter(|m| !choices.contains(m) || choices.len() == 1) {
                        let words = [format!("preempt={}", other.word()), format!("echo {} ", other.word())];
                        let is_named = words.iter().any(|w| advice.action.contains(w.as_str()));
                        assert!(!is_named, "{choices:?} {model:?}: {advice:?}");
                    }
                }
            }
            let refuses_none = impossible(&host).iter().any(|s| s.contains("preempt=none"));
            assert_eq!(refuses_none, !choices.contains(&PreemptModel::None), "{choices:?}");
        }
    }
}

#[test]
fn a_host_of_which_nothing_is_known_is_undecided_and_says_why() {
    let mut host = host();
    host.preempt.model = unknown();
    host.preempt.choices = unknown();
    host.preempt.asked = None;
    host.servers = unknown();
    host.settings.clear();
    host.kernel.version = unknown();
    host.kernel.architecture = unknown();
    host.kernel.command_line = unknown();
    host.machine.virtual_switch = unknown();
    let findings = check(&host);
    assert!(findings.iter().all(|f| f.exposure == Exposure::Undecided), "{findings:#?}");
    assert!(findings.iter().all(|f| f.reasons[0].contains("not known")), "{findings:#?}");
    assert_eq!(overall(&findings), Exposure::Undecided);
}
