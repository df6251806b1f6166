//! `holdup store`, `holdup history` and `holdup gate` as a user meets them, with a folder.

use crate::common;
use common::{Sandbox, refused, texts};
use holdup_model::bundle::Ending;
use serde_json::Value;

/// A simulated run of one plan; another seed is another run.
fn run(place: &Sandbox, seed: &str, out: &str) {
    let quick = "run lock-contention --target sim:server-8 --threads 4 --algorithm tas --duration 5ms --warmup 1ms --blocks 4 --quiet";
    let mut args: Vec<&str> = quick.split(' ').collect();
    args.extend(["--seed", seed, "--out", out]);
    place.expect(0, &args);
}

fn runs_are_kept_listed_given_back_and_judged() {
    let place = Sandbox::new();
    let files: Vec<String> = (1..=6).map(|seed| format!("{seed}.holdup")).collect();
    for (seed, file) in (1..).zip(&files) {
        run(&place, &i32::to_string(&seed), file);
    }
    let mut push = vec!["store", "push", "--store", "results"];
    push.extend(files.iter().take(5).map(String::as_str));
    assert!(place.expect(0, &push).1.contains("5 runs pushed"));
    assert!(place.expect(0, &push).1.contains("5 runs there already"));
    let (listed, _) = place.expect(0, &["store", "list", "--store", "results"]);
    assert!(listed.contains("lock-contention") && listed.contains("5 runs in the store"), "{listed}");
    assert!(listed.lines().count() <= 24 && listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    let (json, _) = place.expect(0, &["store", "list", "--store", "results", "--json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let id = json["runs"][0]["run_id"].as_str().expect("an id");
    place.expect(0, &["store", "pull", "--store", "results", &id[..8], "--out", "back.holdup"]);
    let kept = files.iter().map(|file| std::fs::read(place.path(file)).expect("a bundle"));
    let back = std::fs::read(place.path("back.holdup")).expect("the bundle");
    assert!(kept.into_iter().any(|bytes| bytes == back), "all its bytes come back");
    // Five runs are too few for a change, and enough for a gate.
    let history = ["history", "lock-contention", "--store", "results", "--html", "page.html"];
    let (said, _) = place.expect(3, &history);
    assert!(said.contains("too few") && said.contains("Times here are simulated"), "{said}");
    assert!(std::fs::read_to_string(place.path("page.html")).expect("a page").contains("<svg"));
    let gate =
        ["gate", "6.holdup", "--against", "results", "--margin", "50%", "--markdown", "g.md", "--junit", "g.xml"];
    let (said, _) = place.expect(0, &gate);
    assert!(said.contains("No regression"), "{said}");
    let text = |name: &str| std::fs::read_to_string(place.path(name)).expect("a file");
    assert!(text("g.md").starts_with("### ✓ No regression") && text("g.md").contains("| arm | metric |"));
    assert!(text("g.xml").contains("failures=\"0\"") && text("g.xml").contains("</testsuites>"));
    place.expect(0, &["store", "prune", "--store", "results", "--older-than", "1d", "--dry-run"]);
    assert!(place.expect(0, &["store", "list", "--store", "results"]).0.contains("5 runs"));
    place.expect(0, &["store", "prune", "--store", "results", "--older-than", "1d"]);
    assert!(place.expect(0, &["store", "list", "--store", "results"]).0.contains("0 runs"));
}

fn what_cannot_be_kept_or_judged_says_why() {
    let place = Sandbox::new();
    refused(&place, 2, &["store", "list"], &["none is named", "HOLDUP_STORE"]);
    refused(&place, 2, &["store", "list", "--store", "postgresql://u:geheim@h/d?sslmode=no"], &["sslmode"]);
    refused(&place, 3, &["store", "list", "--store", "host=/nowhere user=u"], &["/nowhere", "hint: "]);
    place.write("no.holdup", "no bundle");
    refused(&place, 2, &["store", "push", "--store", "results", "no.holdup"], &["no.holdup", "1 run not kept"]);
    refused(&place, 2, &["store", "pull", "--store", "results", "abc"], &["no such run", "holdup store list"]);
    refused(&place, 3, &["history", "demo", "--store", "results"], &["no such run"]);
    run(&place, "1", "one.holdup");
    let (said, _) = place.expect(3, &["gate", "one.holdup", "--against", "results"]);
    assert!(said.contains("Undecided") && said.contains("no run with this arm is kept"), "{said}");
}

fn a_gate_runs_a_plan_and_keeps_what_passed() {
    let place = Sandbox::new();
    place.write(
        "ours.toml",
        r#"
        name = "ours"
        question = "Did this change make the lock slower?"
        target = "sim:server-8"
        [[workload]]
        kind = "lock-contention"
        algorithm = ["tas"]
        threads = 4
        [design]
        blocks = 4
        warmup = "1ms"
        duration = "5ms"
        [[metric]]
        id = "operations_per_s"
        primary = true
        margin = "50%"
        "#,
    );
    let gate = |seed: i32, code: i32, part: &str, listed: &str| {
        let (seed, out) = (seed.to_string(), format!("{seed}.holdup"));
        let args = ["gate", "ours.toml", "--against", "results", "--push", "--quiet", "--seed", &seed, "--out", &out];
        let (said, _) = place.expect(code, &args);
        assert!(said.contains(part), "{said}");
        let (list, _) = place.expect(0, &["store", "list", "--store", "results"]);
        assert!(list.contains(listed), "{list}");
    };
    // What cannot be judged yet is kept too: that is how a store gets the runs to judge by.
    for seed in 1..=5 {
        gate(seed, 3, "Undecided", if seed == 1 { "1 run" } else { "runs in the store" });
    }
    gate(6, 0, "No regression", "6 runs in the store");
    place.expect(2, &["gate", "none.toml", "--against", "results"]);
}

fn what_a_bundle_says_of_itself_stays_in_its_line_and_names_no_file() {
    let place = Sandbox::new();
    run(&place, "1", "one.holdup");
    std::fs::create_dir(place.path("results")).expect("a folder");
    let mut data = holdup_bundle::read(&place.path("one.holdup")).expect("a bundle");
    data.ending = Some(Ending::Failed { reason: "\u{1b}[31mred\nerror: no".to_owned() });
    for (number, id) in ["\u{1b}[31mx\nerror: y", "W/s12345", "../aaaaaaaa", ".hid"].iter().enumerate() {
        (*id).clone_into(&mut data.head.run_id);
        holdup_watch::write(&data, &place.path(&format!("results/{number}.holdup"))).expect("is written");
    }
    let is_harmless = |text: &str| !text.contains('\u{1b}') && !text.lines().any(|line| line.starts_with("error: "));
    let (listed, _) = place.expect(0, &["store", "list", "--store", "results"]);
    assert!(is_harmless(&listed) && listed.contains("\\u001b[31mx e"), "{listed}");
    let (verified, _) = texts(&place.output(&["verify", "results/0.holdup"]));
    assert!(is_harmless(&verified) && verified.contains("failed (\\u001b[31mred error: no)"), "{verified}");
    // The file of a run of any id lies here.
    for (id, file) in [("W/s", "W_s12345.holdup"), ("../a", "___aaaaa.holdup")] {
        place.expect(0, &["store", "pull", "--store", "results", id]);
        assert!(place.path(file).is_file(), "{file}");
    }
    assert!(!place.path("../aaaaa.holdup").exists());
    let push = ["store", "push", "--store", "other", "results/3.holdup"];
    refused(&place, 3, &push, &["its run id \".hid\"", "hint: ", "1 run not kept"]);
}

holdup_testkit::tests!(
    runs_are_kept_listed_given_back_and_judged,
    what_cannot_be_kept_or_judged_says_why,
    what_a_bundle_says_of_itself_stays_in_its_line_and_names_no_file,
    a_gate_runs_a_plan_and_keeps_what_passed
);
