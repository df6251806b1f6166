//! What is counted of a trace, against what the tool that wrote it says of the same file.

use crate::common;
use common::{by_task, followed};
use holdup_testkit::ignore;
use holdup_traces::account::{Selection, TaskTally};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A load that sleeps, wakes others and waits for CPUs.
const LOAD: [&str; 8] = ["perf", "bench", "sched", "messaging", "-g", "2", "-l", "60"];

fn needs(program: &str) {
    if !holdup_testkit::is_root() {
        ignore("tracepoints need root");
    }
    if Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        ignore(format!("{program} is not here"));
    }
}

fn output(command: &mut Command) -> String {
    let done = command.stdin(Stdio::null()).output().expect("it can be started");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn record(place: &TempDir, name: &str, before: &[&str]) -> PathBuf {
    let file = place.path().join(name);
    let mut command = Command::new(before[0]);
    output(command.args(&before[1..]).arg("-o").arg(&file).args(["--"]).args(LOAD).current_dir(place.path()));
    file
}

/// What the lines of a tool say of one task.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    left: u64,
    woken: u64,
    waits: u64,
    waits_ns: u64,
    /// Waits from a wake-up while the task could run already: those begin when it left its CPU.
    again_ns: u64,
    /// The wait before a time on a CPU that has not ended: timehist prints a line when it ends.
    open_ns: u64,
    /// A switch is missing where it came or left.
    is_hidden: bool,
    has_begun: bool,
    has_ended: bool,
}

/// A task as the lines have left it.
#[derive(Default)]
struct At {
    is_on: bool,
    off: Option<(bool, u64)>,
    woken_ns: Option<u64>,
    woken_again_ns: Option<u64>,
}

/// A line: when, on which CPU, the event, its fields.
type Line = (u64, u32, String, String);

/// Counts switches, wake-ups and waits in lines. Of a task whose switch is missing nothing is known until it is seen again: some
/// hosts hide tasks from tracers.
fn said(lines: impl Iterator<Item = Line>, wake: &str) -> BTreeMap<u32, Said> {
    let mut said: BTreeMap<u32, Said> = BTreeMap::new();
    let mut current: BTreeMap<u32, u32> = BTreeMap::new();
    let mut tasks: BTreeMap<u32, At> = BTreeMap::new();
    let number = |fields: &str, key: &str| -> u32 {
        let rest = fields.rsplit_once(key).unwrap_or_else(|| panic!("{key} in {fields}")).1;
        rest.split_ascii_whitespace().next().unwrap().parse().unwrap()
    };
    for (now, cpu, event, fields) in lines {
        if event == "sched_switch" {
            let (from, to) = fields.split_once(" ==> ").unwrap();
            let (out, into) = (number(from, "prev_pid="), number(to, "next_pid="));
            let state = from.rsplit_once("prev_state=").unwrap().1;
            if let Some(hidden) = current.insert(cpu, into).filter(|known| *known != out) {
                if tasks.get(&hidden).is_some_and(|task| task.is_on) {
                    tasks.remove(&hidden);
                }
                for tid in [hidden, out] {
                    said.entry(tid).or_default().is_hidden = true;
                }
            }
            if out != 0 {
                let of = said.entry(out).or_default();
                (of.left, of.open_ns) = (of.left + 1, 0);
                *tasks.entry(out).or_default() = At { off: Some((state.starts_with('R'), now)), ..At::default() };
                if state.starts_with(['X', 'Z']) {
                    said.entry(out).or_default().has_ended = true;
                    tasks.remove(&out);
                }
            }
            if into != 0 {
                let (task, of) = (tasks.entry(into).or_default(), said.entry(into).or_default());
                // It left another CPU when that was not recorded any more.
                of.is_hidden |= task.is_on;
                of.open_ns = task.woken_ns.or(task.woken_again_ns).map_or(0, |woken_ns| now - woken_ns);
                if let Some(woken_ns) = task.woken_ns.take() {
                    of.waits += 1;
                    of.waits_ns += now - woken_ns;
                }
                of.again_ns += task.woken_again_ns.take().map_or(0, |woken_ns| now - woken_ns);
                *task = At { is_on: true, ..At::default() };
            }
        } else if event == wake || event == "sched_wakeup_new" {
            let tid = number(&fields, " pid=");
            let of = said.entry(tid).or_default();
            of.woken += 1;
            of.has_begun |= event == "sched_wakeup_new";
            let task = tasks.entry(tid).or_default();
            match task.off {
                Some((true, _)) => task.woken_again_ns = task.woken_again_ns.or(Some(now)),
                Some((false, _)) => task.woken_ns = task.woken_ns.or(Some(now)),
                // It was not seen yet.
                None if !task.is_on => task.woken_ns = task.woken_ns.or(Some(now)),
                None => {}
            }
        }
    }
    said
}

fn check(tallies: &BTreeMap<u32, TaskTally>, said: &BTreeMap<u32, Said>) {
    for (tid, expect) in said.iter().filter(|(tid, said)| **tid != 0 && said.left > 0) {
        let tally = tallies.get(tid).unwrap_or_else(|| panic!("task {tid} is not there: {expect:?}"));
        let woken = tally.begun + if tally.woken > 0 { tally.woken } else { tally.waking };
        assert_eq!((tally.left, woken), (expect.left, expect.woken), "task {tid}");
    }
    assert_eq!(tallies.values().map(|t| t.left).sum::<u64>(), said.values().map(|s| s.left).sum::<u64>());
}

fn nanoseconds(text: &str) -> u64 {
    let (whole, fraction) = text.split_once('.').unwrap();
    whole.parse::<u64>().unwrap() * 1_000_000_000 + format!("{fraction:0<9}").parse::<u64>().unwrap()
}

/// The last word of what stands before an event.
fn time_of(head: &str) -> u64 {
    nanoseconds(head.split_ascii_whitespace().next_back().unwrap())
}

/// The last number in brackets.
fn cpu_of(head: &str) -> u32 {
    head.rsplit_once('[').unwrap().1.split(']').next().unwrap().parse().unwrap()
}

fn script(file: &Path) -> String {
    output(Command::new("perf").args(["script", "--ns", "-F", "comm,tid,cpu,time,event,trace", "-i"]).arg(file))
}

/// The lines of `perf script`.
fn of_script(text: &str) -> impl Iterator<Item = Line> + '_ {
    text.lines().filter_map(|line| {
        let (head, rest) = line.split_once(" sched:")?;
        let head = head.trim_end().trim_end_matches(':');
        let (event, fields) = rest.split_once(':')?;
        Some((time_of(head), cpu_of(head), event.to_owned(), fields.trim().to_owned()))
    })
}

fn perf_data_agrees_with_perf_script() {
    needs("perf");
    let place = TempDir::new().unwrap();
    let file = record(&place, "perf.data", &["perf", "sched", "record"]);
    let bytes = std::fs::read(&file).unwrap();
    let (head, finished) = followed(&bytes, Selection::default()).unwrap();
    assert_eq!(head.format, "perf.data");
    let (tallies, text) = (by_task(&finished), script(&file));
    let said = said(of_script(&text), "sched_waking");
    check(&tallies, &said);
    for (tid, said) in said.iter().filter(|(tid, _)| **tid != 0) {
        let tally = tallies.get(tid).cloned().unwrap_or_default();
        assert_eq!((tally.woken_waits, tally.woken_waits_ns), (said.waits, said.waits_ns), "task {tid}");
    }
}

/// Senders and receivers that begin before the record and end after it: of tasks that begin and end perf forgets waits and names.
struct Running(std::process::Child);

impl Running {
    fn begin() -> Self {
        let mut load = Command::new("perf");
        load.args(["bench", "sched", "messaging", "-g", "1", "-l", "1000000"]).process_group(0);
        let load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("perf bench starts");
        let task = Path::new("/proc").join(load.id().to_string()).join("task");
        let group = load.id();
        let running = Running(load);
        // It is under way when all of its processes are there.
        while members(group) < 41 {
            assert!(task.exists(), "the load has ended");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        running
    }
}

/// How many processes a group has.
fn members(group: u32) -> usize {
    let stat =
        |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok();
    let of_group = |stat: &String| {
        let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
        behind.split_ascii_whitespace().nth(2) == Some(group.to_string().as_str())
    };
    std::fs::read_dir("/proc").unwrap().filter_map(stat).filter(of_group).count()
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ended = self.0.wait();
    }
}

fn perf_data_agrees_with_timehist() {
    needs("perf");
    let place = TempDir::new().unwrap();
    let file = place.path().join("perf.data");
    let load = Running::begin();
    output(Command::new("perf").args(["sched", "record", "-m", "4096", "-o"]).arg(&file).args(["--", "sleep", "0.3"]));
    drop(load);
    let (_, finished) = followed(&std::fs::read(&file).unwrap(), Selection::default()).unwrap();
    timehist_agrees(&file, &by_task(&finished), &said(of_script(&script(&file)), "sched_waking"));
}

/// `perf sched timehist` cuts each time to whole microseconds.
fn timehist_agrees(file: &Path, tallies: &BTreeMap<u32, TaskTally>, said: &BTreeMap<u32, Said>) {
    let text = output(Command::new("perf").args(["sched", "timehist", "-i"]).arg(file));
    let mut sums: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next().is_none_or(|time| time.parse::<f64>().is_err()) {
            continue;
        }
        let numbers: Vec<u64> = line.split_ascii_whitespace().rev().take(3).map(|ms| nanoseconds(ms) / 1000).collect();
        // `NAME[TID/PID]`, or `:TID` of one whose name is not known.
        let Some((_, behind)) = line.split_once(']').and_then(|(_, rest)| rest.rsplit_once(['[', ':'])) else {
            continue;
        };
        let Ok(tid) = behind.split([']', '/', ' ']).next().unwrap().parse() else { continue };
        let sum = sums.entry(tid).or_default();
        // Milliseconds were read as seconds.
        *sum = (sum.0 + 1, sum.1 + numbers[0], sum.2 + numbers[1]);
    }
    let (mut compared, mut hidden, mut short) = (0, 0, 0);
    for (tid, (lines, ran_ns, waited_ns)) in sums {
        let (tally, said) = (&tallies[&tid], &said[&tid]);
        if said.is_hidden || said.has_ended || said.has_begun {
            (hidden, short) = (hidden + u32::from(said.is_hidden), short + u32::from(!said.is_hidden));
            continue;
        }
        let cut = |whole_ns: u64, shown_ns: u64| (0..=lines * 1000).contains(&(whole_ns.wrapping_sub(shown_ns)));
        assert_eq!(tally.left, lines, "task {tid}");
        assert!(cut(tally.runs_ns, ran_ns), "task {tid} ran for {} ns, and {ran_ns} ns by timehist", tally.runs_ns);
        let own_ns = tally.woken_waits_ns + said.again_ns - said.open_ns;
        assert!(cut(own_ns, waited_ns), "task {tid} waited for {own_ns} ns, and {waited_ns} ns by timehist");
        compared += 1;
    }
    // The senders and receivers of the load.
    assert!(compared >= 20, "{compared} tasks; {hidden} with a switch that is missing, {short} that began or ended");
}

fn text_of_perf_script_says_the_same_as_its_file() {
    needs("perf");
    let place = TempDir::new().unwrap();
    let file = record(&place, "perf.data", &["perf", "sched", "record"]);
    let (_, of_file) = followed(&std::fs::read(&file).unwrap(), Selection::default()).unwrap();
    let (head, of_text) = followed(&script(&file).into_bytes(), Selection::default()).unwrap();
    assert_eq!(head.notes, Vec::<String>::new());
    let (of_file, of_text) = (by_task(&of_file), by_task(&of_text));
    assert_eq!(of_file.len(), of_text.len());
    for (tid, tally) in of_file {
        assert_eq!(format!("{tally:?}"), format!("{:?}", of_text[&tid]), "task {tid}");
    }
}

fn text_of_timehist_says_nearly_the_same_as_its_file() {
    needs("perf");
    let place = TempDir::new().unwrap();
    let file = record(&place, "perf.data", &["perf", "sched", "record"]);
    let said = said(of_script(&script(&file)), "sched_waking");
    let text = output(Command::new("perf").args(["sched", "timehist", "--state", "-i"]).arg(&file));
    let (head, finished) = followed(&text.into_bytes(), Selection::default()).unwrap();
    assert_eq!(head.format, "timehist");
    let tallies = by_task(&finished);
    let of_file = by_task(&followed(&std::fs::read(&file).unwrap(), Selection::default()).unwrap().1);
    let mut compared = 0;
    for tid in said.iter().filter(|(_, s)| !s.is_hidden && !s.has_ended && s.left > 2).map(|(tid, _)| tid) {
        let (text, file) = (&tallies[tid], &of_file[tid]);
        assert_eq!((text.left, text.preempted), (file.left, file.preempted), "task {tid}");
        // Its times are cut to microseconds, two for each switch.
        let most_ns = 4000 * (file.left + 1);
        assert!(text.runs_ns.abs_diff(file.runs_ns) <= most_ns, "task {tid}: {text:?} {file:?}");
        compared += 1;
    }
    assert!(compared > 0);
}

fn stacks_of_samples_are_kept_and_sampled_tracepoints_refused() {
    needs("perf");
    let place = TempDir::new().unwrap();
    let events = "sched:sched_switch,sched:sched_waking,cpu-clock/period=2000000/";
    let file = record(&place, "stacks.data", &["perf", "record", "-q", "-a", "-g", "-m", "1024", "-e", events]);
    let samples = |bytes: &Vec<u8>| {
        let (_, finished) = followed(bytes, Selection::default()).unwrap();
        let profiles = finished.evidence.into_iter().flatten().flat_map(|collected| collected.stacks);
        let all: Vec<(u64, u64, bool)> = profiles
            .flat_map(|profile| {
                let is_deep = |stack: &holdup_model::stacks::Stack| stack.frames.len() > 3;
                profile.stacks.iter().map(|s| (s.weight, profile.period_ns, is_deep(s))).collect::<Vec<_>>()
            })
            .collect();
        assert!(all.iter().any(|(_, _, is_deep)| *is_deep), "{all:?}");
        assert!(all.iter().all(|(_, period_ns, _)| *period_ns == all[0].1), "{all:?}");
        all.iter().map(|(weight, _, _)| weight).sum::<u64>()
    };
    let of_file = samples(&std::fs::read(&file).unwrap());
    let text = output(Command::new("perf").args(["script", "--ns", "-i"]).arg(&file));
    assert_eq!(of_file, samples(&text.into_bytes()));
    let sampled =
        record(&place, "sampled.data", &["perf", "record", "-q", "-a", "-F", "99", "-e", "sched:sched_switch"]);
    let Err(problem) = followed(&std::fs::read(sampled).unwrap(), Selection::default()) else { panic!("it was read") };
    assert!(problem.why.contains("sampled") && problem.hint.is_some(), "{problem}");
}

fn compressed_and_piped_records_are_read() {
    needs("perf");
    let place = TempDir::new().unwrap();
    let events = "sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new";
    let packed = record(&place, "packed.data", &["perf", "record", "-z", "-q", "-a", "-m", "1024", "-e", events]);
    let piped = place.path().join("piped.data");
    let command = format!("perf record -q -a -m 1024 -e {events} -o - -- {} > {}", LOAD.join(" "), piped.display());
    output(Command::new("sh").args(["-c", &format!("{command}; exit 0")]));
    for file in [packed, piped] {
        let (_, finished) = followed(&std::fs::read(&file).unwrap(), Selection::default()).unwrap();
        check(&by_task(&finished), &said(of_script(&script(&file)), "sched_waking"));
    }
}

/// Runs trace-cmd in a mount namespace: where the kernel is locked down, it ends at files of the function tracer, which it clears
/// although it was not asked for functions. An empty file stands in their place, and in that of the kernel's symbols, whose
/// length changes while it reads them.
const WITHOUT_FUNCTIONS: &str = "\
for file in set_ftrace_pid set_ftrace_filter set_ftrace_notrace set_ftrace_notrace_pid set_graph_function set_graph_notrace; do
    file=/sys/kernel/tracing/$file
    if [ -e $file ]; then mount --bind empty $file || exit 1; fi
done
mount --bind empty /proc/sys/kernel/ftrace_enabled && mount --bind empty /proc/kallsyms && exec \"$@\"";

/// trace-cmd leaves tracing switched off.
struct Tracing(Vec<u8>);

const TRACING_ON: &str = "/sys/kernel/tracing/tracing_on";

impl Tracing {
    fn now() -> Self {
        Tracing(std::fs::read(TRACING_ON).unwrap_or_else(|e| ignore(format!("{TRACING_ON}: {e}"))))
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        std::fs::write(TRACING_ON, &self.0).expect("it can be switched back");
    }
}

fn trace_dat_agrees_with_trace_cmd_report() {
    needs("trace-cmd");
    needs("perf");
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join("empty"), "").unwrap();
    let _tracing = Tracing::now();
    let events = ["sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task"];
    for (version, compression) in [("6", None), ("7", Some("none")), ("7", Some("zstd"))] {
        let file = place.path().join("trace.dat");
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", WITHOUT_FUNCTIONS, "sh"]);
        command.args(["trace-cmd", "record", "-q", "-b", "8192", "--file-version", version]);
        command.args(compression.iter().flat_map(|how| ["--compression", *how]));
        command.args(events.iter().flat_map(|event| ["-e", *event]));
        output(command.arg("-o").arg(&file).args(LOAD).current_dir(place.path()));
        let bytes = std::fs::read(&file).unwrap();
        let (head, finished) = followed(&bytes, Selection::default()).unwrap();
        assert_eq!(head.format, format!("trace.dat {version}"));
        let text = output(Command::new("trace-cmd").args(["report", "-t", "-R", "-i"]).arg(&file));
        let lines = text.lines().filter_map(|line| {
            let (head, rest) = line.split_once(": sched_")?;
            let (event, fields) = rest.split_once(':')?;
            Some((time_of(head), cpu_of(head), format!("sched_{event}"), raw(event, fields)))
        });
        let said = said(lines, "sched_wakeup");
        let tallies = by_task(&finished);
        check(&tallies, &said);
        for (tid, said) in said.iter().filter(|(tid, _)| **tid != 0) {
            let tally = tallies.get(tid).cloned().unwrap_or_default();
            assert_eq!((tally.woken_waits, tally.woken_waits_ns), (said.waits, said.waits_ns), "task {tid}");
        }
    }
}

/// Raw fields of `trace-cmd report -R`, whose states are numbers, as the kernel prints them.
fn raw(event: &str, fields: &str) -> String {
    let number = |key: &str| -> u64 {
        let word = fields
            .rsplit_once(key)
            .unwrap_or_else(|| panic!("{key} in {fields}"))
            .1
            .split_ascii_whitespace()
            .next()
            .unwrap();
        word.strip_prefix("0x").map_or_else(|| word.parse().unwrap(), |hex| u64::from_str_radix(hex, 16).unwrap())
    };
    if event != "switch" {
        return format!("comm=x pid={} prio=1", number(" pid="));
    }
    let state = match number("prev_state=") {
        state if state & 0x30 != 0 => "X",
        state if state & 0xff != 0 => "S",
        _ => "R",
    };
    format!("prev_pid={} prev_state={state} ==> next_pid={} ", number("prev_pid="), number("next_pid="))
}

holdup_testkit::tests!(
    truth:
    perf_data_agrees_with_perf_script,
    perf_data_agrees_with_timehist,
    text_of_perf_script_says_the_same_as_its_file,
    text_of_timehist_says_nearly_the_same_as_its_file,
    stacks_of_samples_are_kept_and_sampled_tracepoints_refused,
    compressed_and_piped_records_are_read,
    trace_dat_agrees_with_trace_cmd_report
);
