//! The command line: what can be typed. What it means is in `commands`.
//!
//! Over 600 lines because every command and option of the program stands here, to be read in one place.

use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};
use holdup_model::plan::CollectOptions;
use holdup_model::{Parameter, ParameterKind};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  holdup run plans/demo.toml --out demo.holdup
  holdup run pgbench --clients 8,64 --vary postgres.huge_pages=off,on --out a.holdup
  holdup run lock-contention --threads 8 --algorithm tas,ticket --duration 2s --out l.holdup
  holdup run command --vary autogroup=on,off --out c.holdup -- make -j4
  holdup compare a.holdup                  holdup report a.holdup --html a.html
  holdup record --pg auto -d 30s           holdup explain record-1.holdup

Exit codes: 0 done · 1 a difference (compare) or a cause (explain) was found · 2 wrong command line or plan ·
3 undecided, or this host cannot do it · 4 interrupted, host restored · 5 host not fully restored · 70 fault of holdup";

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("holdup")
        .version(env!("CARGO_PKG_VERSION"))
        .about("What the scheduler is holding up, what it costs and what fixes it")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(
            Arg::new("verbose")
                .short('v')
                .long("verbose")
                .action(ArgAction::Count)
                .global(true)
                .help("Log more to stderr; twice for more still"),
        )
        .subcommands([
            check(),
            run(),
            predict(),
            calibrate(),
            record(),
            explain(),
            compare(),
            packets(),
            report(),
            list(),
            export(),
            import(),
            kernels(),
            apply(),
            verify(),
            restore(),
            agent(),
        ])
}

fn check() -> Command {
    Command::new("check")
        .about("Say which preemption model is in force, and whether known regressions hit this host")
        .after_help(
            "Reads only, needs no root, and says what it could not check.\n\
             Exit code 0: not exposed, 1: exposed, 3: undecided.",
        )
        .arg(Arg::new("pg").long("pg").value_name("URL|PGDATA|PID").help(
            "The PostgreSQL server: a connection, its data directory or its process [default: all that run here]",
        ))
        .arg(
            Arg::new("root")
                .long("root")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Look at a captured tree instead of this host"),
        )
        .arg(
            Arg::new("capture")
                .long("capture")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("root")
                .help("Also copy every file that is read below this new folder, for --root elsewhere"),
        )
        .arg(
            Arg::new("probe")
                .long("probe")
                .action(ArgAction::SetTrue)
                .conflicts_with("root")
                .help("Also measure how the kernel preempts, which takes 2 s of two CPUs"),
        )
        .arg(
            Arg::new("details")
                .long("details")
                .action(ArgAction::SetTrue)
                .help("Everything that was looked at, with its source, and what is not known"),
        )
        .arg(json())
}

fn bundle(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name("FILE.holdup").value_parser(value_parser!(PathBuf)).help(help)
}

fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON document with a `schema` field")
}

fn run() -> Command {
    let command = Command::new("run")
        .about("Run a plan, or a workload without a plan, and write a bundle")
        .after_help(
            "A workload option with several values is an axis, as --vary is a factor; the first value is the baseline.\n\
             `holdup run WORKLOAD --help` tells a workload's options; `holdup list workloads` lists them.",
        )
        .arg(Arg::new("plan").value_name("PLAN.toml").value_parser(value_parser!(PathBuf)).help("The plan to run"))
        .args(run_options());
    with_workloads(command, &|_| true)
}

fn predict() -> Command {
    let command = Command::new("predict")
        .about("Simulate a plan on a machine that is not there, with what is not known of it")
        .after_help(
            "Every arm is simulated on machines drawn from the ranges of the machine file's parameters, and on the machine \
             with each parameter at both ends of its range: intervals and what they hang on come from that. Short windows \
             do: --duration 200ms.",
        )
        .arg(Arg::new("plan").value_name("PLAN.toml").value_parser(value_parser!(PathBuf)).help("The plan"))
        .arg(option("machine", "NAME|FILE", "A machine of `holdup list machines`, or a machine file, with a slash in it [default: the plan's, else this host as `holdup calibrate` measured it]"))
        .arg(option("draws", "N", "How many machines to draw [default: 20]").value_parser(value_parser!(u32).range(2..=10_000)))
        .arg(
            option("reach", "FACTOR=LEVEL:RATIO", "Look for machines on which the level changes the metric by this ratio or more")
                .action(ArgAction::Append),
        )
        .arg(option("widen", "N", "For --reach: each cost from 1/N of its value to N times it [default: 4]").value_parser(value_parser!(u32).range(2..=1000)))
        .arg(
            Arg::new("quiet")
                .long("quiet")
                .short('q')
                .action(ArgAction::SetTrue)
                .global(true)
                .help("No progress and no notes"),
        )
        .arg(json().global(true))
        .args(design_options());
    with_workloads(command, &|id| holdup_target::is_simulated(id))
}

fn calibrate() -> Command {
    Command::new("calibrate")
        .about("Measure what things cost on this host, or in a guest, for simulations of it")
        .after_help(
            "Takes up to 30 s of two CPUs and changes nothing. Another load on the host makes ranges wide; run it on an idle \
             one. `--target sim` and `holdup predict` read the file.\n\
             With --kernel it measures in a guest that boots this kernel, where an emulated CPU takes some minutes.",
        )
        .arg(
            Arg::new("out")
                .long("out")
                .short('o')
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("The machine file to write [default: that of this host, in holdup's own folder]"),
        )
        .arg(
            Arg::new("workdir")
                .long("workdir")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Where a file is read and flushed for measurements [default: $TMPDIR or /tmp]"),
        )
        .arg(
            Arg::new("pg-bin")
                .long("pg-bin")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("The folder with postgres, initdb and pgbench, for what PostgreSQL computes"),
        )
        .arg(Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help("No progress"))
        .arg(
            option("kernel", "KERNEL", "Measure in a guest with this kernel, such as debian:6.19, and not on this host")
                .requires("out")
                .conflicts_with_all(["pg-bin", "workdir"])
                .help_heading(GUESTS),
        )
        .arg(
            option("set", "guest.KEY=V", "What the guest is made of, such as guest.cpus=2")
                .action(ArgAction::Append)
                .requires("kernel")
                .help_heading(GUESTS),
        )
        .args(where_guests_come_from())
}

/// The command with a subcommand for each workload.
fn with_workloads(command: Command, has: &dyn Fn(&str) -> bool) -> Command {
    let command = command.subcommand_value_name("WORKLOAD").subcommand_help_heading("Workloads");
    holdup_workloads::workloads::ALL.iter().filter(|w| has(w.meta().id)).fold(command, |command, workload| {
        let meta = workload.meta();
        let mut sub = Command::new(meta.id).about(meta.summary).after_help(meta.docs);
        for parameter in workload.parameters() {
            if parameter.kind != ParameterKind::CommandLine {
                sub = sub.arg(parameter_option(parameter));
            }
        }
        if workload.parameters().iter().any(|p| p.kind == ParameterKind::CommandLine) {
            sub = sub.arg(
                Arg::new("command-line")
                    .value_name("PROGRAM")
                    .num_args(1..)
                    .last(true)
                    .help("The program and its arguments"),
            );
        }
        command.subcommand(sub)
    })
}

/// `--clients 8,64` for the parameter `clients`.
fn parameter_option(parameter: &'static Parameter) -> Arg {
    let mut help = parameter.summary.to_owned();
    if let ParameterKind::Choice(words) = parameter.kind {
        help = format!("{help}: {}", words.join(", "));
    }
    if let Some(default) = parameter.default {
        help = format!("{help} [default: {default}]");
    }
    Arg::new(parameter.name)
        .long(parameter.name.replace('_', "-"))
        .value_name("V[,V…]")
        .allow_hyphen_values(true)
        .help(help)
        // A member's options are its own workload's, and there are a hundred of them.
        .hide(parameter.name.contains('.'))
        .help_heading("Workload options")
}

fn run_options() -> Vec<Arg> {
    let mut all = design_options();
    all.extend(host_options());
    all.extend(guest_options());
    all.extend([
        option("out", "FILE.holdup", "The bundle to write [default: NAME-N.holdup]")
            .short('o')
            .value_parser(value_parser!(PathBuf)),
        option("save-plan", "FILE.toml", "Write the plan that this command line comes to")
            .value_parser(value_parser!(PathBuf)),
        Arg::new("dry-run")
            .long("dry-run")
            .short('n')
            .action(ArgAction::SetTrue)
            .global(true)
            .help("Print the schedule, how long it takes and what it will change; run nothing"),
        Arg::new("quiet")
            .long("quiet")
            .short('q')
            .action(ArgAction::SetTrue)
            .global(true)
            .help("No progress and no verdict; the bundle only"),
    ]);
    all
}

fn design_options() -> Vec<Arg> {
    let design = "Design";
    vec![
        Arg::new("set")
            .long("set")
            .value_name("KEY=V[,V…]")
            .action(ArgAction::Append)
            .global(true)
            .help("Set a parameter, a design key or a fixed setting; several values make an axis")
            .help_heading(design),
        Arg::new("vary")
            .long("vary")
            .value_name("KEY=V1,V2")
            .action(ArgAction::Append)
            .global(true)
            .help("Add a factor; the first value is the baseline")
            .help_heading(design),
        Arg::new("metric")
            .long("metric")
            .value_name("DEF")
            .action(ArgAction::Append)
            .global(true)
            .help("A metric of `command`: NAME=regex:…, NAME=json:/pointer, NAME=duration; append :higher or :lower")
            .help_heading(design),
        option("max-blocks", "N", "Most blocks; the run ends when every headline is decided (default: 20)")
            .value_parser(value_parser!(u32))
            .conflicts_with("blocks")
            .help_heading(design),
        option("blocks", "N", "Exactly so many blocks in each session, decided or not")
            .value_parser(value_parser!(u32))
            .help_heading(design),
        option("sessions", "N", "Sessions (fresh clusters)").value_parser(value_parser!(u32)).help_heading(design),
        option("seed", "N", "Seed of the order").value_parser(value_parser!(u64)).help_heading(design),
        option("warmup", "D", "Load before each window, such as 500ms").help_heading(design),
        option("duration", "D", "Length of each window, such as 2s").help_heading(design),
        option("budget", "D", "The longest that the run may take, such as 5m").help_heading(design),
        option("collect", "ID,…", "Collectors to run; `none` for none").help_heading(design),
        section().global(true).help_heading(design),
        frequency().global(true).help_heading(design),
    ]
}

fn section() -> Arg {
    option("section", "FUNCTION", "Also know the critical sections of this function; may be given several times")
        .action(ArgAction::Append)
}

fn frequency() -> Arg {
    option("frequency", "HZ", "How often CPUs are sampled [default: each collector's own]")
        .value_parser(value_parser!(u32).range(1..=i64::from(CollectOptions::MOST_HZ)))
}

fn host_options() -> Vec<Arg> {
    let host = "Host";
    vec![
        option("target", "TARGET", "Where trials run").help_heading(host),
        option("pg-bin", "DIR", "The folder with postgres, initdb and pgbench")
            .value_parser(value_parser!(PathBuf))
            .help_heading(host),
        option("pg", "URL", "Use this PostgreSQL server instead of a temporary one").help_heading(host),
        option("workdir", "DIR", "Where temporary clusters go [default: $TMPDIR or /tmp]")
            .value_parser(value_parser!(PathBuf))
            .help_heading(host),
        option("wait", "D", "Wait this long for another run on this host to end [default with --wait alone: 1h]")
            .num_args(0..=1)
            .default_missing_value("1h")
            .help_heading(host),
    ]
}

const GUESTS: &str = "Guests (target qemu)";

fn guest_options() -> Vec<Arg> {
    let mut all = where_guests_come_from();
    all.extend([
        option("pg-deb", "MAJOR[,…]", "PostgreSQL in guests from Debian's packages, such as 17; several make a factor")
            .conflicts_with_all(["pg-bin", "pg"])
            .help_heading(GUESTS),
        option("parallel", "N", "So many guests at once; they take CPU time from each other [default: 1]")
            .value_parser(value_parser!(u32).range(1..=64))
            .help_heading(GUESTS),
    ]);
    all
}

fn where_guests_come_from() -> Vec<Arg> {
    vec![
        option("accel", "KIND", "How a guest's CPUs are made")
            .value_parser(["auto", "kvm", "tcg"])
            .help_heading(GUESTS),
        option("mirror", "URL", "The archive to fetch from [default: the one of this machine's apt]")
            .help_heading(GUESTS),
        Arg::new("offline")
            .long("offline")
            .action(ArgAction::SetTrue)
            .global(true)
            .help("Fetch nothing: only kernels and packages that are cached")
            .help_heading(GUESTS),
        option("cache", "DIR", "Where kernels and packages are kept [default: $HOLDUP_CACHE or ~/.cache/holdup]")
            .value_parser(value_parser!(PathBuf))
            .help_heading(GUESTS),
    ]
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).global(true).help(help)
}

fn record() -> Command {
    let watched = "Watched";
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("record")
        .about("Watch a live system, write a bundle, and say what held it up")
        .after_help(
            "Nothing is started and nothing is changed. The time is cut into windows, which intervals rest on. Without root \
             what still works, works; the rest is named with its reason.\n\
             Exit code 0: watched to the end, 3: what was watched ended, 4: interrupted; the bundle holds what was seen.",
        )
        .arg(
            text("pid", "PID[,PID…]", "These processes with their descendants")
                .value_delimiter(',')
                .value_parser(value_parser!(u32).range(1..))
                .help_heading(watched),
        )
        .arg(text("comm", "NAME", "All processes of this name with their descendants").help_heading(watched))
        .arg(text("cgroup", "PATH", "All processes of this control group").help_heading(watched))
        .arg(
            text("pg", "URL|PID|auto", "This PostgreSQL server; a URL also gives its wait events and statistics")
                .help_heading(watched),
        )
        .group(ArgGroup::new("watched").args(["pid", "comm", "cgroup", "pg"]).required(true))
        .arg(text("duration", "D", "How long [default: 30s]").short('d'))
        .arg(
            text("windows", "N", "Windows that it is cut into [default: 10, of a second at least]")
                .value_parser(value_parser!(u32).range(1..=10_000)),
        )
        .arg(text("collect", "ID,…", "Collectors to run [default: those that explain waits]"))
        .arg(section())
        .arg(frequency())
        .arg(
            text("out", "FILE.holdup", "The bundle to write [default: record-N.holdup]")
                .short('o')
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            text("wait", "D", "Wait this long for a run on this host to end [default with --wait alone: 1h]")
                .num_args(0..=1)
                .default_missing_value("1h"),
        )
        .arg(Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help("The bundle only"))
        .arg(json())
}

fn explain() -> Command {
    Command::new("explain")
        .about("Say what held a system up, with numbers, what they rest on and what would change it")
        .after_help("Exit code 0: nothing of what was looked for, 1: a cause was found, 3: undecided.")
        .arg(bundle("bundle", "The bundle, of record or of run with the collectors").required(true))
        .arg(
            Arg::new("arm")
                .long("arm")
                .value_name("LABEL")
                .help("Only this arm, by number, label or a part of it (`holdup list arms FILE`)"),
        )
        .arg(json())
}

fn compare() -> Command {
    Command::new("compare")
        .about("Compare the arms of a bundle, two arms of it, two bundles, or follow many over time")
        .after_help(
            "Exit code 1 when a primary metric is different (or changed over time), 3 when that is undecided, 0 when it is equivalent.",
        )
        .arg(bundle("a", "The bundle; the first is the baseline").required(true))
        .arg(
            bundle("others", "Another bundle to compare with the first; with two and more, the history of all")
                .num_args(0..),
        )
        .arg(
            Arg::new("arms")
                .long("arms")
                .value_names(["A", "B"])
                .num_args(2)
                .conflicts_with("others")
                .help("Two arms of one bundle, by number, label or a part of it (`holdup list arms FILE`)"),
        )
        .arg(json())
}

fn packets() -> Command {
    Command::new("packets")
        .about("Say what is in a capture of packets, or what got worse for each segment from one to another")
        .after_help(
            "Captures are pcap or pcapng, plain, gzip or zstd; `-` is standard input. In place of two captures, two texts of \
             `tshark -q -z expert` do, as far as counts without totals can say something.\n\
             Exit code 1 when a mark of trouble got more frequent, 3 when that is undecided, else 0. docs/packets.md",
        )
        .args(captures())
        .arg(
            option("by", "PART", "The worst parts: flow, host, or time, which shows all spans [default: flow]")
                .value_parser(["flow", "host", "time"]),
        )
        .arg(option("top", "N", "How many of the worst are shown [default: 5]").value_parser(value_parser!(usize)))
        .arg(option(
            "traffic",
            "FROM..TO",
            "For counts without totals: the second's segments by the first's, as in 0.25..1",
        ))
        .arg(
            option("flows", "OUT.jsonl", "Write every connection as a line of JSON (- for stdout)")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            option("html", "OUT.html", "Write a page with the worst connections over time (- for stdout)")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(json())
}

/// The captures that are read, and how: of `packets` and `import pcap` alike.
fn captures() -> Vec<Arg> {
    vec![
        Arg::new("captures")
            .value_name("CAPTURE")
            .required(true)
            .num_args(1..)
            .value_parser(value_parser!(PathBuf))
            .help("The capture; of several, each is compared with the first"),
        Arg::new("rotated")
            .short('r')
            .long("rotated")
            .action(ArgAction::SetTrue)
            .help("A folder is one capture that was written into many files, in the order of their first frames"),
        option("margin", "M", "How large a difference of rates still counts as none [default: 2%]"),
        option("max-flows", "N", "Connections that are kept; segments of others are counted [default: 1000000]")
            .value_parser(value_parser!(u32).range(1..)),
        option(
            "threads",
            "N",
            "Threads that go through the captures, at most 16 for each; only the time depends on them [default: CPUs, at most 4]",
        )
        .value_parser(value_parser!(u32).range(1..)),
        option(
            "engine",
            "ENGINE",
            "Whose judgement: Wireshark 4.6's marks under its names, or rfc: ours beside them [default: wireshark]",
        )
        .value_parser(["wireshark", "rfc"]),
        Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help("No progress"),
    ]
}

fn report() -> Command {
    Command::new("report")
        .about("Report on a bundle: verdicts first, then everything behind them")
        .arg(bundle("bundle", "The bundle").required(true))
        .arg(
            Arg::new("html")
                .long("html")
                .value_name("OUT.html")
                .value_parser(value_parser!(PathBuf))
                .help("Write one page that works offline (- for stdout)"),
        )
        .arg(
            Arg::new("markdown")
                .long("markdown")
                .value_name("OUT.md")
                .value_parser(value_parser!(PathBuf))
                .help("Write Markdown (- for stdout)"),
        )
        .arg(json())
}

fn list() -> Command {
    Command::new("list")
        .about("List what there is")
        .after_help("Kinds: workloads, algorithms, collectors, knobs, cases, analyses, explanations, targets, formats, schemas; arms, trials, boots or logs of a bundle.")
        .arg(Arg::new("kind").value_name("KIND").required(true).help("What to list"))
        .arg(Arg::new("what").value_name("ID|FILE").help("One member, told in full; or the bundle whose arms, trials, boots or logs are listed"))
        .arg(
            Arg::new("boot")
                .long("boot")
                .value_name("N")
                .value_parser(value_parser!(u32))
                .help("With logs: only those of this boot, in full"),
        )
        .arg(json())
}

fn export() -> Command {
    Command::new("export")
        .about("Write a bundle's numbers, or a profile, for other tools")
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .subcommand(
            Command::new("profile")
                .about("Write a profile as other tools load it")
                .after_help("What a format has no place for stands in it as a comment that says where it goes.")
                .arg(profile_file())
                .arg(
                    Arg::new("profile-format")
                        .long("format")
                        .short('f')
                        .required(true)
                        .value_parser(["tuned", "sysctl.d", "systemd"])
                        .help("tuned: a tuned.conf; sysctl.d: for systemd-sysctl; systemd: a oneshot unit"),
                )
                .arg(out_file()),
        )
        .arg(bundle("bundle", "The bundle").required(true))
        .arg(
            Arg::new("format")
                .long("format")
                .short('f')
                .value_parser(["json", "csv", "benchstat", "plan", "flows", "perfetto", "folded", "speedscope"])
                .default_value("json")
                .help(
                    "json: everything; csv: a row per trial and metric; benchstat: Go benchmark lines; plan: the plan as \
                     run; flows: a line of JSON for each TCP connection that is kept; perfetto: a timeline as ui.perfetto.dev opens it; folded: call stacks, a line each; speedscope: call \
                     stacks as speedscope.app opens them",
                ),
        )
        .arg(
            Arg::new("arm")
                .long("arm")
                .value_name("ARM")
                .help("With stacks and timelines: only trials of this arm, by its label or number [default: all arms]"),
        )
        .arg(
            Arg::new("trial")
                .long("trial")
                .value_name("N")
                .value_parser(value_parser!(u32))
                .help(
                    "With stacks and timelines: only this trial [default: stacks of all trials that count together, the \
                     first timeline]",
                ),
        )
        .arg(
            Arg::new("profile-name")
                .long("profile")
                .value_name("NAME")
                .help("With stacks: on_cpu, off_cpu or waker [default: on_cpu, or the only one]"),
        )
        .arg(out_file())
}

fn import() -> Command {
    Command::new("import")
        .about("Put what other programs captured into a bundle")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("pcap")
                .about("Put captures of packets into a bundle: an arm for each, with what it says against the first")
                .after_help(
                    "What `holdup packets` says of the captures is kept: `holdup report` tells it again, draws the worst connections \
                     on its page, and needs no capture any more; `holdup export --format flows` writes the connections. No packet is \
                     kept. Captures are pcap or pcapng, plain, gzip or zstd; `-` is standard input, of which no connection can be drawn.",
                )
                .args(captures())
                .arg(
                    option("out", "FILE.holdup", "The bundle to write [default: import-N.holdup]")
                        .short('o')
                        .value_parser(value_parser!(PathBuf)),
                ),
        )
}

fn kernels() -> Command {
    let spec = |help| Arg::new("spec").value_name("SPEC").num_args(1..).required(true).help(help);
    let quiet =
        || Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help("No progress and no notes");
    Command::new("kernels")
        .about("Fetch, build, list and remove the kernels that guests boot")
        .after_help(
            "SPEC: debian:7.0 (the newest 7.0.x), debian:6.19.14/cloud (a flavour), debian:trixie (a suite's newest), \
             file:PATH, deb:PATH, rpm:PATH, host (the running one), build:SOURCE,OPTION=y,…\n\
             Debian's kernels come through apt, which verifies them, from the archive that this machine's apt uses; \
             the system's apt is not changed.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(
            Arg::new("cache")
                .long("cache")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .global(true)
                .help("Where kernels are kept [default: $HOLDUP_CACHE, else holdup in $XDG_CACHE_HOME or ~/.cache]"),
        )
        .arg(
            option("arch", "MACHINE", "The machine that they are for: x86_64 or aarch64 [default: this one's]")
                .value_parser(["x86_64", "aarch64"]),
        )
        .arg(
            Arg::new("modules")
                .long("modules")
                .action(ArgAction::SetTrue)
                .global(true)
                .help("With modules, which are 160 MB for the normal flavour; only those that can be verified"),
        )
        .subcommands([
            Command::new("list")
                .about("List the kernels in the cache and what else it keeps, or the kernels that can be fetched")
                .arg(
                    Arg::new("available")
                        .long("available")
                        .action(ArgAction::SetTrue)
                        .help("List Debian's kernels that can be fetched, newest first"),
                )
                .args([mirror(), offline(), quiet(), json()]),
            Command::new("fetch")
                .about("Bring kernels into the cache; those that are there stay")
                .arg(spec("The kernels"))
                .args([mirror(), offline(), quiet(), json()]),
            Command::new("build")
                .about("Build a kernel and keep it")
                .arg(spec("SOURCE[,OPTION=VALUE][,patch=NAME][,config=NAME], with or without build: before it"))
                .args([mirror(), offline(), quiet(), json()]),
            Command::new("rm")
                .about("Remove kernels and what else is in the cache")
                .arg(spec("Kernels; postgres:17; build-folders, packages, images or templates, all of them each"))
                .arg(quiet()),
            Command::new("which").about("Print where a kernel's image is; fetches nothing").arg(spec("The kernels")),
        ])
}

fn mirror() -> Arg {
    Arg::new("mirror").long("mirror").value_name("URL").help("The archive of Debian, as apt writes it")
}

fn offline() -> Arg {
    Arg::new("offline").long("offline").action(ArgAction::SetTrue).help("Use only what is in the cache")
}

fn out_file() -> Arg {
    Arg::new("out")
        .long("out")
        .short('o')
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Write there instead of to stdout")
}

fn apply() -> Command {
    Command::new("apply")
        .about("Put the values of a profile in force; they stay until `holdup restore` or the next boot")
        .after_help(
            "All knobs are asked before the first is touched. Runs take the values as the state of this host. \
             `holdup verify PROFILE.toml` tells whether they are in force.\n\
             Exit code 3 when this host cannot do it; nothing is changed then.",
        )
        .arg(profile_file())
        .args(subjects())
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .short('n')
                .action(ArgAction::SetTrue)
                .help("Say what would change and what stands in the way; change nothing"),
        )
        .arg(json())
}

fn profile_file() -> Arg {
    Arg::new("profile")
        .value_name("PROFILE.toml")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The profile: name, summary and [knobs]")
}

/// What the knobs of a profile act on beside the host.
fn subjects() -> [Arg; 2] {
    [
        Arg::new("pg").long("pg").value_name("URL").help("The PostgreSQL server that postgres.… settings are of"),
        Arg::new("pid")
            .long("pid")
            .value_name("PID[,PID…]")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(value_parser!(u32).range(1..))
            .help("The processes, with their descendants, that settings of processes are of [default: those of --pg]"),
    ]
}

fn verify() -> Command {
    Command::new("verify")
        .about("Say whether a bundle is whole, or the values of a profile in force")
        .after_help(
            "Without a file: whether the profiles that were applied here are in force.\n\
             Exit code 0 when it is so, 1 when not, 3 when that cannot be told.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE.holdup|PROFILE.toml")
                .value_parser(value_parser!(PathBuf))
                .help("The bundle, or the profile"),
        )
        .args(subjects())
        .arg(json())
}

fn restore() -> Command {
    Command::new("restore")
        .about("Put back what a run that was killed left changed on this host, and what `holdup apply` set")
        .after_help(
            "The values from before the first profile come back. Every run puts back at its start what another run \
             left, but no profile. Exit code 5 when something could not be put back.",
        )
        .arg(
            Arg::new("pg")
                .long("pg")
                .value_name("URL")
                .help("A server whose settings were changed, with its password: none is kept"),
        )
        .arg(
            Arg::new("forget")
                .long("forget")
                .action(ArgAction::SetTrue)
                .help("Drop what is left from the journals without putting it back"),
        )
}

/// Not for people: the other end of a line.
fn agent() -> Command {
    Command::new("agent").about("Serve another holdup on the standard streams").long_about(
        "Serve another holdup on the standard streams.\n\nNot for people: in a guest or on another host it takes \
             orders in framed messages and answers them. It ends when its input does.",
    )
}
