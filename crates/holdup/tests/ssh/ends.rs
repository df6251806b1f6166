//! Two ends of a trial on two hosts: real sshd in network namespaces, and a real PostgreSQL between them.

use super::common::{Sandbox, texts};
use super::server::missing;
use holdup_testkit::ignore;
use std::process::{Command, Output};

/// Runs a shell script in the lab; `$R` is a run of pgbench on both hosts that wants `--out` and times.
fn lab(place: &Sandbox, script: &str) -> Output {
    if let Some(reason) = missing() {
        ignore(reason);
    }
    if Command::new("ip").arg("-V").output().is_err() {
        ignore("there is no ip (Debian: apt-get install iproute2)");
    }
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ssh/lab.sh");
    let folder = place.path("lab");
    std::fs::create_dir(&folder).unwrap();
    // The shell of an end must be able to enter the folder as PostgreSQL's user too.
    let run = format!(
        "R='{} run pgbench --set hosts.server=srv --set scale=1 --set clients=2 --set aa=false --warmup 200ms --blocks 1'\n",
        env!("CARGO_BIN_EXE_holdup")
    );
    let script = place.write("script.sh", &format!("{run}{script}"));
    Command::new("unshare")
        .args(["-n", "-m", "--propagation", "private", "sh", lab])
        .arg(&folder)
        .arg("sh")
        .arg(script)
        .current_dir(place.path(""))
        .env("HOLDUP_STATE_DIR", place.path("state"))
        .env("HOLDUP_CACHE", place.path("cache"))
        .env("HOLDUP_WAIT", "0s")
        .output()
        .unwrap()
}

#[track_caller]
fn says(place: &Sandbox, file: &str, words: &[&str]) {
    let text = std::fs::read_to_string(place.path(file)).unwrap();
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in {file}:\n{text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

pub(super) fn pgbench_on_one_host_loads_a_server_on_another() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "$R --set hosts.client=cli --vary clients=1,2 --set postgres.pool=cold --workdir /tmp --duration 1s --out a.holdup || exit 1\n\
         ip netns exec srv ss -ltnH > listen.txt",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let bundle = holdup_bundle::read(&place.path("a.holdup")).unwrap();
    let fact = |key: &str| {
        let all = bundle.environment.iter().flat_map(|reading| &reading.facts);
        all.filter(|fact| fact.key == key).find_map(|fact| fact.value.clone())
    };
    assert_eq!((fact("ssh.host"), fact("client.ssh.host")), (Some("srv".to_owned()), Some("cli".to_owned())));
    for key in ["client.kernel.release", "client.pgbench.version", "postgres.version"] {
        assert!(fact(key).is_some(), "{key} is missing");
    }
    let number = |key: &str| fact(key).unwrap().parse::<f64>().unwrap();
    // It is one machine with one clock.
    assert!(number("ends.clock_offset_ms").abs() <= number("ends.clock_offset_error_ms"));
    let counting: Vec<_> = bundle.trials.iter().filter(|t| t.status == holdup_model::TrialStatus::Done).collect();
    assert_eq!(counting.len(), 2, "{err}");
    for trial in counting {
        let tps = trial.measurements.iter().find(|m| m.metric == "tps").unwrap();
        assert!(matches!(tps.value, holdup_model::Measured::Value(tps) if tps > 1.0), "{tps:?}");
        assert!(
            trial.notes.iter().any(|note| note.contains("the window of the client host began")),
            "{:?}",
            trial.notes
        );
    }
    // Its sshd, and no PostgreSQL any more.
    let listening = std::fs::read_to_string(place.path("listen.txt")).unwrap();
    assert_eq!(listening.lines().count(), 1, "{listening}");
}

pub(super) fn ends_that_cannot_be_are_refused_with_a_way_out() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "$R --set hosts.client=srv --duration 1s --out x.holdup 2> same.txt\n\
         $R --set hosts.client=missing.invalid --duration 1s --out x.holdup 2> unknown.txt\n\
         $R --set hosts.client=cli,srv2 --duration 1s --out x.holdup 2> two.txt\n\
         $R --set hosts.client=cli --pg host=x --duration 1s --out x.holdup 2> pg.txt\n\
         $R --set hosts.client=cli --target local --duration 1s --out x.holdup 2> target.txt\n\
         $R --set hosts.client=cli --set hosts.address=10.99.0.1 --duration 1s --out address.holdup 2> address.txt\n\
         $R --set hosts.client=cli --set hosts.address=missing.invalid --duration 1s --out name.holdup 2> name.txt\n\
         ip -n srv route add blackhole 10.99.0.3/32\n\
         $R --set hosts.client=cli --duration 1s --out blocked.holdup 2> blocked.txt\n\
         ip -n srv route del blackhole 10.99.0.3/32\n\
         ${R%% *} run lock-contention --set hosts.server=srv --set hosts.client=cli --duration 1s --out x.holdup 2> kind.txt\n\
         $R --set hosts.client=cli --duration 1s --out after.holdup 2> after.txt",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    says(&place, "same.txt", &["both ends are srv", "hint: --target ssh:srv without [hosts]"]);
    says(&place, "unknown.txt", &["host missing.invalid: there is no host of this name"]);
    says(&place, "two.txt", &["it names 2 hosts, and an end is one"]);
    says(&place, "pg.txt", &["with [hosts] holdup starts the server", "hint: --target ssh:cli --pg URL"]);
    says(&place, "target.txt", &["[hosts] has the target ssh:srv"]);
    says(&place, "address.txt", &["PostgreSQL at 10.99.0.1 on srv", "must be one of the server's own"]);
    says(&place, "name.txt", &["the server as `missing.invalid` on cli", "address in [hosts] is the name"]);
    says(&place, "blocked.txt", &["the client host cannot connect to it", "firewall"]);
    says(&place, "kind.txt", &["lock-contention has no two ends", "hint: leave [hosts] away"]);
    let after = std::fs::read_to_string(place.path("after.txt")).unwrap();
    assert!(!after.contains("an earlier agent"), "both hosts ended: {after}");
    assert!(!place.path("x.holdup").exists());
}

pub(super) fn an_end_that_disappears_makes_the_trial_void_and_both_are_restored() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "before=$(cat /proc/sys/vm/swappiness)\n\
         for end in cli srv; do\n\
           $R --set hosts.client=$end --set hosts.client=cli --vary swappiness=11,12 --duration 4s --out $end.holdup > $end.txt 2>&1 &\n\
           run=$!\n\
           for i in $(seq 300); do grep -q 'trial 1 ' $end.txt && break; sleep 0.2; done\n\
           sleep 3\n\
           kill -9 $(pgrep -f \"^$PWD/lab/$end/home/.cache/holdup/bin/[^ ]* agent\")\n\
           wait $run; echo \"code $?\" >> $end.txt\n\
           echo \"swappiness $(cat /proc/sys/vm/swappiness) of $before\" >> $end.txt\n\
           pgrep -f \"$PWD/lab/[a-z]*/home\" >> left.txt\n\
         done; true",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    for (end, lost) in [("cli", "client host cli"), ("srv", "host srv")] {
        let file = format!("{end}.txt");
        let text = std::fs::read_to_string(place.path(&file)).unwrap();
        says(&place, &file, &["code 0", lost, "was killed"]);
        let (now, before) = text.rsplit_once("swappiness ").unwrap().1.split_once(" of ").unwrap();
        assert_eq!(now.trim(), before.trim(), "{text}");
        let bundle = holdup_bundle::read(&place.path(&format!("{end}.holdup"))).unwrap();
        let void = bundle.trials.iter().filter(|t| matches!(t.status, holdup_model::TrialStatus::Void { .. })).count();
        assert_eq!((bundle.trials.len() - void, void), (2, 1), "{text}");
    }
    assert_eq!(std::fs::read_to_string(place.path("left.txt")).unwrap(), "", "no agent stays");
}

pub(super) fn sessions_run_on_two_hosts_at_the_same_time() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "${R%% *} run command --target ssh:srv,cli --parallel 2 --set design.sessions=2 --set aa=false --blocks 1 \\\n\
           --duration 10ms --warmup 0s --out p.holdup -- sleep 3",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let bundle = holdup_bundle::read(&place.path("p.holdup")).unwrap();
    let [first, second] = bundle.trials.as_slice() else { panic!("{} trials\n{err}", bundle.trials.len()) };
    assert_ne!(first.session, second.session);
    assert!(
        first.started_unix_ns < second.ended_unix_ns && second.started_unix_ns < first.ended_unix_ns,
        "they overlap: {first:?} {second:?}"
    );
}
