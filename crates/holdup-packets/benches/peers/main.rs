//! Programs that analyse captures, on the same files in one interleaved run.
//!
//! `cargo bench -p holdup-packets --bench peers -- --holdup PATH [--tshark PATH] [--tcptrace PATH] [--runs N] [--only NAME]
//! [--capture FILE]` makes the captures, runs every program on every one, on one CPU and in turn, and prints medians, and ratios
//! to `holdup packets`. tshark has every protocol switched off but those that TCP needs, which is its fastest.
#![expect(clippy::print_stdout, reason = "a bench prints its result")]

mod captures;

#[path = "../../tests/made/mod.rs"]
mod made;

use holdup_packets::analyse::{Options, analyse};
use holdup_packets::capture::{Chain, Reader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

#[derive(Default)]
struct Arguments {
    programs: Vec<Program>,
    runs: usize,
    only: Option<String>,
    captures: Vec<PathBuf>,
}

/// A program and how it is called; the capture comes last.
struct Program {
    name: &'static str,
    words: Vec<String>,
    /// The CPUs that it may use.
    cpus: &'static str,
}

impl Program {
    fn new(name: &'static str, path: &str, words: &[&str], cpus: &'static str) -> Self {
        let words = std::iter::once(path).chain(words.iter().copied()).map(str::to_owned).collect();
        Program { name, words, cpus }
    }

    /// How long it takes, s, and how much memory at the most, bytes.
    fn run(&self, captures: &[&Path]) -> (f64, u64) {
        let begin = Instant::now();
        let mut command = Command::new("taskset");
        command.args(["-c", self.cpus]).args(&self.words).args(captures).stdout(Stdio::null()).stderr(Stdio::null());
        #[expect(clippy::zombie_processes, reason = "wait4 waits for it and returns its memory as well")]
        let child = command.spawn().expect("taskset starts");
        let (status, most_bytes) = wait(child.id());
        // A comparison ends with 3 where nothing can be said.
        assert!([0, 3 << 8].contains(&status), "{} failed on {captures:?}: {status}", self.name);
        (begin.elapsed().as_secs_f64(), most_bytes)
    }
}

/// Waits for a child: its status, and the most memory that it had.
fn wait(pid: u32) -> (i32, u64) {
    let mut status = 0;
    // SAFETY: a C structure of numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both live through the call; the child is ours and only waited for here.
    let waited = unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, 0, &raw mut usage) };
    assert_eq!(waited, pid as libc::pid_t, "wait4");
    (status, usage.ru_maxrss as u64 * 1024)
}

fn arguments() -> Arguments {
    let mut read = Arguments { runs: 5, ..Arguments::default() };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} wants a value"));
        let tshark = ["-q", "-z", "expert", "--disable-all-protocols"];
        let needed = ["eth", "ip", "ipv6", "tcp", "ethertype"].map(|name| ["--enable-protocol", name]);
        match word.as_str() {
            "--holdup" => {
                read.programs.push(Program::new("holdup", &value, &["packets", "--threads", "1"], "0"));
                read.programs.push(Program::new("holdup-2", &value, &["packets", "--threads", "2"], "0,1"));
            }
            "--tshark" => {
                let words = [&tshark[..], needed.as_flattened(), &["-r"]].concat();
                read.programs.push(Program::new("tshark", &value, &words, "0"));
            }
            "--tcptrace" => read.programs.push(Program::new("tcptrace", &value, &["-n", "-l", "-r"], "0")),
            "--runs" => read.runs = value.parse().expect("a number"),
            "--only" => read.only = Some(value),
            "--capture" => read.captures.push(value.into()),
            _ => panic!("{word}: it is --holdup, --tshark, --tcptrace, --runs, --only or --capture"),
        }
    }
    read.programs.push(Program::new("cat", "cat", &[], "0"));
    read
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs all programs on a capture, in turn, beginning with another one each time.
fn compare(arguments: &Arguments, name: &str, capture: &Path, frames: Option<u32>) {
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut memory: BTreeMap<&str, u64> = BTreeMap::new();
    for run in 0..arguments.runs {
        for place in 0..arguments.programs.len() {
            let program = &arguments.programs[(place + run) % arguments.programs.len()];
            let (s, bytes) = program.run(&[capture]);
            times.entry(program.name).or_default().push(s);
            let most = memory.entry(program.name).or_default();
            *most = bytes.max(*most);
        }
    }
    let medians: BTreeMap<&str, f64> = times.iter_mut().map(|(name, times)| (*name, median(times))).collect();
    let of = medians.get("holdup").copied().unwrap_or(f64::NAN);
    if arguments.programs.len() == 1 {
        alone(capture, arguments.runs);
    }
    let bytes = std::fs::metadata(capture).map_or(0, |m| m.len());
    println!("{name}: {} MB, {} frames", bytes / 1_000_000, frames.map_or("?".to_owned(), |n| n.to_string()));
    for program in &arguments.programs {
        let (s, mib) = (medians[program.name], memory[program.name] as f64 / f64::from(1 << 20));
        println!("  {:<9} {s:>8.3} s  {:>7.2} of holdup's time  {mib:>7.1} MiB", program.name, s / of);
    }
}

/// A capture compared with a copy of itself, by one thread and by two.
fn side_by_side(arguments: &Arguments, capture: &Path) {
    let copy = capture.with_extension("copy");
    std::fs::copy(capture, &copy).expect("there is room for a copy");
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..arguments.runs {
        for program in arguments.programs.iter().filter(|program| program.name.starts_with("holdup")) {
            times.entry(program.name).or_default().push(program.run(&[capture, &copy]).0);
        }
    }
    std::fs::remove_file(&copy).expect("the copy goes");
    if let [one, two] = times.values_mut().map(|times| median(times)).collect::<Vec<_>>()[..] {
        println!("  with a copy: {one:.3} s, {:.2} times as fast with two threads", one / two);
    }
}

/// Without any program: the library alone, in this process, with one thread and with two.
fn alone(capture: &Path, runs: usize) {
    let open = || std::fs::File::open(capture).expect("the capture can be read");
    let mut times = [Vec::new(), Vec::new()];
    let mut segments = 0;
    for run in 0..2 * runs {
        let begin = Instant::now();
        let analysis = if run % 2 == 0 {
            analyse(&mut Chain::one(Reader::new(open()).expect("a capture")), &Options::default())
        } else {
            let options = Options { threads: 2, ..Options::default() };
            analyse(&mut Chain::one(Reader::new(open()).expect("a capture")), &options)
        };
        segments = analysis.expect("a whole capture").analysis.segments;
        times[run % 2].push(begin.elapsed().as_secs_f64());
    }
    let [one, two] = times.each_mut().map(|times| median(times));
    println!(
        "  in this process: {one:.3} s, {:.1} ns for a segment; {:.2} times as fast with two threads",
        one * 1e9 / segments as f64,
        one / two
    );
}

fn main() {
    let arguments = arguments();
    let folder = tempfile::tempdir().expect("a folder");
    let is_wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    for capture in captures::ALL.iter().filter(|c| is_wanted(c.name) && arguments.captures.is_empty()) {
        let path = folder.path().join(capture.name);
        let frames = capture.write(&path);
        compare(&arguments, capture.name, &path, Some(frames));
        side_by_side(&arguments, &path);
        std::fs::remove_file(&path).expect("the capture goes");
    }
    for path in &arguments.captures {
        compare(&arguments, &path.display().to_string(), path, None);
    }
}
