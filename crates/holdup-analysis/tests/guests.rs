//! Runs in guests: what the host did to them, boots that were to be alike, and arms that were something else.

use crate::common;
use common::Maker;
use holdup_analysis::analyse;
use holdup_model::*;

/// A run of three sessions in which the levels of autogroup stand for two kernels, each booted once in each session.
fn guests(accel: &str) -> BundleData {
    let mut bundle = Maker { sessions: 3, blocks: 2, ..Maker::default() }.make();
    bundle.plan.guest = Some(Guest::default());
    let kernel = |on: bool| if on { ("debian:7.0", "lazy") } else { ("debian:7.2", "full") };
    let mut boot_of = Vec::new();
    for arm in &mut bundle.schedule.arms {
        let on = arm.factors["autogroup"].value == Value::Bool(true);
        let (release, model) = kernel(on);
        arm.factors.insert("kernel".into(), Level::plain(release));
        arm.factors.insert("preempt".into(), Level::plain(model));
        boot_of.push(u32::from(!on));
    }
    for spec in &mut bundle.schedule.trials {
        spec.boot = spec.session * 2 + boot_of[spec.arm as usize];
    }
    for trial in &mut bundle.trials {
        trial.boot = trial.session * 2 + boot_of[trial.arm as usize];
    }
    bundle.environment = (0..6)
        .map(|boot| EnvironmentReading { session: boot / 2, boot, facts: facts(boot, kernel(boot % 2 == 0), accel) })
        .collect();
    bundle
}

fn facts(boot: u32, (kernel, model): (&str, &str), accel: &str) -> Vec<Fact> {
    let release = format!("{}.3-amd64", kernel.trim_start_matches("debian:"));
    vec![
        Fact::read("kernel.release", release, "uname(2)"),
        Fact::read("kernel.preempt", model, "/sys/kernel/debug/sched/preempt"),
        Fact::read("kernel.boot_id", format!("{boot}-c0ffee"), "/proc/sys/kernel/random/boot_id"),
        Fact::read("guest.boot_s", format!("{}.5", 9 + boot), "QEMU's start to the agent's first message"),
        Fact::read("guest.accel", accel, "holdup's own setting"),
        Fact::read("guest.cpus", "4", "holdup's own setting"),
        Fact::read("guest.host_cpus", "8", "sched_getaffinity(2)"),
    ]
}

fn replace(bundle: &mut BundleData, boot: usize, key: &str, value: &str) {
    let fact = bundle.environment[boot].facts.iter_mut().find(|f| f.key == key).expect("the fact is there");
    fact.value = Some(value.into());
}

/// What one analysis says, a line each: `Verdict sentence`, with the details behind.
fn said(bundle: &BundleData, id: &str) -> Vec<String> {
    let findings = analyse(bundle).findings;
    let of = findings.iter().filter(|f| f.analysis == id);
    of.map(|f| format!("{:?} {} {}", f.verdict, f.sentence, f.details.join(" ")).trim_end().to_owned()).collect()
}

/// Gives every trial a share of stolen CPU time, by its arm's kernel and its number.
fn steal(bundle: &mut BundleData, share: impl Fn(&str, u32) -> f64) {
    for trial in &mut bundle.trials {
        let kernel = &bundle.schedule.arms[trial.arm as usize].factors["kernel"].label;
        trial.evidence.push(Collected {
            collector: "cpu".into(),
            items: vec![EvidenceItem::labelled("cpu_share", "steal", "share", share(kernel, trial.seq))],
            coverage: Coverage::default(),
            cost: SelfCost::default(),
            ..Collected::default()
        });
    }
}

#[test]
fn boots_of_different_kernels_differ_on_purpose() {
    let mut bundle = guests("kvm");
    assert_eq!(
        said(&bundle, "environment"),
        ["Refuted Nothing moved in the environment, and every fact asked for is known."]
    );
    replace(&mut bundle, 4, "kernel.release", "7.0.4-amd64");
    assert_eq!(
        said(&bundle, "environment"),
        ["Supported The environment differs between boots that were to be alike: kernel.release. \
          kernel.release (kernel=debian:7.0): 7.0.3-amd64 → 7.0.4-amd64."]
    );
}

#[test]
fn a_host_that_was_booted_between_two_sessions_is_named() {
    let mut bundle = guests("kvm");
    bundle.plan.guest = None;
    let said = said(&bundle, "environment");
    assert!(said[0].contains("differs between sessions: guest.boot_s and kernel.boot_id."), "{said:?}");
}

#[test]
fn an_arm_that_was_something_else_than_its_label_says_stands_above_the_verdicts() {
    let mut bundle = guests("kvm");
    assert_eq!(
        said(&bundle, "treatment"),
        [format!(
            "Refuted Every arm was what its label says of kernel and preempt: {} trials were looked at.",
            bundle.trials.len()
        )]
    );
    replace(&mut bundle, 2, "kernel.preempt", "full");
    let first = analyse(&bundle).findings.remove(0);
    assert!(first.headline, "{first:?}");
    let of_boot: Vec<u32> = bundle.trials.iter().filter(|t| t.boot == 2).map(|t| t.arm).collect();
    let result = said(&bundle, "treatment");
    assert!(
        result[0].contains("preempt=lazy was asked for, and it ran with kernel.preempt full (trials "),
        "{result:?}"
    );
    assert!(first.trials.iter().all(|seq| bundle.trials[*seq as usize].boot == 2) && !of_boot.is_empty());
    // What is read before the trial itself counts for more than what the boot began with.
    for trial in &mut bundle.trials {
        let model = bundle.schedule.arms[trial.arm as usize].factors["preempt"].label.clone();
        trial.environment_before.push(Fact::read("kernel.preempt", model, "/sys/kernel/debug/sched/preempt"));
    }
    assert!(said(&bundle, "treatment")[0].starts_with("Refuted"));
    // A kernel that is none of the level's.
    replace(&mut bundle, 1, "kernel.release", "6.19.14-amd64");
    let result = said(&bundle, "treatment");
    assert!(
        result[0].contains("kernel=debian:7.2 was asked for, and it ran with kernel.release 6.19.14-amd64"),
        "{result:?}"
    );
}

#[test]
fn what_holdfasts_locks_did_is_said_and_first_where_they_did_nothing() {
    let mut bundle = guests("kvm");
    let of_arm = |bundle: &mut BundleData, note: &str, most: usize| {
        for trial in bundle.trials.iter_mut().filter(|t| t.arm == 1).take(most) {
            trial.notes = vec![note.to_owned()];
        }
    };
    let of_holdfast = |bundle: &BundleData| {
        let findings = analyse(bundle).findings.into_iter().enumerate();
        let mut found = findings.filter(|(_, f)| f.analysis == "treatment" && f.sentence.contains("holdfast"));
        found.next().map(|(n, finding)| (n, finding.headline, finding.sentence))
    };
    assert_eq!(of_holdfast(&bundle), None);
    of_arm(&mut bundle, "holdfast served 4 mutexes of 1 process", usize::MAX);
    let label = bundle.schedule.arms[1].label.clone();
    let (_, is_first, sentence) = of_holdfast(&bundle).expect("it is said");
    assert_eq!((is_first, sentence), (false, format!("{label}: holdfast served 4 mutexes of 1 process.")));
    let why = "holdfast had no effect: no process of this command loaded it (it is statically linked)";
    of_arm(&mut bundle, why, 1);
    let (n, is_first, sentence) = of_holdfast(&bundle).expect("it is said");
    assert_eq!((n, is_first), (0, true));
    assert!(sentence.starts_with(&format!("{label}: {why} (so in 1 of ")), "{sentence}");
    of_arm(&mut bundle, why, usize::MAX);
    assert_eq!(of_holdfast(&bundle), Some((0, true, format!("{label}: {why}."))));
}

#[test]
fn a_treatment_without_a_fact_is_undecided() {
    let mut bundle = guests("kvm");
    for reading in &mut bundle.environment {
        reading.facts.retain(|f| f.key != "kernel.preempt");
    }
    let said = said(&bundle, "treatment");
    assert!(said[1].starts_with("Refuted Every arm was what its label says of kernel: "), "{said:?}");
    assert_eq!(said[0], "Undecided Whether preempt took effect is not known in every trial: a fact is missing.");
}

#[test]
fn nothing_is_said_of_guests_where_there_are_none() {
    let bundle = Maker::default().make();
    assert!(said(&bundle, "virtualisation").is_empty() && said(&bundle, "treatment").is_empty());
}

#[test]
fn guests_with_more_cpus_than_the_host_are_named() {
    let mut bundle = guests("kvm");
    assert!(
        said(&bundle, "virtualisation")[0].starts_with("Refuted Guests had 4 CPUs, no more than the 8 of the host.")
    );
    // One boot on fewer of the host's CPUs is enough.
    replace(&mut bundle, 3, "guest.host_cpus", "2");
    let said = said(&bundle, "virtualisation");
    assert!(
        said[0].starts_with("Supported Guests had 4 CPUs on 2 of the host: the host preempts them too"),
        "{said:?}"
    );
}

#[test]
fn steal_is_reported_by_arm_and_a_difference_is_a_threat() {
    let mut quiet = guests("kvm");
    steal(&mut quiet, |_, seq| 0.002 + f64::from(seq % 3) * 0.001);
    let result = said(&quiet, "virtualisation");
    assert!(result[1].starts_with("Refuted The host took at most 0.3"), "{result:?}");
    assert_eq!(result.len(), 2, "{result:?}");

    let mut unequal = guests("kvm");
    let share = |kernel: &str, seq: u32| if kernel.ends_with("7.2") { 0.08 } else { 0.01 } + f64::from(seq % 3) * 0.001;
    steal(&mut unequal, share);
    let result = said(&unequal, "virtualisation");
    assert!(result.iter().any(|t| t.starts_with("Supported The host took up to 8.")), "{result:?}");
    assert!(result.iter().any(|t| t.starts_with("Supported") && t.contains("may be the host's")), "{result:?}");

    let mut wild = guests("kvm");
    steal(
        &mut wild,
        |kernel, seq| if seq % 5 == 0 { 0.3 } else { 0.0 } + if kernel.ends_with("7.2") { 0.02 } else { 0.0 },
    );
    let result = said(&wild, "virtualisation");
    assert!(result.iter().any(|t| t.starts_with("Undecided") && t.ends_with("that may be chance.")), "{result:?}");
}

#[test]
fn under_emulation_steal_is_not_zero_but_unseen() {
    let mut bundle = guests("tcg");
    bundle.environment[0].facts.push(Fact::read("guest.accel_reason", "/dev/kvm: no such file", "/dev/kvm"));
    steal(&mut bundle, |_, _| 0.0);
    let result = said(&bundle, "virtualisation");
    assert!(result.iter().any(|t| t.contains("Accelerator: tcg. Why: /dev/kvm: no such file.")), "{result:?}");
    assert!(
        result.iter().any(|t| t.starts_with("Skipped") && t.contains("under emulation a guest cannot see it")),
        "{result:?}"
    );
}
