//! Collectors that watch inside the kernel, on real tasks.

#![expect(clippy::print_stdout, reason = "it is shown where a test fails or cannot run")]

use crate::mounts;
use holdup_evidence::{CollectContext, Collecting, Collector, Subject};
use holdup_model::plan::CollectOptions;
use holdup_model::timeline::TimelineKind;
use holdup_model::{Availability, Collected};
use holdup_testkit::ignore;
use mounts::mount_for_this_thread;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn collector(id: &str) -> &'static dyn Collector {
    holdup_evidence::find(id).unwrap_or_else(|| panic!("no collector {id}"))
}

/// Whether it can work here; says why when not.
fn need(id: &str) {
    if let Availability::Unavailable { reason, .. } = collector(id).probe(&CollectContext::default()) {
        ignore(format!("{id} cannot work here: {reason}"));
    }
}

/// A shell that is ended with the test.
struct Shell(Child);

impl Shell {
    fn run(script: &str) -> Self {
        Shell(Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().expect("a shell"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

fn watch(ids: &[&str], shells: &[(&str, &Shell)], length: Duration) -> Vec<Collected> {
    watch_with(CollectOptions::default(), ids, shells, length)
}

fn watch_with(options: CollectOptions, ids: &[&str], shells: &[(&str, &Shell)], length: Duration) -> Vec<Collected> {
    let subjects = shells.iter().map(|(role, s)| Subject { role: (*role).to_owned(), pid: s.0.id() }).collect();
    let all: Vec<&dyn Collector> = ids.iter().map(|id| collector(id)).collect();
    let context = CollectContext { subjects, options, ..CollectContext::default() }.for_collectors(&all);
    let running: Vec<Box<dyn Collecting>> =
        all.iter().map(|c| c.start(&context).unwrap_or_else(|p| panic!("{p:?}"))).collect();
    std::thread::sleep(length);
    running.into_iter().map(Collecting::stop).collect()
}

/// What a failing test shows.
fn show(c: &Collected) {
    println!("{}: {:?} {:?}", c.collector, c.coverage, c.cost);
    for i in &c.items {
        println!("  {} {:?} {:?}", i.name, i.label, i.value);
    }
    for h in &c.histograms {
        let (p50, p99) = (h.histogram.quantile_ns(0.5), h.histogram.quantile_ns(0.99));
        println!("  {} {:?} n={} p50={p50:?} p99={p99:?}", h.name, h.label, h.histogram.count());
    }
}

fn value(c: &Collected, name: &str, label: &str) -> f64 {
    let item = c.items.iter().find(|i| i.name == name && i.label.as_deref() == Some(label));
    item.and_then(|i| i.value.value()).unwrap_or_else(|| panic!("no {name} {label} in {:#?}", c.items))
}

fn two_that_compute_on_one_cpu_leave_it_at_the_end_of_their_slices() {
    need("switches");
    let one = Shell::run("exec taskset -c 1 sh -c 'while :; do :; done'");
    let two = Shell::run("exec taskset -c 1 sh -c 'while :; do :; done'");
    std::thread::sleep(Duration::from_millis(200));
    let seen = watch(&["switches"], &[("server", &one), ("load", &two)], Duration::from_secs(1)).remove(0);
    show(&seen);
    // Others on the machine run and wake up on this CPU as well, so not every preemption is the end of a slice, and there
    // are at least 40 for each second that the task had.
    let least = 40.0 * value(&seen, "on_cpu_s", "server");
    assert!(value(&seen, "switched_out", "server: user boundary (R)") >= least);
    assert!(value(&seen, "preempted_by_cause", "server: slice end") >= least);
    assert_eq!(value(&seen, "preempted_by_cause", "server: throttled"), 0.0);
    let on_cpu = value(&seen, "on_cpu_s", "server");
    assert!(on_cpu > 0.1 && on_cpu < 1.2, "{on_cpu}");
    // Both may run on CPU 1 alone, so each of their waits was for it.
    let count = |name: &str| -> Vec<(Option<&str>, u64)> {
        let named = seen.histograms.iter().filter(|h| h.name == name);
        named.map(|h| (h.label.as_deref(), h.histogram.count())).collect()
    };
    let all: u64 = count("run_queue_wait_ns").iter().map(|(_, count)| count).sum();
    assert!(all as f64 >= least, "{all}");
    // Where these have a table of their own it is read a moment later, on a busy machine some switches later.
    let of_cpus = count("run_queue_wait_by_cpu_ns");
    let moved = 3.max(all / 20);
    assert!(matches!(of_cpus[..], [(Some("1"), n)] if n.abs_diff(all) <= moved), "{of_cpus:?} {all}");
}

/// Why a task is asked to leave is read off the stack: in full at first, later in one word of it, which has to say the same.
fn wake_ups_and_ends_of_slices_are_different_causes() {
    need("switches");
    let busy: Vec<Shell> = (0..2).map(|_| Shell::run("exec taskset -c 1 sh -c 'while :; do :; done'")).collect();
    let often = Shell::run("exec taskset -c 1 perl -e 'while (1) { select undef, undef, undef, 0.0005 }'");
    std::thread::sleep(Duration::from_millis(200));
    let subjects = [("busy", &busy[0]), ("busy", &busy[1]), ("often", &often)];
    let seen = watch(&["switches"], &subjects, Duration::from_secs(3)).remove(0);
    show(&seen);
    for cause in ["wake-up", "slice end"] {
        assert!(value(&seen, "preempted_by_cause", &format!("busy: {cause}")) >= 10.0, "{cause}");
    }
    assert!(!seen.coverage.notes.iter().any(|note| note.contains("looked at twice")), "{:?}", seen.coverage);
}

/// Two that compute are asked to leave by the tick and by a timer, and do so where these interrupts return.
fn requests_come_due_where_the_kernel_is_left() {
    need("resched-requests");
    let busy: Vec<Shell> = (0..2).map(|_| Shell::run("exec taskset -c 1 sh -c 'while :; do :; done'")).collect();
    let often = Shell::run("exec taskset -c 1 perl -e 'while (1) { select undef, undef, undef, 0.002 }'");
    std::thread::sleep(Duration::from_millis(200));
    let subjects = [("busy", &busy[0]), ("busy", &busy[1]), ("often", &often)];
    let seen = watch(&["switches", "resched-requests"], &subjects, Duration::from_secs(1));
    seen.iter().for_each(show);
    let of_cause = |cause: &str| value(&seen[0], "preempted_by_cause", &format!("busy: {cause}"));
    let seen_due = |what: &str| -> f64 {
        let requests = seen[1].items.iter().filter(|i| i.name == "resched_requests");
        let of_busy =
            requests.filter(|i| i.label.as_deref().is_some_and(|l| l.starts_with("busy: ") && l.contains(what)));
        of_busy.filter_map(|i| i.value.value()).sum()
    };
    let asked = of_cause("wake-up") + of_cause("slice end") + of_cause("promoted lazy request");
    let all = seen_due("");
    assert!(asked >= 1.0 && (asked..=asked + of_cause("higher class")).contains(&all), "{asked} {all}");
    assert!(seen_due("user boundary after timer interrupt < slice end") >= 1.0);
    assert!(seen_due("user boundary after timer interrupt < timer interrupt here") >= 1.0);
    // Such as the break points of others that watch.
    assert!(seen_due("something else") <= 0.1 * all);
}

/// Finding M5 of the attacks: a neighbour that renames itself takes no room of what is asked for, and that room for one window only.
fn a_process_that_renames_itself_has_a_bounded_number_of_names() {
    const OTHERS: &str = "(other programs)";
    need("switches");
    let busy = Shell::run("exec taskset -c 1 sh -c 'while :; do :; done'");
    let often = "while (1) { $0 = \"z\" . $n++; select undef, undef, undef, 0.0002 }";
    let _renamed = Shell::run(&format!("exec taskset -c 1 perl -e '{often}'"));
    std::thread::sleep(Duration::from_millis(200));
    let all: Vec<&dyn Collector> = ["switches", "account"].map(collector).to_vec();
    let subjects = vec![Subject { role: "busy".to_owned(), pid: busy.0.id() }];
    let context = CollectContext { subjects, ..CollectContext::default() }.for_collectors(&all);
    let mut running: Vec<Box<dyn Collecting>> = all.iter().map(|c| c.start(&context).unwrap()).collect();
    let mut full = 0;
    // Beside other work it does not come often enough in each window.
    for _window in 0..20 {
        std::thread::sleep(Duration::from_secs(2));
        running.iter_mut().for_each(|running| running.continuous().unwrap().edge());
        let cut: Vec<Collected> = running.iter_mut().map(|running| running.continuous().unwrap().cut()).collect();
        let names = |of: &Collected, item: &str, begin: &str| -> Vec<String> {
            let labels = of.items.iter().filter(|i| i.name == item).filter_map(|i| i.label.as_deref());
            labels.filter_map(|label| label.strip_prefix(begin)).map(str::to_owned).collect()
        };
        let pairs = names(&cut[0], "preempted_by", "sh < ");
        if !pairs.iter().any(|name| name == OTHERS) {
            continue;
        }
        cut.iter().for_each(show);
        // 100 pairs are shown, and the others counted.
        let left_out =
            |note: &String| note.strip_suffix(" pairs of names with the least time are left out")?.parse().ok();
        let left_out: Option<u32> = cut[0].coverage.notes.iter().find_map(left_out);
        assert!(left_out.is_some_and(|pairs| pairs < 400), "{:?}", cut[0].coverage);
        assert!(pairs.iter().filter(|name| name.starts_with('z')).count() >= 50, "the window has its names: {pairs:?}");
        let behind = names(&cut[1], "behind_s", "busy | behind other tasks | ");
        assert!(behind.len() <= 101 && behind.iter().any(|name| name == OTHERS), "{behind:?}");
        assert!(cut[1].coverage.notes.iter().any(|note| note.contains(OTHERS)), "{:?}", cut[1].coverage);
        full += 1;
        if full == 2 {
            return;
        }
    }
    panic!("in 20 windows it did not take the CPU under enough names twice");
}

/// In this thread alone, 64 CPUs are possible here. Tables are made for them, and with more than 16 they share shards.
fn say_that_64_cpus_are_possible() {
    let possible = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(possible.path(), "0-63\n").unwrap();
    let path = std::ffi::CString::new(possible.path().as_os_str().as_encoded_bytes()).unwrap();
    let is_mounted = mount_for_this_thread(&path, c"/sys/devices/system/cpu/possible", None, libc::MS_BIND);
    if !is_mounted {
        ignore(format!("no file can be mounted over another: {}", std::io::Error::last_os_error()));
    }
}

fn waits_are_of_their_cpu_where_cpus_share_shards() {
    need("switches");
    let thread = std::thread::spawn(|| {
        say_that_64_cpus_are_possible();
        two_that_compute_on_one_cpu_leave_it_at_the_end_of_their_slices();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn faults_are_counted_and_timed() {
    need("faults");
    let shell = Shell::run("while :; do head -c 8388608 /dev/zero | tail -c 1 > /dev/null; done");
    let seen = watch(&["faults", "switches"], &[("command", &shell)], Duration::from_millis(500));
    for seen in &seen {
        show(seen);
    }
    assert!(value(&seen[0], "faults", "command: minor") > 500.0);
    assert!(value(&seen[0], "fault_s", "command") > 0.0);
}

/// Both at the same time, so that they see the same.
fn faults_that_are_timed_in_slices_are_as_many_and_take_as_long() {
    need("faults");
    let shell = Shell::run("while :; do head -c 8388608 /dev/zero | tail -c 1 > /dev/null; done");
    let length = Duration::from_secs(3);
    let seen = |samples_faults| {
        let options = CollectOptions { samples_faults, ..CollectOptions::default() };
        watch_with(options, &["faults"], &[("command", &shell)], length).remove(0)
    };
    let (some, all) = std::thread::scope(|scope| {
        let all = scope.spawn(|| seen(false));
        (seen(true), all.join().unwrap())
    });
    show(&all);
    show(&some);
    let share = some.items.iter().find(|i| i.name == "timed_share").and_then(|i| i.value.value()).unwrap();
    assert!(share > 0.01 && share < 0.3, "{share}");
    assert!(!all.items.iter().any(|i| i.name == "timed_share"));
    for (name, label) in [("faults", "command: minor"), ("fault_s", "command"), ("first_touch", "command")] {
        let (of_some, of_all) = (value(&some, name, label), value(&all, name, label));
        assert!(of_some > 0.4 * of_all && of_some < 2.5 * of_all, "{name}: {of_some}, all {of_all}");
    }
}

fn a_timeline_holds_each_switch_once() {
    need("timeline");
    let shell = Shell::run("while :; do sleep 0.01; done");
    let mut seen = watch(&["timeline", "switches"], &[("command", &shell)], Duration::from_millis(500));
    let timeline = seen[0].timeline.take().expect("a timeline");
    show(&seen[0]);
    show(&seen[1]);
    assert_eq!(timeline.lost, 0);
    let left = |e: &&holdup_model::timeline::TimelineEvent| matches!(&e.kind, TimelineKind::Switch { left, .. } if left == "sleeping");
    // One `sleep` sleeps, and the shell waits for it.
    let sleeping = timeline.events.iter().filter(left).count() as f64;
    let counted = value(&seen[1], "switched_out", "command: sleeping");
    assert!(sleeping >= 40.0 && (counted - sleeping).abs() <= 4.0, "{sleeping} {counted}");
    assert!(timeline.events.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
}

fn a_timeline_with_an_account_says_what_tasks_sleep_for() {
    need("timeline");
    let shell = Shell::run("while :; do sleep 0.01; done");
    let mut seen = watch(&["timeline", "account"], &[("command", &shell)], Duration::from_millis(500));
    show(&seen[1]);
    let events = seen[0].timeline.take().expect("a timeline").events;
    let left = events.iter().filter_map(|e| match &e.kind {
        TimelineKind::Switch { left, .. } => Some(left.as_str()),
        _ => None,
    });
    let count = |what: &str| left.clone().filter(|left| *left == what).count();
    let (sleeps, waits) = (count("sleeping: clock_nanosleep"), count("sleeping: wait4"));
    assert!(sleeps >= 20 && waits >= 20 && count("sleeping") == 0, "{sleeps} {waits} {events:?}");
}

/// Reserved huge pages of hugetlbfs, given back with the test.
struct Reserved(String);

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";

impl Reserved {
    /// `None` where the host has none to give.
    fn at_least(pages: u64) -> Option<Self> {
        let before = std::fs::read_to_string(RESERVED).ok()?.trim().to_owned();
        let had: u64 = before.parse().ok()?;
        let reserved = Reserved(before);
        std::fs::write(RESERVED, (had + pages).to_string()).ok()?;
        let now: u64 = std::fs::read_to_string(RESERVED).ok()?.trim().parse().ok()?;
        (now >= had + pages).then_some(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let _as_before = std::fs::write(RESERVED, &self.0);
    }
}

const HUGE_BYTES: usize = 2 << 20;
const HUGE_PAGES: usize = 4;

/// Touches each page of 4 kB of a new region once, in a thread of this process that begins and ends with it.
fn touch(flags: libc::c_int, advice: Option<libc::c_int>) {
    let toucher = move || {
        let length = (HUGE_PAGES + 1) * HUGE_BYTES;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        // SAFETY: the kernel chooses the place of a new region, which is written to inside its bounds alone.
        unsafe {
            let region = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
            assert_ne!(region, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            if let Some(advice) = advice {
                assert_eq!(libc::madvise(region, length, advice), 0, "{}", std::io::Error::last_os_error());
            }
            let begin = region.cast::<u8>().add(region.align_offset(HUGE_BYTES));
            for at in (0..HUGE_PAGES * HUGE_BYTES).step_by(4096) {
                begin.add(at).write_volatile(1);
            }
            libc::munmap(region, length);
        }
    };
    std::thread::spawn(toucher).join().expect("it touches");
}

/// Faults of this process while it touches memory: of huge pages, and all.
fn faults_of(touch: impl FnOnce()) -> (f64, f64) {
    let subjects = vec![Subject { role: "self".to_owned(), pid: std::process::id() }];
    let faults = collector("faults");
    let context = CollectContext { subjects, ..CollectContext::default() }.for_collectors(&[faults]);
    let running = faults.start(&context).unwrap_or_else(|p| panic!("{p:?}"));
    touch();
    let seen = running.stop();
    show(&seen);
    let of = |kind: &str| value(&seen, "faults", &format!("self: {kind}"));
    (of("huge"), of("huge") + of("minor") + of("major"))
}

/// In another process: faults of threads of other tests would be this one's.
fn alone(test: &str) -> bool {
    if std::env::var_os("HOLDUP_ALONE").is_some() {
        return true;
    }
    let own = std::env::current_exe().expect("this test");
    let run = Command::new(own).args([test, "--nocapture"]).env("HOLDUP_ALONE", "1").output().expect("it runs");
    let output = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    println!("{output}");
    assert!(run.status.success(), "{test}");
    false
}

fn faults_of_small_pages_are_not_huge() {
    need("faults");
    if alone("faults_of_small_pages_are_not_huge") {
        let (huge, all) = faults_of(|| touch(0, Some(libc::MADV_NOHUGEPAGE)));
        assert!(huge == 0.0 && all >= (HUGE_PAGES * 512) as f64, "{huge} of {all}");
    }
}

fn faults_of_transparent_huge_pages_are_huge() {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if enabled.is_empty() || enabled.contains("[never]") {
        ignore(format!("this host has no transparent huge pages: {enabled}"));
    }
    need("faults");
    if alone("faults_of_transparent_huge_pages_are_huge") {
        let (huge, all) = faults_of(|| touch(0, Some(libc::MADV_HUGEPAGE)));
        // Where memory is short the kernel gives small pages instead.
        let small = all - huge;
        assert!(huge >= 1.0 && huge <= HUGE_PAGES as f64 + 1.0, "{huge} of {all}");
        assert!(huge * 512.0 + small >= (HUGE_PAGES * 512) as f64, "{huge} of {all}");
    }
}

fn faults_of_hugetlbfs_are_huge() {
    need("faults");
    if !alone("faults_of_hugetlbfs_are_huge") {
        return;
    }
    let Some(_reserved) = Reserved::at_least(HUGE_PAGES as u64 + 1) else {
        ignore("this host gives no huge pages");
    };
    let (huge, all) = faults_of(|| touch(libc::MAP_HUGETLB, None));
    assert!(huge == HUGE_PAGES as f64, "{huge} of {all}");
}

fn programs_that_begin_inside_the_window_are_counted() {
    need("critical-sections");
    let shell = Shell::run("while :; do /bin/true; sleep 0.05; done");
    let seen = watch(&["critical-sections"], &[("command", &shell)], Duration::from_millis(1500)).remove(0);
    show(&seen);
    let shown = format!("{seen:?}");
    assert!(shown.contains("programs started inside the window: their sections are not known"), "{shown}");
}

fn single_tasks_add_up_to_the_account() {
    need("tasks");
    let computes = Shell::run("while :; do :; done");
    let sleeper = Shell::run("exec sleep 1000");
    // Its children are short-lived.
    let shell = Shell::run("while :; do /bin/true; sleep 0.02; done");
    std::thread::sleep(Duration::from_millis(200));
    let ids = ["account", "tasks"];
    let all: Vec<&dyn Collector> = ids.iter().map(|id| collector(id)).collect();
    let subject = |shell: &Shell| Subject { role: "command".to_owned(), pid: shell.0.id() };
    let subjects = vec![subject(&computes), subject(&sleeper), subject(&shell)];
    let context = CollectContext { subjects, ..CollectContext::default() }.for_collectors(&all);
    let mut running: Vec<Box<dyn Collecting>> = all.iter().map(|c| c.start(&context).unwrap()).collect();
    for _window in 0..2 {
        std::thread::sleep(Duration::from_millis(600));
        running.iter_mut().for_each(|running| running.continuous().unwrap().edge());
        let cut: Vec<Collected> = running.iter_mut().map(|running| running.continuous().unwrap().cut()).collect();
        cut.iter().for_each(show);
        let sum = |of: &Collected, name: &str, is_of: &dyn Fn(&str) -> bool| -> f64 {
            let items = of.items.iter().filter(|i| i.name == name && i.label.as_deref().is_some_and(is_of));
            items.filter_map(|i| i.value.value()).sum()
        };
        let on = sum(&cut[0], "account_s", &|label| label.contains("| on CPU |"));
        let of_tasks = sum(&cut[1], "task_on_cpu_s", &|_| true);
        assert!(on > 0.01 && (on - of_tasks).abs() < 0.001 * on, "{on} {of_tasks}");
        let without = sum(&cut[0], "account_s", &|label| label.contains("| waking |") || label.contains("| behind"));
        let of_tasks = sum(&cut[1], "task_without_cpu_s", &|_| true);
        assert!((without - of_tasks).abs() <= 0.001 + 0.01 * without, "{without} {of_tasks}");
        let of = |name: &str, shell: &Shell, for_what: &str| {
            let begin = format!("{} | ", shell.0.id());
            sum(&cut[1], name, &|label| label.starts_with(&begin) && label.ends_with(for_what))
        };
        assert!(of("task_on_cpu_s", &computes, "| sh") > 0.01);
        assert!(of("task_slept_for_s", &shell, "| wait4") > 0.1);
        assert!(of("task_switches", &shell, "| sh") >= 2.0);
        // It does nothing that is larger than what others do, so it is one of the others.
        assert_eq!(of("task_asleep_s", &sleeper, ""), 0.0);
        assert!(sum(&cut[1], "task_asleep_s", &|label| label == "other") > 0.5);
    }
    drop(running);
    let alone = watch(&["tasks"], &[("command", &shell)], Duration::from_millis(100)).remove(0);
    assert!(format!("{alone:?}").contains("it takes the collector account"), "{alone:?}");
}

holdup_testkit::tests!(
    alone:
    requests_come_due_where_the_kernel_is_left,
    single_tasks_add_up_to_the_account,
    a_process_that_renames_itself_has_a_bounded_number_of_names,
    waits_are_of_their_cpu_where_cpus_share_shards,
    faults_are_counted_and_timed,
    a_timeline_holds_each_switch_once,
    a_timeline_with_an_account_says_what_tasks_sleep_for,
    faults_of_small_pages_are_not_huge,
    faults_of_transparent_huge_pages_are_huge,
    faults_of_hugetlbfs_are_huge,
    programs_that_begin_inside_the_window_are_counted;
    truth:
    two_that_compute_on_one_cpu_leave_it_at_the_end_of_their_slices,
    wake_ups_and_ends_of_slices_are_different_causes,
    faults_that_are_timed_in_slices_are_as_many_and_take_as_long
);
