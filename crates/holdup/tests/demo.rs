//! What a newcomer sees first, measured: the demo and the locks of the bench, with the program that people get.

use crate::{common, recording};
use common::{Sandbox, texts};
use holdup_testkit::ignore;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first sentence of each arm, without its name.
fn sentences(explained: &Value) -> Vec<String> {
    let arms = explained["arms"].as_array().expect("arms");
    arms.iter().map(|arm| arm["answer"].as_str().expect("an answer").to_owned()).collect()
}

fn explained(place: &Sandbox, bundle: &str) -> Value {
    // Its exit code says whether there is a cause.
    let (out, err) = texts(&place.output(&["explain", bundle, "--json"]));
    println!("{out}{}", texts(&place.output(&["list", "trials", bundle])).0);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
}

/// Keeps a bundle for the gate, with what it says first.
fn keep(place: &Sandbox, bundle: &str, first: &str, says: &str) {
    let bundle = holdup_bundle::read(&place.path(bundle)).expect("it reads");
    recording::keep(&bundle, &recording::Demand { first: &[first], says, ..Default::default() });
}

fn needs_bpf() {
    if !common::is_root() {
        ignore("only root sees holders of locks");
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is here")
}

/// A sentence without its numbers, and its lines joined.
fn form(sentence: &str) -> String {
    let words = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut form = String::new();
    for letter in words.chars() {
        let letter = if letter.is_ascii_digit() { '0' } else { letter };
        if !(letter == '0' && form.ends_with('0')) {
            form.push(letter);
        }
    }
    form
}

fn the_demo_names_preempted_holders() {
    needs_bpf();
    let place = Sandbox::new();
    let plan = repository().join("plans/demo.toml");
    place.expect(0, &["run", plan.to_str().expect("UTF-8"), "--out", "demo.holdup", "--quiet"]);
    let said = sentences(&explained(&place, "demo.holdup"));
    assert!(said[0].starts_with("Lock-holder preemption: ") && said[0].contains("lock-contention: tas"), "{said:?}");
    assert!(!said[1].starts_with("Lock"), "a lock that sleeps has no such problem: {said:?}");
    let shown =
        std::fs::read_to_string(repository().join("docs/images/demo.txt")).expect("script/demo-picture wrote it");
    assert_eq!(form(&shown), form(&said[0]), "the picture shows another sentence: script/demo-picture makes it anew");
    keep(&place, "demo.holdup", "preempted-holder", "lock-contention: tas");
}

/// The first sentence on a spin lock with more processes than CPUs begins with a cause, and says more.
fn of_spin_lock(id: &str, (cause, begins): (&str, &str), says: &str) {
    needs_bpf();
    let place = Sandbox::new();
    let run = format!(
        "run lock-contention --threads 8 --sharing processes --algorithm {id} --duration 800ms --warmup 200ms --blocks 4 --quiet \
         --set aa=false --set section=10us --set think=5us --collect cpu,switches,critical-sections,faults --out l.holdup"
    );
    place.expect(0, &run.split_whitespace().collect::<Vec<_>>());
    let said = sentences(&explained(&place, "l.holdup")).remove(0);
    assert!(said.starts_with(begins) && said.contains(says), "{said}");
    keep(&place, "l.holdup", cause, says);
}

/// Holders are preempted while waiters spin.
fn names_preempted_holders_of(id: &str) {
    of_spin_lock(id, ("preempted-holder", "Lock-holder preemption: "), &format!("lock-contention: {id}"));
}

fn tas() {
    names_preempted_holders_of("tas");
}

fn ttas() {
    names_preempted_holders_of("ttas");
}

fn ttas_without_a_pause() {
    names_preempted_holders_of("ttas-no-pause");
}

fn ttas_with_back_off() {
    names_preempted_holders_of("ttas-backoff");
}

/// Waiters sleep after some turns: a preempted holder is back after 0.1 to 0.2 ms, and what is left is contention.
fn spin_lock_of_postgresql() {
    of_spin_lock("postgres-s-lock", ("spin-wait", "Lock contention: "), "whose holder runs");
}

fn spin_lock_of_the_c_library() {
    names_preempted_holders_of("pthread-spin");
}

/// Commands of a page of the documentation, each run.
fn commands_of(pages: &[&str]) {
    let output = Command::new(repository().join("script/site-commands"))
        .arg(common::program())
        .args(pages)
        .current_dir(repository())
        .output()
        .expect("sh");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
}

fn tutorial_of_the_operator() {
    commands_of(&["docs/tutorials/operator.md"]);
}

fn tutorial_of_the_dba() {
    commands_of(&["docs/tutorials/dba.md"]);
}

fn tutorial_of_the_kernel_developer() {
    commands_of(&["docs/tutorials/kernel-developer.md"]);
}

fn tutorial_of_the_author_of_a_server() {
    commands_of(&["docs/tutorials/server-author.md"]);
}

/// The whole script, its build included, in a clean clone, as this user and as one without rights.
fn the_demo_runs_in_a_clean_clone() {
    let top = Sandbox::new();
    let clone = top.path("clone");
    let git = Command::new("git").args(["clone", "--quiet"]).arg(repository()).arg(&clone).status().expect("git");
    assert!(git.success());
    let target = repository().join("target/demo-clone");
    let mut commands = vec![Command::new("script/demo")];
    if common::is_root() {
        // The build is there by then, and is the same for all users.
        let mut as_user = Command::new("setpriv");
        as_user
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "script/demo"])
            .env("HOME", top.path("home"));
        as_user.env("HOLDUP_PROGRAM", target.join("x86_64-unknown-linux-gnu/demo/holdup"));
        commands.push(as_user);
    }
    for mut command in commands {
        let output = command.current_dir(&clone).env("CARGO_TARGET_DIR", &target).output().expect("sh");
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
        for part in ["demo.holdup", "demo.html"] {
            std::fs::remove_file(clone.join(part)).expect("the demo leaves it");
        }
        Command::new("chmod").args(["-R", "a+rwX"]).arg(&clone).status().expect("chmod");
    }
}

holdup_testkit::tests!(
    truth:
    the_demo_names_preempted_holders,
    the_demo_runs_in_a_clean_clone,
    tas,
    ttas,
    ttas_without_a_pause,
    ttas_with_back_off,
    spin_lock_of_postgresql,
    spin_lock_of_the_c_library,
    tutorial_of_the_operator,
    tutorial_of_the_dba,
    tutorial_of_the_kernel_developer,
    tutorial_of_the_author_of_a_server
);
