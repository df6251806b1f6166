//! `holdup watch` on a real PostgreSQL: driven by keys in tmux, and its outputs for scripts.

use crate::common;
use crate::common::server;
use common::{Sandbox, is_root, wait_for};
use holdup_testkit::ignore;
use serde_json::Value;
use server::{Load, Server};
use std::io::BufRead as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A terminal of tmux's own server, which ends with the test.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// Runs a command in a terminal of this size.
    fn start(place: &Sandbox, size: (&str, &str), command: &str) -> Tmux {
        let tmux = Tmux { socket: place.path("tmux").display().to_string() };
        let folder = place.path(".").display().to_string();
        let shell = format!("{command}; echo ended with $?; sleep 60");
        tmux.ask(&["new-session", "-d", "-x", size.0, "-y", size.1, "-c", &folder, &shell]);
        tmux
    }

    fn ask(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.socket, "-f", "/dev/null"]).args(args).output();
        let output = output.unwrap_or_else(|e| ignore(format!("tmux: {e}")));
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    fn press(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    #[track_caller]
    fn shows(&self, what: &str) {
        wait_for(what, || self.screen().contains(what));
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // Its server may have ended.
        let _gone = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).status();
    }
}

fn needs() {
    if !is_root() {
        ignore("the account of time takes root");
    }
    if Command::new("tmux").arg("-V").output().is_err() {
        ignore("there is no tmux");
    }
}

fn command(place: &Sandbox, args: &[&str]) -> String {
    let command = place.holdup(args);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    format!("HOLDUP_STATE_DIR=state HOLDUP_CACHE=cache {}", words.join(" "))
}

fn keys_in_a_terminal() {
    needs();
    let (place, server) = (Sandbox::new(), Server::start());
    let _load = server.load("100");
    let tmux = Tmux::start(&place, ("80", "24"), &command(&place, &["watch", "--pg", &server.url()]));
    tmux.shows("PostgreSQL, postmaster");
    // Six sessions update one row.
    tmux.shows("Lock:transactionid");
    let shown = tmux.screen();
    assert!(shown.lines().nth(1).is_some_and(|line| !line.trim().is_empty()), "the sentence is on top: {shown}");
    for (key, what) in [("2", "kind of process"), ("6", "took its CPU"), ("7", "waits for a CPU"), ("1", "wait event")]
    {
        tmux.press(&[key]);
        tmux.shows(what);
    }
    tmux.press(&["Enter"]);
    tmux.shows("Who ends these waits");
    tmux.press(&["?"]);
    tmux.shows("this help");
    tmux.press(&["Escape"]);
    tmux.press(&["Space"]);
    tmux.shows("PAUSED");
    tmux.press(&["Space"]);
    for (width, height) in [("1", "1"), ("2", "40"), ("59", "1"), ("50", "10")] {
        tmux.ask(&["resize-window", "-x", width, "-y", height]);
    }
    tmux.shows("takes 60 by 16");
    tmux.ask(&["resize-window", "-x", "120", "-y", "40"]);
    tmux.shows("? help");
    tmux.press(&["r"]);
    tmux.shows("wrote watch-1.holdup");
    place.expect(0, &["verify", "watch-1.holdup"]);
    tmux.press(&["q"]);
    tmux.shows("ended with 0");
    assert!(!tmux.screen().contains("? help"), "the screen before is back: {}", tmux.screen());
    server.cluster.discard().unwrap();
}

fn a_server_that_restarts_and_a_signal_that_ends_it() {
    needs();
    let (place, server) = (Sandbox::new(), Server::start());
    let words = command(&place, &["watch", "--pg", &server.url()]);
    let tmux =
        Tmux::start(&place, ("100", "30"), &format!("sh -c 'echo $$ > pid; exec env {}'", words.replace('\'', "\"")));
    tmux.shows("kept");
    server.cluster.restart().unwrap();
    wait_for("the restarted server", || {
        let pid = server.cluster.pid().unwrap();
        tmux.screen().contains(&format!("postmaster {pid}"))
    });
    let pid = std::fs::read_to_string(place.path("pid")).unwrap();
    assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
    tmux.shows("ended with 0");
    server.cluster.discard().unwrap();
}

fn tasks_and_their_stacks() {
    needs();
    let (place, server) = (Sandbox::new(), Server::start());
    place.write("one.sql", "SELECT count(*) FROM pgbench_accounts WHERE abalance > 0;\n");
    let script = place.path("one.sql").display().to_string();
    let mut load = server.pgbench(&["-c", "4", "-n", "-T", "100", "-f", &script]);
    let _load = Load(load.env("PGOPTIONS", "-c compute_query_id=on").spawn().unwrap());
    let tmux = Tmux::start(&place, ("80", "40"), &command(&place, &["watch", "--pg", &server.url()]));
    tmux.shows("PostgreSQL, postmaster");
    tmux.press(&["3"]);
    tmux.shows("others together");
    let shown = tmux.screen();
    assert!(shown.contains("client backend") && !shown.contains("WITH STACKS"), "{shown}");
    // The one that computes most is on top.
    tmux.press(&["Enter"]);
    tmux.shows("It leaves its CPU");
    tmux.shows("WITH STACKS");
    tmux.shows("On a CPU, in");
    tmux.shows("heap");
    wait_for("stacks off the CPU", || {
        let shown = tmux.screen();
        let off = shown.split("Off the CPU, by time").nth(1).unwrap_or_default();
        off.contains(" %  ")
    });
    // Such a query has its sessions for itself.
    tmux.press(&["Escape", "4", "Enter"]);
    tmux.shows("What sessions in query");
    wait_for("the stacks of a query", || {
        let shown = tmux.screen();
        let on = shown.split("On a CPU, in").nth(1).unwrap_or_default();
        on.contains("heap")
    });
    tmux.press(&["q"]);
    tmux.shows("ended with 0");
    server.cluster.discard().unwrap();
}

/// Threads that sleep and wake in turn until the one that started them is gone, or for ten minutes.
fn many_sleepers() {
    let woken_at = |n: u64| Duration::from_millis(1_000 + n * 7 % 1_000);
    let begun = Instant::now();
    for n in 0..MANY {
        let thread = std::thread::Builder::new().name("sleeper".to_owned()).stack_size(16 << 10);
        let sleeps = move || {
            while begun.elapsed() < Duration::from_secs(600) {
                std::thread::sleep(woken_at(n));
            }
        };
        if let Err(e) = thread.spawn(sleeps) {
            // The other end of the pipe reads why there are fewer.
            println!("after {n} threads: {e}");
            return;
        }
    }
    println!("{MANY} threads sleep");
    // The end of standard input is the end of the test.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

const MANY: u64 = 10_000;

fn ten_thousand_tasks() {
    needs();
    let place = Sandbox::new();
    let mut sleepers = Command::new(std::env::current_exe().unwrap());
    sleepers.args(["--ignored", "--exact", "watching::many_sleepers", "--nocapture"]);
    let mut sleepers = sleepers.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let said = std::io::BufReader::new(sleepers.stdout.take().unwrap()).lines();
    let said = said.map_while(Result::ok).find(|line| line.contains(" threads")).unwrap_or_default();
    if !said.contains("threads sleep") {
        sleepers.kill().unwrap();
        sleepers.wait().unwrap();
        ignore(format!("this host has no room for {MANY} threads: {said}"));
    }
    let pid = sleepers.id().to_string();
    let (out, _) = place.expect(0, &["watch", "--once", "--pid", &pid]);
    assert!(out.contains("process ") && out.lines().count() == 24, "{out}");
    let tmux = Tmux::start(&place, ("80", "24"), &command(&place, &["watch", "--pid", &pid]));
    tmux.press(&["3"]);
    wait_for("the others", || {
        let shown = tmux.screen();
        let others = shown.split("all ").skip(1).find_map(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        others.is_some_and(|others| others > MANY * 9 / 10)
    });
    let shown = tmux.screen();
    assert!(shown.contains(" sleeper of "), "{shown}");
    tmux.press(&["Enter"]);
    tmux.shows("On a CPU, in");
    tmux.press(&["q"]);
    tmux.shows("ended with 0");
    drop(sleepers.stdin.take());
    sleepers.wait().unwrap();
}

/// It ends with its terminal, also where no signal says that this is closed.
fn a_terminal_that_is_closed() {
    needs();
    let watched = Load(Command::new("sleep").arg("300").spawn().unwrap());
    let pid = watched.pid();
    // With setsid it is in no session of the terminal, and nothing but the terminal itself says that it is gone.
    for with in ["exec env", "exec setsid env"] {
        let place = Sandbox::new();
        let words = command(&place, &["watch", "--pid", &pid]).replace('\'', "\"");
        let tmux = Tmux::start(&place, ("80", "24"), &format!("sh -c 'echo $$ > pid; {with} {words}'"));
        tmux.shows("process ");
        let pid = std::fs::read_to_string(place.path("pid")).unwrap();
        assert!(runs(&pid), "{pid}");
        drop(tmux);
        wait_for("the end of a watch without a terminal", || !runs(&pid));
    }
}

fn runs(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

fn a_terminal_without_colours() {
    needs();
    let watched = Load(Command::new("sleep").arg("300").spawn().unwrap());
    // Cyan, of eight colours or of 256.
    let cyan = ["\u{1b}[36m", "\u{1b}[38;5;6m"];
    let coloured = |tmux: &Tmux| {
        let screen = tmux.ask(&["capture-pane", "-e", "-p"]);
        cyan.iter().any(|code| screen.contains(code))
    };
    // Each has its folder: a server of tmux needs a moment to end.
    for (set, has_colour) in [("NO_COLOR=1", false), ("NO_COLOR=", true)] {
        let place = Sandbox::new();
        let words = command(&place, &["watch", "--pid", &watched.pid()]);
        let tmux = Tmux::start(&place, ("80", "24"), &format!("export {set}; {words}"));
        // Nothing is coloured before.
        wait_for("a window", || {
            tmux.screen().contains("? help") && !tmux.screen().contains("The first window has not")
        });
        assert_eq!(coloured(&tmux), has_colour, "{set}: {}", tmux.screen());
        tmux.press(&["q"]);
        tmux.shows("ended with 0");
    }
    let place = Sandbox::new();
    let words = command(&place, &["watch", "--pid", &watched.pid()]);
    let tmux = Tmux::start(&place, ("80", "24"), &format!("export TERM=dumb; {words}"));
    tmux.shows("ended with 2");
    let shown = tmux.screen();
    assert!(shown.contains("dumb") && shown.contains("--once") && !shown.contains("? help"), "{shown}");
}

fn outputs_for_scripts() {
    needs();
    let (place, server) = (Sandbox::new(), Server::start());
    let _load = server.load("60");
    let (out, _) = place.expect(0, &["watch", "--once", "--pg", &server.url()]);
    assert_eq!(out.lines().count(), 24, "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert!(out.contains("Lock:transactionid") && !out.contains('\u{1b}'), "{out}");
    let mut child = place.start(&["watch", "--json-lines", "--pg", &server.url()]);
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let objects: Vec<Value> = lines.take(3).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    // Nothing reads its lines any more.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for object in &objects {
        assert_eq!(object["schema"], "holdup.watch/1");
        let tasks: f64 = object["states"].as_array().unwrap().iter().map(|s| s["tasks"].as_f64().unwrap()).sum();
        assert!(tasks > 0.0 && tasks < 8.0, "{object:#}");
        assert!(object["answer"].is_string(), "{object:#}");
    }
    common::refused(&place, 2, &["watch", "--pg", &server.url()], &["it is no terminal", "--json-lines"]);
    common::refused(&place, 2, &["watch", "--pid", "4000000"], &["no such process"]);
    server.cluster.discard().unwrap();
}

holdup_testkit::tests!(
    alone:
    outputs_for_scripts;
    long:
    keys_in_a_terminal,
    tasks_and_their_stacks,
    ten_thousand_tasks,
    a_server_that_restarts_and_a_signal_that_ends_it,
    a_terminal_that_is_closed,
    a_terminal_without_colours;
    by_hand:
    many_sleepers
);
