//! `holdup watch` on a real PostgreSQL: driven by keys in tmux, and its outputs for scripts.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests, without libtest")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/server.rs"]
mod server;

use common::{Sandbox, is_root, wait_for};
use holdup_testkit::ignore;
use serde_json::Value;
use server::Server;
use std::process::Command;

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
    tmux.shows("PostgreSQL server with postmaster");
    // Six sessions update one row.
    tmux.shows("Lock:transactionid");
    let shown = tmux.screen();
    assert!(shown.lines().nth(1).is_some_and(|line| !line.trim().is_empty()), "the sentence is on top: {shown}");
    for (key, what) in [("2", "kind of process"), ("5", "took its CPU"), ("6", "waits for a CPU"), ("1", "wait event")]
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
    tmux.ask(&["resize-window", "-x", "50", "-y", "10"]);
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

fn outputs_for_scripts() {
    needs();
    let (place, server) = (Sandbox::new(), Server::start());
    let _load = server.load("60");
    let (out, _) = place.expect(0, &["watch", "--once", "--pg", &server.url()]);
    assert_eq!(out.lines().count(), 24, "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert!(out.contains("Lock:transactionid") && !out.contains('\u{1b}'), "{out}");
    let mut child = place.start(&["watch", "--json-lines", "--pg", &server.url()]);
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let objects: Vec<Value> = lines.take(3).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    common::signal(&child, rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for object in &objects {
        assert_eq!(object["schema"], "holdup.watch/1");
        let tasks: f64 = object["states"].as_array().unwrap().iter().map(|s| s["tasks"].as_f64().unwrap()).sum();
        assert!((0.5..8.0).contains(&tasks), "{object:#}");
        assert!(object["answer"].is_string(), "{object:#}");
    }
    common::refused(&place, 2, &["watch", "--pg", &server.url()], &["it is no terminal", "--json-lines"]);
    common::refused(&place, 2, &["watch", "--pid", "4000000"], &["no such process"]);
    server.cluster.discard().unwrap();
}

holdup_testkit::tests!(keys_in_a_terminal, a_server_that_restarts_and_a_signal_that_ends_it, outputs_for_scripts);
