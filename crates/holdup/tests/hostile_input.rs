//! Files that are none, damaged or made to be large, names and texts that command a terminal, and outputs to places that someone else
//! chose.

use crate::common;
use crate::dice::Dice;
use crate::made::{Pcap, Tcp, link};
use common::{Sandbox, long, peak_bytes, texts};
use holdup_model::BundleData;
use holdup_packets::segment::{ACK, Address, Endpoint, SYN};
use holdup_testkit::ignore;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{Read as _, Seek as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A name that would clear the screen, reorder its line and fake a hint.
const EVIL: &str = "e\u{1b}[2J\u{202e}\u{9b}1m\nhint: run this.toml";

/// Every command that takes a file, with `FILE` where the file goes.
const READS: &[&[&str]] = &[
    &["report", "FILE"],
    &["report", "FILE", "--json"],
    &["explain", "FILE"],
    &["compare", "FILE"],
    &["compare", "FILE", "FILE"],
    &["export", "FILE"],
    &["export", "FILE", "--format", "csv"],
    &["export", "profile", "FILE", "--format", "systemd"],
    &["verify", "FILE"],
    &["list", "arms", "FILE"],
    &["list", "trials", "FILE"],
    &["list", "logs", "FILE"],
    &["packets", "FILE"],
    &["packets", "FILE", "FILE2"],
    &["import", "pcap", "FILE", "--out", "new.holdup"],
    &["apply", "FILE"],
    &["apply", "FILE", "--dry-run"],
    &["run", "FILE"],
    &["run", "FILE", "--dry-run"],
    &["predict", "FILE"],
    &["run", "lock-contention", "--target", "sim:./FILE", "--dry-run"],
];

/// Bounds of a command that reads any file: resident bytes, and seconds of CPU time.
const MOST_BYTES: u64 = 512 << 20;
const MOST_CPU_S: f64 = 10.0;

/// Resources that a command took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TakenResources {
    pub(crate) bytes: u64,
    pub(crate) cpu_s: f64,
}

/// Runs with an end: what hangs for a minute or takes too much is killed, so that it ends by a signal.
fn bounded(command: Command) -> Output {
    measured(command).0
}

pub(crate) fn measured(mut command: Command) -> (Output, TakenResources) {
    // A pipe without a reader would stop the command.
    let mut files = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    let [out, err] = files.each_ref().map(|file| file.try_clone().expect("a file"));
    let mut child = command.stdout(out).stderr(err).spawn().expect("the binary starts");
    let (begun, mut taken, per_s) =
        (Instant::now(), TakenResources::default(), rustix::param::clock_ticks_per_second() as f64);
    let status = loop {
        taken.bytes = taken.bytes.max(peak_bytes(&child));
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        // proc_pid_stat(5): utime and stime, the 12th and 13th after the name.
        let ticks = stat.rsplit(") ").next().into_iter().flat_map(|rest| rest.split(' ').skip(11).take(2));
        taken.cpu_s = ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / per_s;
        if let Some(status) = child.try_wait().expect("is our child") {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(60) || taken.bytes > MOST_BYTES || taken.cpu_s > MOST_CPU_S {
            child.kill().expect("is our child");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let [stdout, stderr] = files.each_mut().map(|file| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("is read");
        bytes
    });
    (Output { status, stdout, stderr }, taken)
}

fn is_harmless(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c != '\n' && (c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')))
}

#[track_caller]
fn refused(output: &Output, context: &str) {
    let (out, err) = texts(output);
    assert!(matches!(output.status.code(), Some(2 | 3)), "{context}: {:?}\n{err}", output.status);
    let error = err.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{context}: {err:?}"));
    assert!(error["error: ".len()..].contains(": "), "{context}: no `what: why` in {error:?}");
    assert!(is_harmless(&out) && is_harmless(&err), "{context}: {out:?} {err:?}");
    assert!(
        !err.contains("panicked") && !err.lines().any(|line| line.starts_with("hint: run this")),
        "{context}: {err}"
    );
    assert!(err.lines().any(|line| line.starts_with("hint: ") || line.starts_with("  hint: ")), "{context}: {err}");
}

fn what_is_no_regular_file_ends_every_command_with_a_hint() {
    let place = Sandbox::new();
    mknodat(CWD, place.path("fifo.toml"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    symlink(place.path("fifo.toml"), place.path("link.toml")).expect("a link");
    symlink("/dev/zero", place.path("zero.toml")).expect("a link");
    std::fs::create_dir(place.path("folder.toml")).expect("a folder");
    place.write("empty.toml", "");
    place.write(EVIL, "e\u{1b}[2J = \"\u{202e}\"\n");
    let large = std::fs::File::create(place.path("large.toml")).expect("a file");
    large.set_len(1 << 40).expect("a hole");
    let fifo = place.path("fifo.toml");
    let all = ["fifo.toml", "link.toml", "zero.toml", "folder.toml", "empty.toml", "large.toml", "none.toml", EVIL];
    for args in READS {
        for name in all {
            let args: Vec<String> =
                args.iter().map(|arg| arg.replace("FILE2", "/dev/null").replace("FILE", name)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let mut command = place.holdup(&args);
            // A command that asks for more memory than this fails.
            command.env("HOLDUP_NO_PROGRESS", "1");
            let output = bounded(command);
            // An empty plan file of `list` and `compare` is refused like the others.
            refused(&output, &format!("{args:?}"));
        }
    }
    let output = bounded(place.holdup(&["packets", "fifo.toml"]));
    assert!(texts(&output).1.contains("it is a FIFO, not a regular file\nhint: "), "{:?}", texts(&output));
    assert!(fifo.exists() && !place.path("new.holdup").exists());
}

fn a_name_that_is_not_utf8_is_no_panic() {
    let place = Sandbox::new();
    let name = OsStr::from_bytes(b"a\xff\x1b[2J.holdup");
    for command in ["report", "verify", "packets", "apply", "run"] {
        let mut run = place.holdup(&[command]);
        run.arg(name);
        refused(&bounded(run), command);
    }
}

fn a_command_line_does_not_command_the_terminal() {
    let place = Sandbox::new();
    let output = bounded(place.holdup(&["restore", "a\u{1b}[2J\u{9b}1m\u{202e}"]));
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(is_harmless(&err) && err.contains("\\u009b1m\\u202e"), "{err:?}");
}

fn standard_input_is_read_as_ever() {
    let place = Sandbox::new();
    let output = bounded(place.holdup(&["packets", "-"]));
    refused(&output, "packets -");
    assert!(texts(&output).1.contains("standard input"), "{:?}", texts(&output));
}

/// Every option that writes, with `OUT` where the file goes.
const WRITES: &[&[&str]] = &[
    &["report", "a.holdup", "--html", "OUT"],
    &["report", "a.holdup", "--markdown", "OUT"],
    &["export", "a.holdup", "--format", "csv", "-o", "OUT"],
    &["run", "lock-contention", "--dry-run", "--save-plan", "OUT"],
    &["run", "lock-contention", "--target", "sim:server-8", "--duration", "10ms", "--out", "OUT", "--quiet"],
    &["calibrate", "--out", "OUT"],
];

fn nothing_is_written_through_a_link() {
    let place = Sandbox::new();
    let run = ["run", "lock-contention", "--target", "sim:server-8", "--threads", "2", "--duration", "10ms"];
    place.expect(0, &[&run[..], &["--blocks", "3", "--out", "a.holdup", "--quiet"]].concat());
    place.write("victim", "kept");
    symlink(place.path("victim"), place.path("link")).expect("a link");
    symlink(place.path("absent"), place.path("dangling")).expect("a link");
    mknodat(CWD, place.path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    for args in WRITES {
        for out in ["link", "dangling", "fifo"] {
            let args: Vec<&str> = args.iter().map(|arg| if *arg == "OUT" { out } else { *arg }).collect();
            refused(&bounded(place.holdup(&args)), &format!("{args:?}"));
            assert_eq!(std::fs::read_to_string(place.path("victim")).expect("is there"), "kept", "{args:?}");
            assert!(!place.path("absent").exists(), "{args:?}");
        }
    }
    // A regular file is replaced.
    place.expect(0, &["report", "a.holdup", "--html", "victim"]);
    assert!(std::fs::read_to_string(place.path("victim")).expect("is there").starts_with("<!doctype html>"));
}

fn texts_of_a_plan_do_not_command_the_terminal() {
    let place = Sandbox::new();
    // Plans have no control characters; these are what is left to them.
    let evil = "x\u{202e}\u{200b}";
    let plan = format!(
        "# \u{9b}1m\nname = \"evil\"\nquestion = \"{evil}\"\ntarget = \"sim:server-8\"\n[design]\nblocks = 3\nduration = \"10ms\"\nwarmup = \"0s\"\n\
         [[workload]]\nkind = \"lock-contention\"\nname = \"w\"\nthreads = 2\n"
    );
    place.write("evil.toml", &plan);
    let output = bounded(place.holdup(&["run", "evil.toml", "--out", "evil.holdup"]));
    let shown = |context: &str, output: &Output| {
        let (out, err) = texts(output);
        assert!(is_harmless(&out) && is_harmless(&err), "{context}: {out:?} {err:?}");
        out
    };
    shown("run", &output);
    assert_eq!(output.status.code(), Some(0), "{:?}", texts(&output));
    for args in [&["report", "evil.holdup"][..], &["report", "evil.holdup", "--json"], &["list", "arms", "evil.holdup"]]
    {
        let out = shown(&format!("{args:?}"), &place.output(args));
        if args.contains(&"--json") {
            let document: serde_json::Value = serde_json::from_str(&out).expect("is JSON");
            assert!(document.to_string().contains("x\u{202e}\u{200b}"), "the document has the text as it is");
        }
    }
    // For another program it is what was written, byte for byte.
    assert_eq!(place.expect(0, &["export", "evil.holdup", "--format", "plan"]).0, plan);
}

/// Numbers that readers may not expect.
const EXTREMES: [&str; 12] = [
    "0",
    "-1",
    "1",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e308",
    "5e-324",
    "-0.0",
    "1e30",
    "99999999999999999999999999999999999999",
];

/// A seed that was changed in one place or in several.
pub(crate) fn mutated(seed: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.below(4) * dice.below(3) {
        let at = dice.below(bytes.len() as u32 + 1) as usize;
        let end = (at + 1 + dice.below(2000) as usize).min(bytes.len());
        match dice.below(9) {
            0 if at < end => bytes[at] ^= 1 << dice.below(8),
            1 if at < end => bytes[at] = dice.next() as u8,
            2 if at < end => bytes[at..end.min(at + 8)].fill(dice.pick(&[0, 0x7f, 0x80, 0xff])),
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..end)),
            5 => drop(bytes.splice(at..at, bytes[at..end].repeat(1 + dice.below(50) as usize))),
            6 => drop(bytes.splice(at.., other[(at * other.len()) / (bytes.len() + 1)..].to_vec())),
            7 => {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                let places = [(); 2].map(|()| dice.below(lines.len().max(1) as u32) as usize);
                match lines.get(places[0]).copied() {
                    Some(line) if dice.chance(50) => lines.insert(places[1], line),
                    Some(_) => lines.swap(places[0], places[1]),
                    None => {}
                }
                bytes = lines.concat();
            }
            _ => {
                let is_of_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
                if let Some(first) = bytes[at..].iter().position(u8::is_ascii_digit).map(|n| at + n) {
                    let last =
                        bytes[first..].iter().position(|byte| !is_of_number(byte)).map_or(bytes.len(), |n| first + n);
                    bytes.splice(first..last, dice.pick(&EXTREMES).bytes());
                }
            }
        }
        bytes.truncate(8 << 20);
    }
    bytes
}

/// Replaces one number or text somewhere in a document.
pub(crate) fn replace_one(document: &mut Value, dice: &mut Dice) {
    let below = match document {
        Value::Array(all) => all.iter_mut().collect::<Vec<_>>(),
        Value::Object(all) => all.values_mut().collect(),
        _ => Vec::new(),
    };
    let count = below.len();
    if count > 0 {
        return replace_one(below.into_iter().nth(dice.below(count as u32) as usize).expect("it is one of them"), dice);
    }
    let texts = ["", "\u{1b}[31mred\nerror: no", "../../x", "\u{202e}", "[[["].map(Value::from);
    let numbers = EXTREMES.map(|number| serde_json::from_str(number).unwrap_or(Value::Null));
    let is_text = document.is_string() != dice.chance(10);
    *document = if is_text { texts[dice.below(5) as usize].clone() } else { numbers[dice.below(12) as usize].clone() };
}

/// Readers: where their seeds lie below `crates`, and the commands that read one. `NEW` is a name that is free. Bundles stand here
/// twice, for there are many commands that read them.
const READERS: &[(&str, &str)] = &[
    (
        "holdup-traces/tests/samples",
        "import trace FILE --out NEW; run --replay FILE --target sim --duration 2ms --warmup 0s --blocks 1 -q -o NEW",
    ),
    (
        "holdup-packets/tests/fixtures CAPTURES",
        "packets -q FILE --json; packets -q FILE --engine rfc; packets -q FILE FILE2; import pcap FILE -q --out NEW",
    ),
    ("../plans holdup-plan/tests/valid", "run FILE -n; run FILE -n --target sim"),
    ("../profiles holdup-plan/tests/profiles-good", "apply FILE -n; verify FILE; export profile FILE -f tuned"),
    ("holdup-sim/machines", "run wakeup --target sim:./FILE --duration 2ms --warmup 0s --blocks 1 -q -o NEW"),
    ("holdup-host/tests/trees", "check --root FILE --details; check --root FILE --json"),
    ("STORE", "store list --store .; history lock-contention --store . --json; gate FILE --against ."),
    ("BUNDLES holdup-bundle/tests/fixtures", OF_BUNDLES),
    ("BUNDLES holdup-bundle/tests/fixtures", OF_BUNDLES),
];

const OF_BUNDLES: &str = "verify FILE; report FILE; report FILE --json; report FILE --html NEW; explain FILE --details; \
    compare FILE; list trials FILE; list logs FILE; export FILE -f csv; export FILE -f folded; export FILE -f perfetto -o NEW; \
    export FILE -f svg -o NEW; store push --store kept FILE";

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).flatten();
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    let mut files: Vec<PathBuf> = entries.flat_map(|entry| below(entry.path())).collect();
    files.sort();
    files
}

/// Each reader's seeds, as names and bytes, and its commands.
type ReaderCase = (Vec<(String, Vec<u8>)>, Vec<Vec<String>>);

fn readers(place: &Sandbox) -> Vec<ReaderCase> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["CAPTURES", "STORE", "BUNDLES"] {
        std::fs::create_dir(place.path(name)).expect("a folder");
    }
    let (flow, random) = (connection(400, false), connection(400, true));
    place.write_bytes("CAPTURES/a.pcap", &flow);
    place.write_bytes("CAPTURES/b.pcap", &random);
    let run = "run lock-contention --target sim:server-8 --threads 4 --vary preempt=none,full --duration 5ms --warmup 0s --blocks 3 --quiet --collect timeline --out BUNDLES/a.holdup";
    place.expect(0, &run.split(' ').collect::<Vec<_>>());
    place.expect(0, &["store", "push", "--store", "STORE", "BUNDLES/a.holdup"]);
    let unpack = format!("tar -xf {}/holdup-bundle/tests/recorded.tar && rm *.json && xz -d *.xz", crates.display());
    let unpacked = Command::new("sh").args(["-c", &unpack]).current_dir(place.path("BUNDLES")).status();
    assert!(unpacked.is_ok_and(|status| status.success()), "tar and xz unpack the recorded bundles");
    let seeds = |folders: &str| {
        let within = |name: &str| if place.path(name).is_dir() { place.path(name) } else { crates.join(name) };
        folders.split(' ').map(within).flat_map(|folder| files_below(&folder)).map(seed_of).collect()
    };
    let commands = |all: &str| all.split("; ").map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    let mut all: Vec<ReaderCase> = READERS.iter().map(|(folders, lines)| (seeds(folders), commands(lines))).collect();
    for tool in std::fs::read_dir(crates.join("holdup-import/tests/samples")).expect("samples").flatten() {
        let kind = tool.file_name().to_string_lossy().into_owned();
        let import = format!("import {kind} FILE -q --out NEW");
        all.push((seeds(&tool.path().display().to_string()), commands(&format!("{import}; {import} --by settings"))));
    }
    all
}

/// A sample's name and bytes, unpacked where zstd(1) is there.
fn seed_of(path: PathBuf) -> (String, Vec<u8>) {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let unpacked = name.strip_suffix(".zst").map(|plain| (plain, Command::new("zstd").arg("-dcq").arg(&path).output()));
    match unpacked {
        Some((plain, Ok(output))) if output.status.success() => (plain.to_owned(), output.stdout),
        _ => (name, std::fs::read(&path).expect("is read")),
    }
}

/// A bundle whose values were changed, sealed again; `None` where such values cannot be written.
fn resealed(seed: &[u8], place: &Sandbox, dice: &mut Dice) -> Option<Vec<u8>> {
    place.write_bytes("seed.holdup", seed);
    let mut bundle: BundleData = holdup_bundle::read(&place.path("seed.holdup")).ok()?;
    for _ in 0..=dice.below(4) {
        let of = dice.below(bundle.trials.len().max(1) as u32) as usize;
        let mut document = serde_json::to_value(bundle.trials.get(of)?).ok()?;
        replace_one(&mut document, dice);
        let Ok(trial) = serde_json::from_value(document) else { continue };
        bundle.trials[of] = trial;
    }
    let _none = std::fs::remove_file(place.path("sealed.holdup"));
    holdup_watch::write(&bundle, &place.path("sealed.holdup")).ok()?;
    std::fs::read(place.path("sealed.holdup")).ok()
}

/// Faults in the end of a command that read an input.
pub(crate) fn broken(output: &Output, taken: TakenResources, writes_text: bool) -> Option<String> {
    let (out, err) = texts(output);
    let errors = err.lines().filter(|line| line.starts_with("error: ")).count();
    // A plan's error that names the rule or the limit says what to do.
    let rules = [": it must be ", ": it has more than ", "was expected"];
    let is_hint = |line: &str| line.starts_with("hint: ") || rules.iter().any(|rule| line.contains(rule));
    let has_hint = err.lines().any(|line| is_hint(line.trim_start()));
    let says_why = err.lines().all(|line| line.strip_prefix("error: ").is_none_or(|said| said.contains(": ")));
    let wrong = [
        (!matches!(output.status.code(), Some(0..=5)), format!("it ended with {}", output.status)),
        (taken.bytes > MOST_BYTES || taken.cpu_s > MOST_CPU_S, format!("it took {taken:?}")),
        (!is_harmless(&err) || writes_text && !is_harmless(&out), "it printed control characters".to_owned()),
        (output.status.code() == Some(2) && errors == 0, "it was refused without an error".to_owned()),
        (errors > 0 && !(has_hint && says_why), "an error lacks its cause or its hint".to_owned()),
        (err.contains("panicked"), "it panicked".to_owned()),
    ];
    let wrong: Vec<String> = wrong.into_iter().filter_map(|(is_wrong, what)| is_wrong.then_some(what)).collect();
    (!wrong.is_empty())
        .then(|| format!("{}: {}", wrong.join(", "), err.lines().take(3).collect::<Vec<_>>().join(" | ")))
}

/// The reader, the input and the command of a seed; what was wrong, and what it took.
fn try_one(seed: u64, readers: &[ReaderCase], place: &Sandbox) -> (Option<String>, TakenResources) {
    let mut dice = Dice::new(seed);
    let (seeds, commands) = &readers[dice.below(readers.len() as u32) as usize];
    let [(name, bytes), (_, other)] = [(); 2].map(|()| &seeds[dice.below(seeds.len() as u32) as usize]);
    let sealed = (name.ends_with(".holdup") && dice.chance(50)).then(|| resealed(bytes, place, &mut dice)).flatten();
    let input = sealed.unwrap_or_else(|| mutated(bytes, other, &mut dice));
    let command = &commands[dice.below(commands.len() as u32) as usize];
    // Each lies alone in a folder, for a store is all that is there.
    let folder = place.path("in");
    let _none = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join(name), input).expect("is written");
    std::fs::write(place.path("other"), other).expect("is written");
    let args: Vec<String> = command
        .iter()
        .map(|word| word.replace("FILE2", "../other").replace("FILE", name).replace("NEW", "../new.holdup"))
        .collect();
    let mut run = place.holdup(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let (output, taken) = measured({
        run.current_dir(&folder);
        run
    });
    let _none = std::fs::remove_file(place.path("new.holdup"));
    // An export is for other programs.
    let wrong = broken(&output, taken, args[0] != "export").map(|wrong| {
        let kept = std::env::temp_dir().join(format!("holdup-found-{seed}-{name}"));
        std::fs::copy(folder.join(name), &kept).expect("is kept");
        format!(
            "HOLDUP_LONG=inputs=1,seed={seed} repeats it: holdup {} with {}: {wrong}",
            args.join(" "),
            kept.display()
        )
    });
    (wrong, taken)
}

fn mutated_inputs_end_every_reader_within_its_bounds() {
    need_release();
    let (place, seed, count) = (Sandbox::new(), long("seed"), long("inputs"));
    println!("{count} inputs from seed {seed}");
    let (readers, next, found) =
        (readers(&place), AtomicU64::new(0), Mutex::new((Vec::new(), TakenResources::default())));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let place = Sandbox::new();
                while let Some(n) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < count) {
                    let (wrong, taken) = try_one(seed + n, &readers, &place);
                    let mut found = found.lock().expect("no panic");
                    wrong.iter().for_each(|wrong| println!("{wrong}"));
                    found.0.extend(wrong);
                    found.1 =
                        TakenResources { bytes: found.1.bytes.max(taken.bytes), cpu_s: found.1.cpu_s.max(taken.cpu_s) };
                }
            });
        }
    });
    let (wrong, most) = found.into_inner().expect("no panic");
    println!("{count} inputs, {} wrong, most: {most:?}", wrong.len());
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
}

/// A build for tests takes more time and memory than what users have.
pub(crate) fn need_release() {
    if std::env::var_os("HOLDUP_RELEASE_BINARY").is_none() {
        ignore("HOLDUP_RELEASE_BINARY names no release");
    }
}

/// A capture of one connection: segments in order, or with numbers of any order.
pub(crate) fn connection(segments: u32, is_random: bool) -> Vec<u8> {
    let [client, server] =
        [(1, 40_000), (2, 5432)].map(|(host, port)| Endpoint { address: Address::V4(0x0a00_0000 + host), port });
    let (mut capture, mut dice) = (Pcap::new(link::ETHERNET).with_nanoseconds(), Dice::new(9));
    for n in 0..segments {
        let seq = if is_random { dice.next() as u32 } else { n * 1448 };
        let flags = if n == 0 { SYN } else { ACK };
        let segment = Tcp { seq, ack: 1, flags, payload_bytes: 1, ..Tcp::new(client, server) };
        capture.frame(1_772_000_000_000_000_000 + i64::from(n) * 10_000, &segment.frame());
    }
    capture.into_bytes()
}

holdup_testkit::tests!(
    what_is_no_regular_file_ends_every_command_with_a_hint,
    a_name_that_is_not_utf8_is_no_panic,
    a_command_line_does_not_command_the_terminal,
    standard_input_is_read_as_ever,
    nothing_is_written_through_a_link,
    texts_of_a_plan_do_not_command_the_terminal; long:
    mutated_inputs_end_every_reader_within_its_bounds
);
