//! Two ends of a trial on two hosts: real sshd in network namespaces, and a real PostgreSQL between them.

use super::common::{Sandbox, program, texts};
use super::server::missing;
use holdup_model::{BundleData, Measured, Trial, TrialStatus};
use holdup_testkit::ignore;
use std::process::{Command, Output};

/// Runs a shell script in the lab; `$R` is a run of pgbench on both hosts that wants `--out` and times, `$H` is holdup, and
/// `$E` makes a run one of both hosts.
fn lab(place: &Sandbox, script: &str) -> Output {
    lab_of(place, "srv cli", script)
}

/// The same with these hosts.
pub(super) fn lab_of(place: &Sandbox, hosts: &str, script: &str) -> Output {
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
        "H={}\nR=\"$H run pgbench --set hosts.server=srv --set scale=1 --set clients=2 --set aa=false --warmup 200ms --blocks 1\"\n\
         E='--set hosts.server=srv --set hosts.client=cli --set aa=false --set retries=20 --warmup 200ms --blocks 1'\n",
        program().display()
    );
    let script = place.write("script.sh", &format!("{run}{script}"));
    Command::new("unshare")
        .args(["-n", "-m", "--propagation", "private", "sh", lab])
        .arg(&folder)
        .arg("sh")
        .arg(script)
        .current_dir(place.path(""))
        .env("HOSTS", hosts)
        .env("HOLDUP_STATE_DIR", place.path("state"))
        .env("HOLDUP_CACHE", place.path("cache"))
        .env("HOLDUP_WAIT", "0s")
        .output()
        .unwrap()
}

pub(super) fn bundle(place: &Sandbox, file: &str) -> BundleData {
    holdup_bundle::read(&place.path(file)).unwrap()
}

/// The only trial that counts.
#[track_caller]
pub(super) fn only_trial(bundle: &BundleData) -> &Trial {
    let all: Vec<&Trial> = bundle.trials.iter().filter(|trial| trial.status == TrialStatus::Done).collect();
    let [one] = all.as_slice() else { panic!("{} trials count of {:#?}", all.len(), bundle.trials) };
    one
}

pub(super) fn metric<'a>(trial: &'a Trial, id: &str) -> &'a Measured {
    &trial.measurements.iter().find(|m| m.metric == id).unwrap_or_else(|| panic!("no {id}")).value
}

#[track_caller]
pub(super) fn value(trial: &Trial, id: &str) -> f64 {
    metric(trial, id).value().unwrap_or_else(|| panic!("{id}: {:?}", metric(trial, id)))
}

/// What times between both clocks may be off, as the notes say, us.
#[track_caller]
fn clock_error_us(trial: &Trial) -> f64 {
    let said = trial.notes.iter().find_map(|note| note.strip_suffix(" us at most")?.rsplit_once(" off by "));
    said.unwrap_or_else(|| panic!("{:?}", trial.notes)).1.parse().unwrap()
}

pub(super) fn fact(bundle: &BundleData, key: &str) -> Option<String> {
    let all = bundle.environment.iter().flat_map(|reading| &reading.facts);
    all.filter(|fact| fact.key == key).find_map(|fact| fact.value.clone())
}

#[track_caller]
pub(super) fn says(place: &Sandbox, file: &str, words: &[&str]) {
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
    let bundle = bundle(&place, "a.holdup");
    let fact = |key: &str| fact(&bundle, key);
    assert_eq!((fact("ssh.host"), fact("client.ssh.host")), (Some("srv".to_owned()), Some("cli".to_owned())));
    for key in ["client.kernel.release", "client.pgbench.version", "postgres.version"] {
        assert!(fact(key).is_some(), "{key} is missing");
    }
    let number = |key: &str| fact(key).unwrap().parse::<f64>().unwrap();
    // It is one machine with one clock.
    assert!(number("ends.clock_offset_ms").abs() <= number("ends.clock_offset_error_ms"));
    let counting: Vec<_> = bundle.trials.iter().filter(|t| t.status == TrialStatus::Done).collect();
    assert_eq!(counting.len(), 2, "{err}");
    for trial in counting {
        let tps = trial.measurements.iter().find(|m| m.metric == "tps").unwrap();
        assert!(matches!(tps.value, Measured::Value(tps) if tps > 1.0), "{tps:?}");
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

pub(super) fn messages_and_streams_go_from_one_host_to_another() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "for mode in write read both; do\n\
           $H run stream $E --duration 2s --mode $mode --connections 3 --workers 2 --out stream-$mode.holdup || exit 1\n\
         done\n\
         for protocol in udp tcp; do\n\
           $H run ping $E --duration 2s --protocol $protocol --out ping-$protocol.holdup || exit 1\n\
           $H run ping $E --set hosts.address=fd99::2 --duration 2s --protocol $protocol --size 13 --out six-$protocol.holdup || exit 1\n\
         done\n\
         $H run stream $E --set hosts.address=fd99::2 --duration 2s --out stream-six.holdup || exit 1\n\
         $H run ping $E --duration 2s --mode under-load --sharing threads --out under-load.holdup || exit 1\n\
         for sharing in threads processes; do\n\
           $H run messenger $E --duration 2s --transport tcp --groups 2 --senders 2 --receivers 2 --sharing $sharing \\\n\
             --out messenger-$sharing.holdup || exit 1\n\
         done\n\
         $H run messenger $E --transport tcp --groups 1 --messages 200 --out work.holdup || exit 1\n\
         ip netns exec srv ss -ltnH > listen.txt",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(err.contains("clocks: the client's is "), "{err}");
    for mode in ["write", "read", "both", "six"] {
        let bundle = bundle(&place, &format!("stream-{mode}.holdup"));
        let trial = only_trial(&bundle);
        assert_eq!(value(trial, "bytes_sent"), value(trial, "bytes_received"), "{mode}");
        assert!(value(trial, "throughput_gbit_per_s") > 0.0, "{mode}");
        assert!(value(trial, "client_cpu_s_per_gb") > 0.0 && value(trial, "server_cpu_s_per_gb") > 0.0, "{mode}");
        assert_eq!(
            (fact(&bundle, "ssh.host"), fact(&bundle, "client.ssh.host")),
            (Some("srv".into()), Some("cli".into()))
        );
        let number = |key: &str| fact(&bundle, key).unwrap().parse::<f64>().unwrap();
        // It is one machine with one clock, but the client's CLOCK_MONOTONIC may have an offset: see lab.sh.
        assert!(number("ends.clock_offset_ms").abs() <= number("ends.clock_offset_error_ms"));
        let apart_ms = number("ends.monotonic_offset_ms");
        let error_ms = number("ends.clock_offset_error_ms");
        assert!(apart_ms.abs() <= error_ms || (apart_ms - 1e8).abs() <= error_ms, "{apart_ms} within {error_ms}");
    }
    for file in ["ping-udp", "ping-tcp", "six-udp", "six-tcp", "under-load"] {
        let bundle = bundle(&place, &format!("{file}.holdup"));
        let trial = only_trial(&bundle);
        let lost =
            value(trial, "messages_dropped") + value(trial, "replies_dropped") + value(trial, "lost_unaccounted");
        let missing = value(trial, "messages_sent") - value(trial, "messages_received");
        assert!(
            (0.0..=lost).contains(&missing) && (!file.ends_with("tcp") || lost == 0.0),
            "{file}: {missing} of {lost}"
        );
        assert!(value(trial, "rtt_p50_us") > 0.0 && value(trial, "cpu_ns_per_message") > 0.0, "{file}");
        // A way is shorter than the way there and back.
        match (file.starts_with("six"), metric(trial, "one_way_p50_us")) {
            (false, _) => decided(trial, "one_way_p50_us", value(trial, "rtt_max_us").max(1e6)),
            (true, time) => assert!(matches!(time, Measured::Absent(why) if why.contains("13 bytes")), "{time:?}"),
        }
        assert!(trial.histograms.iter().any(|histogram| histogram.name == "latency"), "{file}");
    }
    messages_came(&place);
    // Its sshd, and no service any more.
    let listening = std::fs::read_to_string(place.path("listen.txt")).unwrap();
    assert_eq!(listening.lines().count(), 1, "{listening}");
}

/// What the runs of messenger brought.
fn messages_came(place: &Sandbox) {
    for file in ["messenger-threads", "messenger-processes", "work"] {
        let bundle = bundle(place, &format!("{file}.holdup"));
        let trial = only_trial(&bundle);
        assert_eq!(value(trial, "messages_sent"), value(trial, "messages_received"), "{file}");
        assert!(value(trial, "messages_per_s") > 0.0 && value(trial, "cpu_us_per_message") > 0.0, "{file}");
        decided(trial, "latency_p50_us", 60e6);
        match file {
            "work" => {
                assert_eq!(value(trial, "messages_sent"), 200.0 * 20.0 * 20.0);
                assert!((clock_error_us(trial) / 1e6..60.0).contains(&value(trial, "total_time_s")));
            }
            _ => assert!(matches!(metric(trial, "total_time_s"), Measured::Absent(_))),
        }
    }
}

/// A time between two clocks is above what they may be off, and no longer than a trial, or it is withheld.
#[track_caller]
fn decided(trial: &Trial, id: &str, longest_us: f64) {
    let error_us = clock_error_us(trial);
    match metric(trial, id) {
        Measured::Value(us) => assert!(*us > error_us - 0.1 && *us <= longest_us, "{id}: {us} us, {error_us} us"),
        Measured::Absent(why) => assert!(why.contains("not decidable"), "{id}: {why}"),
    }
}

/// Messages that wait in a queue of the link are late by far more than the clocks may be off.
pub(super) fn a_queue_between_the_hosts_shows_in_the_one_way_times() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "ip netns exec cli tc qdisc add dev e0 root tbf rate 20mbit burst 16kb latency 100ms || exit 9\n\
         $H run ping $E --duration 2s --mode throughput --rate 10000 --size 1000 --out queue.holdup || exit 1",
    );
    let (out, err) = texts(&output);
    if output.status.code() == Some(9) {
        ignore(format!("there is no tbf: {err}"));
    }
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let bundle = bundle(&place, "queue.holdup");
    let trial = only_trial(&bundle);
    let one_way_us = value(trial, "one_way_p50_us");
    assert!(one_way_us > 20_000.0 && one_way_us > clock_error_us(trial), "{one_way_us} us: {:?}", trial.notes);
    assert!(trial.histograms.iter().any(|histogram| histogram.name == "one_way"));
}

/// Others connect to the service while a trial runs: from the client host without the token, and from another host.
pub(super) fn strangers_are_not_served() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "$H run stream $E --duration 6s --out s.holdup > s.txt 2>&1 &\n\
         run=$!\n\
         for i in $(seq 300); do grep -q 'trial 1 ' s.txt && break; sleep 0.2; done\n\
         sleep 2\n\
         ip netns exec srv ss -ltnH > ports.txt\n\
         port=$(sed 's/.*10.99.0.2:\\([0-9]*\\).*/\\1/' ports.txt | grep -v 2222 | head -1)\n\
         call=\"exec 3<>/dev/tcp/10.99.0.2/$port; echo 'GET / HTTP/1.0' >&3; timeout 5 cat <&3 | wc -c\"\n\
         ip netns exec cli bash -c \"$call\" > cli.txt 2>&1\n\
         bash -c \"$call\" > other.txt 2>&1\n\
         ip netns exec srv bash -c \"exec 3<>/dev/tcp/127.0.0.1/$port\" > loopback.txt 2>&1\n\
         wait $run",
    );
    let (out, err) = texts(&output);
    let text = |file: &str| std::fs::read_to_string(place.path(file)).unwrap();
    assert_eq!(output.status.code(), Some(0), "{out}{err}{}", text("s.txt"));
    let bundle = bundle(&place, "s.holdup");
    let notes = &only_trial(&bundle).notes;
    for (from, why) in [("10.99.0.3:", "no message of holdup"), ("10.99.0.1:", "it is another host")] {
        let said = |note: &String| note.starts_with(&format!("the service: {from}")) && note.contains(why);
        assert!(notes.iter().any(said), "{from} {why}: {notes:#?}\n{}{}", text("ports.txt"), text("cli.txt"));
    }
    // The service listens at no other address.
    assert!(text("loopback.txt").contains("refused"), "{}", text("loopback.txt"));
}

pub(super) fn ends_that_cannot_be_are_refused_with_a_way_out() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "$R --set hosts.client=srv --duration 1s --out x.holdup 2> same.txt\n\
         $R --set hosts.client=missing.invalid --duration 1s --out x.holdup 2> unknown.txt\n\
         $R --set hosts.client=cli,cli --duration 1s --out x.holdup 2> two.txt\n\
         $R --set hosts.client=cli --pg host=x --duration 1s --out x.holdup 2> pg.txt\n\
         $R --set hosts.client=cli --target local --duration 1s --out x.holdup 2> target.txt\n\
         $R --set hosts.client=cli --set hosts.address=10.99.0.1 --duration 1s --out address.holdup 2> address.txt\n\
         $R --set hosts.client=cli --set hosts.address=missing.invalid --duration 1s --out name.holdup 2> name.txt\n\
         ip -n srv route add blackhole 10.99.0.3/32\n\
         $R --set hosts.client=cli --duration 1s --out blocked.holdup 2> blocked.txt\n\
         ip -n srv route del blackhole 10.99.0.3/32\n\
         $H run lock-contention $E --duration 1s --out x.holdup 2> kind.txt\n\
         $H run stream $E --duration 1s --out x.holdup --network veth 2> network.txt\n\
         $H run stream $E --duration 1s --out x.holdup --protocol udp 2> datagrams.txt\n\
         $H run ping $E --duration 1s --out x.holdup --protocol unix-stream 2> unix.txt\n\
         $H run ping $E --duration 1s --out x.holdup --placement same-cpu 2> placement.txt\n\
         $H run messenger $E --duration 1s --out x.holdup 2> transport.txt\n\
         $R --set hosts.client=cli --duration 1s --out after.holdup 2> after.txt",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    says(&place, "same.txt", &["both ends are srv", "hint: --target ssh:srv without [hosts]"]);
    says(&place, "unknown.txt", &["host missing.invalid: there is no host of this name"]);
    says(&place, "two.txt", &["cli is named twice"]);
    says(&place, "pg.txt", &["with [hosts] holdup starts the server", "hint: --target ssh:cli --pg URL"]);
    says(&place, "target.txt", &["[hosts] has the target ssh:srv"]);
    says(&place, "address.txt", &["PostgreSQL at 10.99.0.1 on srv", "must be one of the server's own"]);
    says(&place, "name.txt", &["the server as `missing.invalid` on cli", "address in [hosts] is the name"]);
    says(&place, "blocked.txt", &["the client host cannot connect to it", "firewall"]);
    says(&place, "kind.txt", &["lock-contention has no two ends", "hint: leave [hosts] away"]);
    says(&place, "network.txt", &["network with [hosts]", "the network is the one between the hosts"]);
    says(&place, "datagrams.txt", &["protocol udp with [hosts]", "hint: protocol = tcp"]);
    says(&place, "unix.txt", &["protocol unix-stream with [hosts]", "hint: protocol = udp or tcp"]);
    says(&place, "placement.txt", &["placement with [hosts]", "each host places its own end"]);
    says(&place, "transport.txt", &["transport socketpair with [hosts]", "hint: transport = tcp"]);
    let after = std::fs::read_to_string(place.path("after.txt")).unwrap();
    assert!(!after.contains("an earlier agent"), "both hosts ended: {after}");
    assert!(!place.path("x.holdup").exists());
}

pub(super) fn an_end_that_disappears_makes_the_trial_void_and_both_are_restored() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "before=$(cat /proc/sys/vm/swappiness)\n\
         for pair in pgbench-cli messenger-srv; do kind=${pair%-*}; end=${pair#*-}\n\
           case $kind in\n\
             pgbench) more='--set scale=1 --set clients=2' ;;\n\
             messenger) more='--transport tcp --groups 1 --senders 2 --receivers 2' ;;\n\
             *) more= ;;\n\
           esac\n\
           out=$pair\n\
           $H run $kind $E $more --vary swappiness=11,12 --duration 4s --out $out.holdup > $out.txt 2>&1 &\n\
           run=$!\n\
           for i in $(seq 300); do grep -q 'trial 1 ' $out.txt && break; sleep 0.2; done\n\
           sleep 3\n\
           kill -9 $(pgrep -f \"^$PWD/lab/$end/home/.cache/holdup/bin/[^ ]* agent\")\n\
           wait $run; echo \"code $?\" >> $out.txt\n\
           echo \"swappiness $(cat /proc/sys/vm/swappiness) of $before\" >> $out.txt\n\
           pgrep -f \"$PWD/lab/[a-z]*/home\" >> left.txt\n\
         done; true",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    for pair in ["pgbench-cli", "messenger-srv"] {
        let file = format!("{pair}.txt");
        let text = std::fs::read_to_string(place.path(&file)).unwrap();
        let lost = if pair.ends_with("cli") { "client host cli" } else { "host srv" };
        says(&place, &file, &["code 0", lost, "was killed"]);
        let (now, before) = text.rsplit_once("swappiness ").unwrap().1.split_once(" of ").unwrap();
        assert_eq!(now.trim(), before.trim(), "{text}");
        let trials = bundle(&place, &format!("{pair}.holdup")).trials;
        let void = trials.iter().filter(|t| matches!(t.status, TrialStatus::Void { .. })).count();
        // A busy machine voids others as well.
        assert!(trials.len() - void == 2 && void >= 1, "{text}");
    }
    assert_eq!(std::fs::read_to_string(place.path("left.txt")).unwrap(), "", "no agent stays");
}

/// Each line in turn, cut at every 25th message of a run of one trial until a run is over before; at each, and with two clients,
/// with HOLDUP_CUT_EACH=1, which takes an hour.
pub(super) fn a_line_of_two_ends_that_is_cut_at_any_message_leaves_both_hosts_as_they_were() {
    let place = Sandbox::new();
    let clients = if std::env::var("HOLDUP_CUT_EACH").is_ok_and(|n| n == "1") { "cli far" } else { "cli" };
    let script = format!(
        "before=$(cat /proc/sys/vm/swappiness)\n\
         run() {{ $H run messenger --set hosts.server=srv --set hosts.client={commas} --set aa=false --blocks 1 --warmup 20ms \\\n\
           --duration 50ms --transport tcp --groups 2 --senders 1 --receivers 1 --set swappiness=11 --dead-after 3s --out $1.holdup > $1.txt 2>&1; }}\n\
         run whole || {{ cat whole.txt; exit 1; }}\n\
         real=$HOLDUP_SSH; first=$((${{HOLDUP_CUT_EACH:-5}} > 1 ? 5 : 1))\n\
         for end in {clients} srv; do for at in $(seq $first ${{HOLDUP_CUT_EACH:-25}} 200); do\n\
           out=$end-$at\n\
           export {CUTTER}=close:$at:$PWD/count-$out:$end HOLDUP_SSH=\"{cutter} ${{real#ssh }}\"\n\
           run $out; code=$?\n\
           [ $(cat count-$out) -ge $at ] || break\n\
           for i in $(seq 150); do pgrep -f \"^$PWD/lab/[a-z]*/home/.cache/holdup/bin/\" > left-$out || break; sleep 0.2; done\n\
           echo $end $at $code $(cat /proc/sys/vm/swappiness) $before $(wc -l < left-$out) >> cuts.txt\n\
         done; done; true",
        CUTTER = super::cutter::CUTTER,
        cutter = std::env::current_exe().unwrap().display(),
        commas = clients.replace(' ', ","),
    );
    let output = lab_of(&place, &format!("srv {clients}"), &script);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let cuts = std::fs::read_to_string(place.path("cuts.txt")).unwrap();
    let mut bundles = 0;
    for cut in cuts.lines() {
        let [end, at, code, now, before, left] = cut.split(' ').collect::<Vec<_>>()[..] else { panic!("{cut}") };
        let said = std::fs::read_to_string(place.path(&format!("{end}-{at}.txt"))).unwrap();
        assert!(!said.contains("panicked"), "{cut}: {said}");
        assert_eq!((now, left), (before, "0"), "{cut}: {said}");
        let file = place.path(&format!("{end}-{at}.holdup"));
        if file.exists() {
            bundles += 1;
            assert!(
                place.holdup(&["verify", &file.display().to_string()]).status().unwrap().success(),
                "{cut}: {said}"
            );
            // 5: whether a host was restored cannot be known over a line that stays cut.
            assert!(["0", "3", "5"].contains(&code), "{cut}: {said}");
            assert!(code != "5" || said.contains("whether it was restored is not known"), "{cut}: {said}");
        } else {
            assert_eq!(code, "3", "{cut}: {said}");
        }
    }
    let of = |end: &str| cuts.lines().filter(|cut| cut.starts_with(end)).count();
    let lines: Vec<usize> = clients.split(' ').chain(["srv"]).map(of).collect();
    assert!(lines.iter().all(|n| *n > 1) && bundles > 0, "{bundles} bundles\n{cuts}");
    println!("messages of the lines of {clients} srv: {lines:?}; {bundles} partial bundles");
}

pub(super) fn sessions_run_on_two_hosts_at_the_same_time() {
    let place = Sandbox::new();
    let output = lab(
        &place,
        "$H run command --target ssh:srv,cli --parallel 2 --set design.sessions=2 --set aa=false --blocks 1 \\\n\
           --duration 10ms --warmup 0s --out p.holdup -- sleep 3",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let bundle = bundle(&place, "p.holdup");
    let [first, second] = bundle.trials.as_slice() else { panic!("{} trials\n{err}", bundle.trials.len()) };
    assert_ne!(first.session, second.session);
    assert!(
        first.started_unix_ns < second.ended_unix_ns && second.started_unix_ns < first.ended_unix_ns,
        "they overlap: {first:?} {second:?}"
    );
}
