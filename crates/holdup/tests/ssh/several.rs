//! One server and two client hosts: three real sshd in network namespaces.

use super::common::{Sandbox, texts};
use super::ends::{bundle, fact, lab_of, metric, only_trial, says, value};
use holdup_model::{Measured, Trial, TrialStatus};

const HOSTS: &str = "srv cli far";

/// What a host brought of a metric, as the trial's notes say.
#[track_caller]
fn alone(trial: &Trial, host: &str, id: &str) -> f64 {
    let of_host = trial.notes.iter().find_map(|note| note.strip_prefix(&format!("{host} alone: ")));
    let numbers = of_host.unwrap_or_else(|| panic!("{host}: {:#?}", trial.notes)).split(", ");
    let found = numbers.filter_map(|number| number.split_once(' ')).find(|(metric, _)| *metric == id);
    found.unwrap_or_else(|| panic!("{host} {id}: {:#?}", trial.notes)).1.parse().unwrap()
}

/// The values of both hosts, which each did something, add up to that of the trial.
#[track_caller]
fn adds_up(trial: &Trial, id: &str) {
    let each = ["cli", "far"].map(|host| alone(trial, host, id));
    assert!(each.iter().all(|value| *value > 0.0), "{id}: {each:?}");
    let (sum, all) = (each.iter().sum::<f64>(), value(trial, id));
    assert!((sum - all).abs() <= 1e-5 * all, "{id}: {each:?} are not {all}");
}

/// Windows began together: by messages at most that late, and apart by no more than that, but for the error of the clocks.
#[track_caller]
fn began_together(trial: &Trial) {
    let ms = |after: &str, unit: &str| -> f64 {
        let rest = trial.notes.iter().find_map(|note| Some(note.split_once(after)?.1));
        rest.unwrap_or_else(|| panic!("{after}: {:#?}", trial.notes)).split_once(unit).unwrap().0.parse().unwrap()
    };
    let (later, apart) = (ms("2 client hosts began at most ", " ms after"), ms("by their clocks ", " ms apart"));
    let error = ms("apart, known to within ", " ms");
    println!("windows of two client hosts: {later} ms later, {apart} ms apart within {error} ms");
    // The bound is printed with one digit.
    assert!(apart <= later + error + 0.1, "{later} ms later, {apart} ms apart within {error} ms");
}

pub(super) fn several_clients_load_one_server_and_their_results_add_up() {
    let place = Sandbox::new();
    let output = lab_of(
        &place,
        HOSTS,
        "E='--set hosts.server=srv --set hosts.client=cli,far --set aa=false --set retries=20 --warmup 200ms --blocks 1'\n\
         $H run pgbench $E --set scale=1 --set clients=3 --duration 3s --workdir /tmp --out pg.holdup > pg.txt 2>&1 &\n\
         run=$!\n\
         for i in $(seq 600); do grep -q 'trial 1 ' pg.txt && break; sleep 0.1; done\n\
         port=$(ip netns exec srv ss -ltnH | sed -n 's/.*10.99.0.2:\\([0-9]*\\) .*/\\1/p' | grep -v '^2222$' | head -1)\n\
         ask() { psql -w \"host=10.99.0.2 port=$port user=$1 dbname=postgres connect_timeout=5 sslmode=disable\" -c 'SELECT 1'; }\n\
         ask holdup_load_1 2> stranger.txt\n\
         call=\"psql -w 'host=10.99.0.2 port=$port user=holdup_load_2 dbname=postgres connect_timeout=5 sslmode=disable' -c 'SELECT 1'\"\n\
         ip netns exec cli sh -c \"$call\" 2> other.txt\n\
         ip netns exec far sh -c \"$call\" 2> own.txt\n\
         wait $run || { cat pg.txt; exit 1; }\n\
         $H run stream $E --duration 1s --connections 3 --out stream.holdup || exit 1\n\
         $H run messenger $E --duration 1s --transport tcp --groups 3 --senders 1 --receivers 1 --out messenger.holdup || exit 1\n\
         $H run pgbench $E --set scale=1 --set clients=1 --duration 1s --out x.holdup 2> few.txt\n\
         $H run messenger $E --transport tcp --groups 2 --messages 9 --out x.holdup 2> work.txt\n\
         $H run ping $E --duration 1s --out x.holdup 2> ping.txt\n\
         ip netns exec srv ss -ltnH > listen.txt",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    // Two strangers: another host, and a client host as the other one.
    says(&place, "stranger.txt", &["no pg_hba.conf entry for host \"10.99.0.1\", user \"holdup_load_1\""]);
    says(&place, "other.txt", &["no pg_hba.conf entry for host \"10.99.0.3\", user \"holdup_load_2\""]);
    says(&place, "own.txt", &["no password supplied"]);
    transactions_add_up(&place);
    let streams = bundle(&place, "stream.holdup");
    let trial = only_trial(&streams);
    for id in ["throughput_gbit_per_s", "bytes_sent", "bytes_received", "connections_held"] {
        adds_up(trial, id);
    }
    assert_eq!((value(trial, "bytes_sent"), value(trial, "connections_held")), (value(trial, "bytes_received"), 3.0));
    assert!(matches!(metric(trial, "retransmissions"), Measured::Absent(why) if why.contains("each client host")));
    assert!(fact(&streams, "ends.2.round_trip_us").is_some());
    let groups = bundle(&place, "messenger.holdup");
    let trial = only_trial(&groups);
    adds_up(trial, "messages_received");
    adds_up(trial, "messages_per_s");
    assert_eq!(value(trial, "messages_sent"), value(trial, "messages_received"));
    says(
        &place,
        "few.txt",
        &["clients = 1 on srv: they are divided among 2 client hosts", "hint: clients = 2 or more"],
    );
    says(&place, "work.txt", &["messages with 2 client hosts", "hint: messages = 0"]);
    says(
        &place,
        "ping.txt",
        &["ping with 2 client hosts on srv: its load is one connection", "hint: one host in [hosts] client"],
    );
    assert!(!place.path("x.holdup").exists());
    // Its sshd alone.
    let listening = std::fs::read_to_string(place.path("listen.txt")).unwrap();
    assert_eq!(listening.lines().count(), 1, "{listening}");
}

/// What the run of pgbench brought.
fn transactions_add_up(place: &Sandbox) {
    let pg = bundle(place, "pg.holdup");
    let trial = only_trial(&pg);
    adds_up(trial, "tps");
    began_together(trial);
    for (host, clients) in [("cli", 2), ("far", 1)] {
        let command = format!("--client={clients} ");
        let has = |note: &String| note.starts_with(&format!("{host}: pgbench ")) && note.contains(&command);
        assert!(trial.notes.iter().any(has), "{host} {clients}: {:#?}", trial.notes);
    }
    // Of all transactions of the window, not of those of a host.
    let latency = trial.histograms.iter().find(|named| named.name == "latency").unwrap();
    let seconds = trial.window.unwrap().length_ns as f64 / 1e9;
    let counted = latency.histogram.count() as f64 / seconds;
    assert!((counted - value(trial, "tps")).abs() <= 0.2 * counted, "{counted} of {}", value(trial, "tps"));
    let median_us = latency.histogram.quantile_ns(0.5).unwrap() as f64 / 1e3;
    assert!((value(trial, "latency_p50_us") - median_us).abs() < 1e-6 * median_us);
    for (number, host) in [("1", "cli"), ("2", "far")] {
        assert_eq!(fact(&pg, &format!("client.{number}.ssh.host")).as_deref(), Some(host));
        assert!(fact(&pg, &format!("client.{number}.pgbench.version")).is_some());
        let ms = |key: &str| fact(&pg, &format!("ends.{number}.{key}")).unwrap().parse::<f64>().unwrap();
        // It is one machine with one clock.
        assert!(ms("clock_offset_ms").abs() <= ms("clock_offset_error_ms"), "{host}");
    }
}

pub(super) fn a_client_of_several_that_is_killed_or_silent_makes_the_trial_void_and_all_are_restored() {
    let place = Sandbox::new();
    let output = lab_of(
        &place,
        HOSTS,
        "before=$(cat /proc/sys/vm/swappiness)\n\
         for how in killed silent; do\n\
           $H run stream --set hosts.server=srv --set hosts.client=cli,far --set aa=false --set retries=20 --warmup 200ms \\\n\
             --blocks 1 --connections 2 --set swappiness=11 --duration 2s --dead-after 3s --out $how.holdup > $how.txt 2>&1 &\n\
           run=$!\n\
           for i in $(seq 600); do grep -q 'trial 1 ' $how.txt && break; sleep 0.1; done\n\
           sleep 1\n\
           case $how in\n\
             killed) kill -9 $(pgrep -f \"^$PWD/lab/far/home/.cache/holdup/bin/[^ ]* agent\") ;;\n\
             silent) ip -n far link set e0 down; sleep 5; ip -n far link set e0 up ;;\n\
           esac\n\
           wait $run; echo \"code $?\" >> $how.txt\n\
           echo \"swappiness $(cat /proc/sys/vm/swappiness) of $before\" >> $how.txt\n\
           for i in $(seq 100); do pgrep -f \"^$PWD/lab/[a-z]*/home/.cache/holdup/bin/\" > left-$how || break; sleep 0.1; done\n\
         done; true",
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    for (how, why) in [("killed", "the connection ended"), ("silent", "the line was silent for 3 s")] {
        let file = format!("{how}.txt");
        says(&place, &file, &["code 0", "client host far: in a trial: ", why]);
        let text = std::fs::read_to_string(place.path(&file)).unwrap();
        let (now, before) = text.rsplit_once("swappiness ").unwrap().1.split_once(" of ").unwrap();
        assert_eq!(now.trim(), before.trim(), "{text}");
        let trials = bundle(&place, &format!("{how}.holdup")).trials;
        let void = trials.iter().filter(|t| matches!(t.status, TrialStatus::Void { .. })).count();
        // A busy machine voids others as well.
        assert!(trials.len() - void == 1 && void >= 1, "{text}");
        assert_eq!(std::fs::read_to_string(place.path(&format!("left-{how}"))).unwrap(), "", "no agent stays");
    }
}
