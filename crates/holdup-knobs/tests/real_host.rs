//! The knobs on the host that the tests run on, where it permits; everything is put back.

use holdup_host::{Host, Scheduling};
use holdup_knobs::journal::{self, Applied, Journal};
use holdup_knobs::{KnobContext, find, knobs};
use holdup_model::{Availability, Machine, Value};
use holdup_testkit::{ignore, ignore_part};
use std::collections::BTreeMap;
use std::process::{Child, Command};

struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Sleeper(Command::new("sleep").arg("60").spawn().expect("sleep is there"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Ends the test where the factor cannot be set here.
fn need(context: &KnobContext<'_>, factor: &str) {
    let (knob, instance) = find(factor).unwrap();
    if let Availability::Unavailable { reason, .. } = knob.probe(context, instance) {
        ignore(format!("{factor} cannot be set here: {reason}"));
    }
}

/// Applies a value, sees it in force, and puts it back in a new process's stead.
fn there_and_back(context: &KnobContext<'_>, factor: &str, value: &Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/journal.json").to_string_lossy().into_owned();
    let (knob, instance) = find(factor).unwrap();
    let before = knob.read(context, instance).unwrap();
    let mut journal = Journal::open(context.host.clone(), &path, 0).unwrap();
    let applied = journal.apply(context, factor, value).unwrap();
    assert!(matches!(applied, Applied::Changed { .. }), "{applied:?}");
    assert!(knob.same(value, &knob.read(context, instance).unwrap()));
    assert_eq!(journal::pending(context.host, &path).unwrap()[0].old, before);
    // This process runs, so a recovery from elsewhere must leave it alone.
    let meanwhile = journal::recover(context.host, &path, &|_| None).unwrap();
    assert!(meanwhile.restored.is_empty() && meanwhile.notes[0].contains("still runs"), "{meanwhile:?}");
    let restored = journal.restore_all(context);
    assert_eq!(restored.left, []);
    assert_eq!(knob.read(context, instance).unwrap(), before);
    assert!(!std::path::Path::new(&path).exists());
}

fn huge_pages_are_reserved_and_given_back() {
    let host = Host::real();
    let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
    need(&context, "huge-pages-reserved");
    let (knob, _) = find("huge-pages-reserved").unwrap();
    let Value::Integer(now) = knob.read(&context, "").unwrap() else { panic!("pages are counted") };
    there_and_back(&context, "huge-pages-reserved", &Value::Integer(now + 2));
    let absurd = Value::Integer(i64::from(u32::MAX));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.json").to_string_lossy().into_owned();
    let refused = Journal::open(host.clone(), &path, 0).unwrap().apply(&context, "huge-pages-reserved", &absurd);
    assert!(refused.unwrap_err().why.contains("are available"));
    assert_eq!(knob.read(&context, "").unwrap(), Value::Integer(now));
}

/// Knobs whose levels depend on the host or on the processes under test, and which have tests below.
const WITH_TESTS_BELOW: [&str; 6] =
    ["huge-pages-reserved", "sched-policy", "affinity", "irq-affinity", "cpu-dma-latency", "postgres-setting"];

fn every_other_knob_is_set_and_put_back() {
    if holdup_testkit::is_bare_root() {
        ignore("the files of knobs open for user 0, and the kernel takes nothing without CAP_SYS_ADMIN");
    }
    let host = Host::real();
    // Outside of a group of its own the knobs of groups say why they cannot be used.
    let (group, alone) = match Group::make(&host, "every") {
        Some(group) => (Some(group), None),
        None => (None, Some(Sleeper::start())),
    };
    let sleeper = group.as_ref().map(|group| &group.sleeper).or(alone.as_ref()).unwrap();
    let context = KnobContext { host: &host, postgres: None, pids: vec![sleeper.0.id()] };
    let machine = Machine { cpus: 2, memory_bytes: 1 << 30 };
    for knob in knobs::ALL.iter().filter(|knob| !WITH_TESTS_BELOW.contains(&knob.meta().id)) {
        for sample in knob.samples().iter().filter(|sample| !sample.real_levels.is_empty()) {
            let (factor, (_, instance)) = (sample.factor, find(sample.factor).unwrap());
            if let Availability::Unavailable { reason, .. } = knob.probe(&context, instance) {
                ignore_part(format!("{factor} cannot be set here: {reason}"));
                continue;
            }
            let now = knob.read(&context, instance).unwrap();
            for level in sample.real_levels {
                let (level, _) = knob.values().parse(level, machine).unwrap().unwrap();
                match knob.check_here(&context, instance, &level) {
                    Ok(()) if knob.same(&level, &now) => {}
                    Ok(()) => there_and_back(&context, factor, &level),
                    Err(refused) => ignore_part(format!("{factor} = {level} is refused here: {}", refused.why)),
                }
            }
        }
    }
}

fn the_policy_of_a_child_is_set_and_put_back() {
    let host = Host::real();
    let sleeper = Sleeper::start();
    let context = KnobContext { host: &host, postgres: None, pids: vec![sleeper.0.id()] };
    need(&context, "sched-policy");
    there_and_back(&context, "sched-policy", &Value::Text("batch".to_owned()));
    let (knob, _) = find("sched-policy").unwrap();
    let is_privileged = knob.probe(&context, "") == Availability::Ready;
    if is_privileged {
        there_and_back(&context, "sched-policy", &Value::Text("idle".to_owned()));
        there_and_back(&context, "sched-policy", &Value::Text("nice:-5".to_owned()));
        there_and_back(&context, "sched-policy", &Value::Text("batch nice:5".to_owned()));
        there_and_back(&context, "sched-policy", &Value::Text("fifo:1".to_owned()));
        return;
    }
    ignore_part("idle and nice cannot be undone without CAP_SYS_NICE: what is tested is the refusal");
    let before = host.scheduling(sleeper.0.id()).unwrap();
    for level in ["idle", "nice:5", "nice:-5"] {
        let refused = knob.write(&context, "", &Value::Text(level.to_owned())).unwrap_err();
        assert!(refused.why.contains("could not be put back"), "{level}: {refused}");
    }
    assert_eq!(host.scheduling(sleeper.0.id()).unwrap(), before);
}

fn the_slice_of_a_child_is_set_and_the_default_one_put_back() {
    let host = Host::real();
    let sleeper = Sleeper::start();
    let pid = sleeper.0.id();
    let context = KnobContext { host: &host, postgres: None, pids: vec![pid] };
    need(&context, "sched-policy");
    let Some(default) = host.slice(pid).unwrap() else {
        ignore_part("this kernel has no slices of single tasks: what is tested is the refusal");
        let (knob, _) = find("sched-policy").unwrap();
        let refused = knob.write(&context, "", &Value::Text("other slice:7ms".to_owned())).unwrap_err();
        assert!(refused.hint.is_some_and(|hint| hint.contains("6.12")));
        return;
    };
    for level in ["other slice:7ms", "batch slice:100us"] {
        there_and_back(&context, "sched-policy", &Value::Text(level.to_owned()));
        assert_eq!(host.slice(pid).unwrap(), Some(default), "{level}");
    }
}

fn a_child_that_is_born_under_a_level_gets_its_parents_own_back() {
    let host = Host::real();
    // A shell that waits for a line before it starts its child.
    let mut shell = Command::new("sh")
        .args(["-c", "read line; sleep 60 & echo $!; wait"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let context = KnobContext { host: &host, postgres: None, pids: vec![shell.id()] };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.json").to_string_lossy().into_owned();
    let mut journal = Journal::open(host.clone(), &path, 0).unwrap();
    journal.apply(&context, "sched-policy", &Value::Text("batch".to_owned())).unwrap();
    let mut line = String::new();
    std::io::Write::write_all(shell.stdin.as_mut().unwrap(), b"go\n").unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.as_mut().unwrap()), &mut line).unwrap();
    let child: u32 = line.trim().parse().unwrap();
    assert_eq!(host.scheduling(child).unwrap().policy, Scheduling::BATCH, "children inherit it");
    let restored = journal.restore_all(&context);
    let policies = (host.scheduling(shell.id()).unwrap().policy, host.scheduling(child).unwrap().policy);
    Command::new("kill").arg(child.to_string()).status().unwrap();
    shell.wait().unwrap();
    assert_eq!((restored.left.len(), policies), (0, (Scheduling::OTHER, Scheduling::OTHER)));
}

/// No test in itself: the process that `killed_after` kills.
fn sets_a_factor_and_waits_to_be_killed() {
    let variable = |name: &str| std::env::var(format!("HOLDUP_TEST_{name}"));
    let (Ok(path), Ok(pid), Ok(factor), Ok(value)) =
        (variable("JOURNAL"), variable("PID"), variable("FACTOR"), variable("VALUE"))
    else {
        return;
    };
    let host = Host::real();
    let context = KnobContext { host: &host, postgres: None, pids: vec![pid.parse().unwrap()] };
    let mut journal = Journal::open(host.clone(), &path, 0).unwrap();
    let value = value.parse().map_or(Value::Text(value), Value::Integer);
    journal.apply(&context, &factor, &value).unwrap();
    std::fs::write(format!("{path}.ready"), "").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// Lets another process set a factor, kills it, and puts things back from its journal. `look` sees the state: while the
/// process runs, and after.
fn killed_after(pid: u32, factor: &str, value: &str, look: &dyn Fn() -> String) -> [String; 2] {
    let host = Host::real();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.json").to_string_lossy().into_owned();
    let mut doomed = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "real_host::sets_a_factor_and_waits_to_be_killed"])
        .envs([("HOLDUP_TEST_JOURNAL", path.as_str()), ("HOLDUP_TEST_PID", &pid.to_string())])
        .envs([("HOLDUP_TEST_FACTOR", factor), ("HOLDUP_TEST_VALUE", value)])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !std::path::Path::new(&format!("{path}.ready")).exists() {
        assert_eq!(doomed.try_wait().unwrap(), None, "it ended before it was killed");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let under = look();
    let early = journal::recover(&host, &path, &|_| None).unwrap();
    assert!(early.notes[0].contains("still runs"), "{early:?}");
    assert_eq!(look(), under);
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    let recovered = journal::recover(&host, &path, &|_| None).unwrap();
    assert_eq!((recovered.restored.len(), recovered.left.len()), (1, 0), "{recovered:?}");
    assert!(!std::path::Path::new(&path).exists());
    [under, look()]
}

fn what_a_killed_process_left_is_put_back() {
    let host = Host::real();
    let sleeper = Sleeper::start();
    let pid = sleeper.0.id();
    let policy = || host.scheduling(pid).unwrap().policy.to_string();
    let both = [Scheduling::BATCH, Scheduling::OTHER].map(|policy| policy.to_string());
    assert_eq!(killed_after(pid, "sched-policy", "batch", &policy), both);
}

fn what_a_killed_process_left_in_a_control_group_is_put_back() {
    let host = Host::real();
    let Some(group) = Group::make(&host, "killed") else {
        ignore("no control group can be made here");
    };
    let pid = group.sleeper.0.id();
    let context = KnobContext { host: &host, postgres: None, pids: vec![pid] };
    need(&context, "cgroup-cpu-max");
    let (knob, _) = find("cgroup-cpu-max").unwrap();
    let limit = || knob.read(&context, "").unwrap().to_string();
    assert_eq!(killed_after(pid, "cgroup-cpu-max", "0.75", &limit), ["0.75", "max"]);
}

fn what_a_killed_process_held_is_gone_with_it() {
    let host = Host::real();
    let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
    need(&context, "cpu-dma-latency");
    let (knob, _) = find("cpu-dma-latency").unwrap();
    let latency = || knob.read(&context, "").unwrap().to_string();
    let before = latency();
    if before.parse::<i64>().unwrap() < 77_000 {
        ignore(format!("another process holds {before} ns: nothing longer can be held"));
    }
    assert_eq!(killed_after(std::process::id(), "cpu-dma-latency", "77000", &latency), ["77000".to_owned(), before]);
}

fn the_cpus_of_a_child_are_set_and_put_back() {
    let host = Host::real();
    let sleeper = Sleeper::start();
    let context = KnobContext { host: &host, postgres: None, pids: vec![sleeper.0.id()] };
    need(&context, "affinity");
    let cpus = host.affinity(sleeper.0.id()).unwrap();
    let [.., last] = cpus[..] else { panic!("it may run somewhere") };
    if cpus.len() == 1 {
        ignore("there is one CPU and nothing to choose");
    }
    there_and_back(&context, "affinity", &Value::Text(last.to_string()));
    let (knob, _) = find("affinity").unwrap();
    let beyond = knob.write(&context, "", &Value::Text("0-65000".to_owned())).unwrap_err();
    assert!(beyond.why.contains("offline CPUs"), "{beyond}");
    assert_eq!(host.affinity(sleeper.0.id()).unwrap(), cpus);
}

fn a_wakeup_latency_is_held_and_let_go() {
    let host = Host::real();
    let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
    need(&context, "cpu-dma-latency");
    let (knob, _) = find("cpu-dma-latency").unwrap();
    let Value::Integer(now) = knob.read(&context, "").unwrap() else { panic!("it is a time") };
    if now == 0 {
        ignore("another process holds 0 already: nothing shorter can be held");
    }
    there_and_back(&context, "cpu-dma-latency", &Value::Integer((now / 2).min(40_000) / 1000 * 1000));
}

fn interrupts_are_moved_and_put_back() {
    let host = Host::real();
    let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
    need(&context, "irq-affinity");
    let online = holdup_host::cpu_list(&host.read_value("/sys/devices/system/cpu/online").unwrap()).unwrap();
    let lists: BTreeMap<String, String> = interrupts(&host);
    match online[..] {
        [.., last] if online.len() > 1 => there_and_back(&context, "irq-affinity", &Value::Text(last.to_string())),
        _ => ignore("there is one CPU and nothing to choose"),
    }
    assert_eq!(interrupts(&host), lists);
}

/// The CPUs of each interrupt.
fn interrupts(host: &Host) -> BTreeMap<String, String> {
    let numbers = host.list("/proc/irq").unwrap().into_iter().filter(|name| name.parse::<u32>().is_ok());
    let lists = numbers.map(|irq| (host.read_value(&format!("/proc/irq/{irq}/smp_affinity_list")).unwrap(), irq));
    lists.map(|(list, irq)| (irq, list)).collect()
}

/// A control group of the test's own, with a sleeper in it.
struct Group {
    folder: String,
    sleeper: Sleeper,
}

impl Group {
    /// Below the group that the tests run in, wherever the cpu controller is; `None` where that is not permitted.
    fn make(host: &Host, name: &str) -> Option<Group> {
        let parent = holdup_host::cgroup::cpu_group(host, std::process::id()).ok()??.folder;
        let folder = format!("{}/holdup-test-{name}-{}", parent.trim_end_matches('/'), std::process::id());
        std::fs::create_dir(&folder).ok()?;
        let sleeper = Sleeper::start();
        match std::fs::write(format!("{folder}/cgroup.procs"), sleeper.0.id().to_string()) {
            Ok(()) => Some(Group { folder, sleeper }),
            Err(_) => {
                let _removed = std::fs::remove_dir(&folder);
                None
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ended = self.sleeper.0.kill().and_then(|()| self.sleeper.0.wait());
        let _removed = std::fs::remove_dir(&self.folder);
    }
}

fn a_control_group_that_was_removed_needs_nothing_put_back() {
    let host = Host::real();
    let Some(group) = Group::make(&host, "gone") else {
        ignore("no control group can be made here");
    };
    let context = KnobContext { host: &host, postgres: None, pids: vec![group.sleeper.0.id()] };
    need(&context, "cgroup-cpu-weight");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.json").to_string_lossy().into_owned();
    let mut journal = Journal::open(host.clone(), &path, 0).unwrap();
    journal.apply(&context, "cgroup-cpu-weight", &Value::Integer(250)).unwrap();
    // What is kept is enough for the shell.
    let command = journal.pending()[0].command.clone();
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success(), "{command}");
    assert_eq!(find("cgroup-cpu-weight").unwrap().0.read(&context, "").unwrap(), Value::Integer(100), "{command}");
    let gone = group.folder.clone();
    drop(group);
    assert!(!std::path::Path::new(&gone).exists());
    let restored = journal.restore_all(&context);
    assert_eq!((restored.left.len(), restored.restored.len(), restored.dropped.len()), (0, 0, 1));
}

holdup_testkit::tests!(
    alone:
    huge_pages_are_reserved_and_given_back,
    every_other_knob_is_set_and_put_back,
    the_policy_of_a_child_is_set_and_put_back,
    the_slice_of_a_child_is_set_and_the_default_one_put_back,
    a_child_that_is_born_under_a_level_gets_its_parents_own_back,
    what_a_killed_process_left_is_put_back,
    what_a_killed_process_left_in_a_control_group_is_put_back,
    what_a_killed_process_held_is_gone_with_it,
    the_cpus_of_a_child_are_set_and_put_back,
    a_wakeup_latency_is_held_and_let_go,
    interrupts_are_moved_and_put_back,
    a_control_group_that_was_removed_needs_nothing_put_back;
    by_hand:
    sets_a_factor_and_waits_to_be_killed
);
