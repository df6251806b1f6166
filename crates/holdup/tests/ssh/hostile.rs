//! Hosts that do what a host of holdup never does, in place of `ssh`: other hosts and holdup itself do not believe them.

use super::common::{Sandbox, long, peak_bytes, texts};
use super::over;
use crate::dice::Dice;
use crate::hostile_input::{mutated, replace_one};
use holdup_model::ends::{ClientAnswer, ClientOrder, ClientSession, ServiceAccess, Token};
use holdup_model::frame::{Decoder, Received, encode};
use holdup_model::wire::{self, Answer, Checked, Hello, Order, Ran};
use holdup_model::{Machine, Parameters, Problem, Trial};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{ExitCode, Output};
use std::time::{Duration, Instant};

/// The environment variable that makes this program a host, `srv` or `cli`: it names the file to which client hosts write the orders that
/// came to them.
pub(crate) const HOSTILE: &str = "HOLDUP_TEST_HOSTILE";
/// The seed of what it does beside.
const SEED: &str = "HOLDUP_TEST_HOSTILE_SEED";

pub(crate) fn run(log: &str) -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|word| word == "-G") {
        println!("hostname 127.0.0.1");
        return ExitCode::SUCCESS;
    }
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse::<u64>().ok());
    let is_server = args.iter().any(|word| word == "srv");
    let dice = seed.map(|seed| {
        // Each connection of a run has its own.
        let before = std::fs::read_to_string(log).unwrap_or_default().matches("connected").count() as u64;
        note(log, "connected");
        Dice::new(seed * 1000 + before)
    });
    let mut line = AgentLine { sequence: 0, decoder: Decoder::new(), dice, is_server };
    line.say(&Answer::Hello(Box::new(Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        release: "7.2".to_owned(),
        machine: Machine { cpus: 2, memory_bytes: 8 << 30 },
        uptime_ns: 1,
        boot_id: None,
        is_root: false,
        notes: vec!["well\nerror: nothing is lost".to_owned()],
    })));
    while let Some(order) = line.order() {
        match order {
            Order::Clock => line.say(&Answer::Clock(0)),
            Order::Check(_) => line.say(&Answer::Checked(Ok(Box::new(Checked {
                metrics: Vec::new(),
                collectors: Vec::new(),
                touches: Vec::new(),
                notes: Vec::new(),
                preempt: None,
            })))),
            Order::Open(_) if is_server => {
                line.say(&Answer::Clients(vec![(0, ClientOrder::Route { server: "127.0.0.1".to_owned() })]));
                if seed.is_some() {
                    line.say(&Answer::Opened(Ok(Vec::new())));
                    continue;
                }
                // Always answered, so that the test does not wait for a question.
                line.say(&Answer::Clients(vec![(0, ClientOrder::Connect(([127, 0, 0, 2], 22).into()))]));
            }
            Order::Trial { spec, .. } => {
                let mut trial = Trial::begun(0);
                (trial.session, trial.block, trial.arm) = (spec.session, spec.block, spec.arm);
                line.say(&Answer::Ran(Box::new(Ran { trial, problem: None })));
            }
            Order::OfClients(_) | Order::Alive => {}
            Order::Attend { .. } => line.say(&Answer::Opened(Ok(Vec::new()))),
            Order::Client(order) => line.say(&Answer::OfClient(carry_out(log, &order))),
            Order::Close => line.say(&Answer::Closed { result: Ok(Vec::new()), kernel_log: Ok(String::new()) }),
            _ => break,
        }
    }
    ExitCode::SUCCESS
}

fn carry_out(log: &str, order: &ClientOrder) -> Result<ClientAnswer, Problem> {
    note(log, &format!("{order:?}"));
    let here = [127, 0, 0, 1].into();
    Ok(match order {
        ClientOrder::Route { .. } => ClientAnswer::Route { server: here, client: here },
        _ => ClientAnswer::Done,
    })
}

fn note(log: &str, line: &str) {
    let mut log = File::options().create(true).append(true).open(log).expect("the log");
    writeln!(log, "{line}").expect("the log");
}

/// The agent's side of a line over the standard streams.
struct AgentLine {
    sequence: u32,
    decoder: Decoder,
    /// Of one that does other things too.
    dice: Option<Dice>,
    is_server: bool,
}

impl AgentLine {
    fn say(&mut self, answer: &Answer) {
        if let Some(mut dice) = self.dice.take() {
            if dice.chance(12) {
                self.do_otherwise(answer, &mut dice);
            }
            self.dice = Some(dice);
        }
        self.send(&wire::to_bytes(answer));
    }

    fn send(&mut self, payload: &[u8]) {
        self.put(&encode(self.sequence, payload));
        self.sequence += 1;
    }

    #[allow(clippy::exit, reason = "a host that ends is one of those that are tried")]
    fn put(&self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    }

    /// Acts of a hostile agent, before its answer or in its place.
    #[allow(clippy::exit, reason = "as above")]
    fn do_otherwise(&mut self, answer: &Answer, dice: &mut Dice) {
        let begun = Instant::now();
        let some_time = Duration::from_millis(dice.below(5_000).into());
        match dice.below(12) {
            0 => std::process::exit(dice.below(256) as i32),
            1 => std::thread::sleep(some_time),
            2 => self.sequence += 1 + dice.below(9),
            3 => self.send(&wire::to_bytes(&Answer::Note("N".repeat(60 << 20)))),
            4 => self.put(&mutated(&encode(self.sequence, &wire::to_bytes(answer)), b"\xf5\xc1\xfe\x05", dice)),
            5 => self.send(&mutated(&wire::to_bytes(answer), &[0xff; 9], dice)),
            6 => {
                while begun.elapsed() < some_time {
                    self.send(&wire::to_bytes(&dice.pick(&[
                        &Answer::Alive,
                        &Answer::Step(String::new()),
                        &Answer::Clock(1),
                    ])));
                }
            }
            7 => {
                while begun.elapsed() < some_time {
                    self.put(&(0..4096).flat_map(|_| dice.next().to_le_bytes()).collect::<Vec<_>>());
                }
            }
            8 => eprintln!("{}", "error: x\u{1b}[2J".repeat(dice.below(1 << 20) as usize)),
            9 if self.is_server => {
                let order = foreign_order(dice);
                self.send(&wire::to_bytes(&Answer::Clients(vec![(0, order)])));
            }
            _ => {
                let mut document = serde_json::to_value(answer).expect("it is one");
                (0..=dice.below(3)).for_each(|_| replace_one(&mut document, dice));
                self.send(&wire::to_bytes(&document));
            }
        }
    }

    fn order(&mut self) -> Option<Order> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(Received::Frame { payload, .. }) = self.decoder.next() {
                return wire::from_bytes(&payload).ok();
            }
            match std::io::stdin().read(&mut bytes) {
                Ok(n @ 1..) => self.decoder.feed(&bytes[..n]),
                _ => return None,
            }
        }
    }
}

/// Orders that no plan of these tests names.
fn foreign_order(dice: &mut Dice) -> ClientOrder {
    let elsewhere = ([127, 0, 0, 2], 22).into();
    let mut parameters = Parameters::default();
    parameters.set("file", "/etc/shadow");
    match dice.below(4) {
        0 => ClientOrder::Route { server: "192.0.2.1".to_owned() },
        1 => ClientOrder::Connect(elsewhere),
        2 => ClientOrder::Trial { session: 0, parameters, warmup_ns: 0, duration_ns: 1, seed: 0 },
        _ => ClientOrder::Prepare(Box::new(ClientSession {
            session: 0,
            kind: "pgbench".to_owned(),
            combinations: vec![parameters],
            service: ServiceAccess { at: elsewhere, number: 1, token: Token::default() },
        })),
    }
}

/// Faults after a run over hosts that did anything.
fn wrong_after(place: &Sandbox, output: &Output, bytes: u64) -> Vec<&'static str> {
    let (_, err) = texts(output);
    let orders = std::fs::read_to_string(place.path("orders.txt")).unwrap_or_default();
    let is_void_with_reason = |trial: &serde_json::Value| match trial["status"]["state"].as_str() {
        Some("void") => trial["status"]["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
        state => state == Some("done"),
    };
    let is_kept_whole = || {
        let listed = place.output(&["list", "trials", "x.holdup", "--details", "--json"]);
        let document: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        let all_have_reasons = document["members"].as_array().is_some_and(|all| all.iter().all(is_void_with_reason));
        all_have_reasons && matches!(place.output(&["verify", "x.holdup"]).status.code(), Some(0 | 1))
    };
    let checks = [
        (matches!(output.status.code(), Some(0..=5)), "how it ended"),
        (bytes < 256 << 20, "its memory"),
        (orders.lines().all(|order| matches!(order, "connected" | "Route")), "an order that the plan does not name"),
        (!err.contains('\u{1b}') && !err.contains("\nerror: x") && !err.contains("panicked"), "what it printed"),
        (!place.path("x.holdup").exists() || is_kept_whole(), "its bundle"),
        (super::swappiness() == std::fs::read_to_string(place.path("swappiness")).unwrap(), "a setting of this host"),
    ];
    checks.into_iter().filter_map(|(is_right, what)| (!is_right).then_some(what)).collect()
}

/// Findings H2 to H4 of the attacks, for the time that the test is given: the plan decides, and not a host.
pub(super) fn hosts_that_do_anything_are_given_up_and_obeyed_in_nothing() {
    let (begun, first) = (Instant::now(), long("seed"));
    let (mut seed, mut most_bytes, mut codes, mut wrong) = (first, 0, BTreeMap::<Option<i32>, u32>::new(), Vec::new());
    while begun.elapsed() < Duration::from_secs(long("agent_s")) {
        let place = Sandbox::new();
        place.write("swappiness", &super::swappiness());
        let (bytes, output) = hostile_run(&place, seed);
        most_bytes = most_bytes.max(bytes);
        *codes.entry(output.status.code()).or_default() += 1;
        let found = wrong_after(&place, &output, bytes);
        if !found.is_empty() {
            let (out, err) = texts(&output);
            wrong.push(format!(
                "HOLDUP_LONG=agent_s=1,seed={seed} repeats it: {found:?}: {}, {} MB\n{out}{err}",
                output.status,
                bytes >> 20
            ));
        }
        seed += 1;
    }
    println!("{} runs from seed {first}, codes {codes:?}, at most {} MB", seed - first, most_bytes >> 20);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A run with both hosts hostile, or with one alone; the memory that it took.
fn hostile_run(place: &Sandbox, seed: u64) -> (u64, Output) {
    let ends = "run stream --set hosts.server=srv --set hosts.client=cli --dead-after 3s --set aa=false --blocks 2 --duration 100ms --out x.holdup";
    let alone = "run command --target ssh:srv --vary swappiness=11,12 --dead-after 3s --blocks 2 --duration 10ms --out x.holdup -- true";
    let mut command = place.holdup(&(if seed.is_multiple_of(3) { alone } else { ends }).split(' ').collect::<Vec<_>>());
    command
        .env("HOLDUP_SSH", std::env::current_exe().unwrap())
        .env(HOSTILE, place.path("orders.txt"))
        .env(SEED, seed.to_string());
    let [out, err] = ["out", "err"].map(|name| File::create(place.path(name)).unwrap());
    let mut child = command.stdout(out).stderr(err).spawn().unwrap();
    let (begun, mut bytes) = (Instant::now(), 0);
    let status = loop {
        bytes = peak_bytes(&child).max(bytes);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(240) || bytes > 1 << 30 {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let [stdout, stderr] = ["out", "err"].map(|name| std::fs::read(place.path(name)).unwrap());
    (bytes, Output { status, stdout, stderr })
}

pub(super) fn a_host_under_test_orders_of_its_clients_only_what_the_plan_names() {
    let place = Sandbox::new();
    let log = place.path("orders.txt");
    let args = "run stream --set hosts.server=srv --set hosts.client=cli --set aa=false --blocks 1 --duration 100ms --out x.holdup";
    let output = place
        .holdup(&args.split(' ').collect::<Vec<_>>())
        .env("HOLDUP_SSH", std::env::current_exe().unwrap())
        .env(HOSTILE, &log)
        .output()
        .unwrap();
    let (_, err) = texts(&output);
    let orders = std::fs::read_to_string(log).unwrap_or_default();
    assert!(orders.contains("Route") && !orders.contains("Connect"), "{orders}\n{err}");
    assert!(err.contains("host srv: ") && err.contains("what the plan does not name: Connect"), "{err}");
    assert_eq!(output.status.code(), Some(3), "{err}");
    // A note of a host begins no line.
    assert!(err.contains("srv: well error: nothing") && !err.contains("\nerror: nothing"), "{err}");
}

pub(super) fn a_host_that_prints_without_end_is_named_and_given_up() {
    let place = Sandbox::new();
    // Longer parts than holdup sends.
    std::fs::write(place.path("frame"), encode(0, &vec![b'x'; 8 << 20])).unwrap();
    let refused = |script: &str, args: &[&str], why: &str| {
        let ssh = format!("sh {}", place.write("flood.sh", script).display());
        let output = over(&place, &ssh, args);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(3), "{out}{err}");
        // Tables break lines.
        let said: Vec<&str> = out.split_whitespace().chain(err.split_whitespace()).collect();
        assert!(said.join(" ").contains(why), "{out}{err}");
    };
    let check = ["check", "--target", "ssh:srv", "--details"];
    refused("exec cat /dev/zero", &check, "its command printed more than 4 MiB");
    refused("cat /dev/zero >&2", &check, "it said more than 4 MiB on standard error");
    let clean = "error: host srv: its command printed more than 1 MiB hint: ";
    refused("exec cat /dev/zero", &["hosts", "clean", "srv"], clean);
    let record = ["record", "--target", "ssh:srv", "--pid", "1", "-d", "1s", "-o", "r.holdup", "--details"];
    refused("cat frame; exec cat /dev/zero", &record, "its bundle arrived in parts that holdup does not send");
    assert!(!place.path("r.holdup").exists());
}
