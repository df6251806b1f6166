//! `holdup check` reports the files of a host that it cannot parse, and never panics.

use holdup_analysis::{check, impossible, overall};
use holdup_host::fake::{Fault, MemoryFs};
use holdup_model::survey::{CaseFinding, Exposure, Survey};
use holdup_report::{Checked, TerminalOptions, check_json, check_terminal};
use holdup_survey::survey;
use proptest::prelude::*;

/// A host on which every source answers.
const FILES: &[(&str, &str)] = &[
    ("/proc/sys/kernel/osrelease", "7.0.13+deb13-amd64\n"),
    ("/proc/sys/kernel/arch", "x86_64\n"),
    ("/proc/version", "Linux version 7.0.13+deb13-amd64 (x) #1 SMP PREEMPT_DYNAMIC Debian 7.0.13-1\n"),
    ("/proc/cmdline", "quiet preempt=full\n"),
    (
        "/boot/config-7.0.13+deb13-amd64",
        "CONFIG_X86_64=y\nCONFIG_HZ=250\nCONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_DYNAMIC=y\n\
         CONFIG_ARCH_HAS_PREEMPT_LAZY=y\nCONFIG_SCHED_AUTOGROUP=y\n# CONFIG_RSEQ_SLICE_EXTENSION is not set\n",
    ),
    ("/sys/kernel/debug/sched/preempt", "(full) lazy\n"),
    ("/sys/kernel/debug/sched/migration_cost_ns", "500000\n"),
    ("/sys/kernel/debug/sched/base_slice_ns", "1400000\n"),
    ("/sys/kernel/debug/sched/nr_migrate", "32\n"),
    ("/sys/kernel/debug/sched/features", "PLACE_LAG NO_HRTICK\n"),
    ("/sys/kernel/debug/rseq/slice_ext_nsec", "5000\n"),
    ("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("/proc/sys/kernel/sched_autogroup_enabled", "1\n"),
    ("/proc/self/auxv", ""),
    ("/proc/self/cgroup", "0::/a\n"),
    ("/sys/fs/cgroup/a/cpu.max", "200000 100000\n"),
    ("/sys/fs/cgroup/a/cpu.stat", "nr_throttled 3\n"),
    ("/proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\n"),
    ("/proc/meminfo", "MemTotal: 100 kB\nHugePages_Total: 0\nHugePages_Free: 0\nHugePages_Rsvd: 0\n"),
    ("/proc/cpuinfo", "flags : fpu hypervisor\n"),
    ("/proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=1.50 total=1\n"),
    ("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"),
    ("/sys/devices/system/cpu/online", "0-1\n"),
    ("/sys/devices/system/node/online", "0\n"),
    ("/sys/module/kvm/refcnt", "1\n"),
    ("/etc/os-release", "PRETTY_NAME=\"Debian\"\n"),
    ("/proc/1/stat", "1 (init) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n"),
    ("/proc/1/comm", "init\n"),
    ("/proc/1/cmdline", "/sbin/init\0"),
    ("/proc/1/cgroup", "0::/\n"),
];

/// All that is made of a host: the survey, the findings, and the text in both forms.
fn everything(fs: &MemoryFs) -> (Survey, Vec<CaseFinding>, String) {
    let survey = survey(&fs.host(), None, None);
    let findings = check(&survey);
    let impossible = impossible(&survey);
    let checked =
        Checked { survey: &survey, findings: &findings, overall: overall(&findings), impossible: &impossible };
    let text = check_terminal(&checked, &TerminalOptions { width: 80, color: false, details: true });
    let _document: serde_json::Value = serde_json::from_str(&check_json(&checked)).unwrap();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
    (survey, findings, text)
}

fn the_whole_host_is_understood() {
    let (survey, findings, _) = everything(&MemoryFs::of(FILES));
    assert_eq!(survey.preempt.model.get().map(|m| m.word()), Some("full"));
    assert_eq!(survey.preempt.disagreement, None, "{survey:#?}");
    assert_eq!(survey.machine.cpu_limit_cpus.value(), Some(Some(2.0)));
    assert_eq!(survey.machine.cpu_pressure_share.value(), Some(0.015));
    assert_eq!(overall(&findings), Exposure::NotExposed, "{findings:#?}");
}

fn an_empty_host_is_undecided_and_says_of_each_thing_why() {
    let (_, findings, text) = everything(&MemoryFs::new());
    assert!(overall(&findings) == Exposure::Undecided, "{findings:#?}");
    assert!(text.contains("Not known") && text.contains("no such file"), "{text}");
}

fn each_operation_may_fail_and_only_what_it_was_about_is_missing() {
    let fs = MemoryFs::of(FILES);
    fs.arm(None);
    let (whole, ..) = everything(&fs);
    let operations = fs.log().len() as u64;
    assert!(operations > 30, "{operations} operations");
    for at in 1..=operations {
        fs.arm(Some(Fault::Once(at)));
        let (survey, findings, _) = everything(&fs);
        // One file less may leave a verdict open or let another source speak, but it makes up nothing.
        if let (Some(now), Some(then)) = (survey.preempt.model.get(), whole.preempt.model.get()) {
            assert_eq!(now, then, "operation {at}: {:?}", fs.log()[at as usize - 1]);
        }
        assert!(overall(&findings) != Exposure::Exposed, "operation {at}: {findings:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    fn any_bytes_in_any_files_are_survived(
        garbage in proptest::collection::vec((0..FILES.len(), proptest::collection::vec(any::<u8>(), 0..200)), 1..8),
        cut in proptest::collection::vec((0..FILES.len(), 0..60_usize), 0..4),
        log in proptest::option::of(".*"),
    ) {
        let fs = MemoryFs::of(FILES);
        for (file, bytes) in &garbage {
            fs.put(FILES[*file].0, bytes);
        }
        for (file, length) in &cut {
            let (path, content) = FILES[*file];
            fs.put(path, &content.as_bytes()[..content.len().min(*length)]);
        }
        if let Some(log) = &log {
            fs.put_kernel_log(log);
        }
        everything(&fs);
    }
}

holdup_testkit::tests!(
    the_whole_host_is_understood,
    an_empty_host_is_undecided_and_says_of_each_thing_why,
    each_operation_may_fail_and_only_what_it_was_about_is_missing,
    any_bytes_in_any_files_are_survived
);
