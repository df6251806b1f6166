//! Samples of pg_stat_activity, a thousand a second, against the account.
//!
//! A session that was woken shows its wait event until it runs and takes it back. The account has it among the runnable ones
//! then, and says how much of that time was after which event (`woken_wait_s`): a sample sees the sum of the two.

use crate::situations::pgbench::account_s;
use crate::situations::server::Server;
use holdup_model::{BundleData, Trial};
use holdup_postgres::sql;
use holdup_sql::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};

/// A loop in the server: a sampler that waits for its client would be in `Client:ClientRead` itself, which the account has. It
/// commits, because an old snapshot keeps dead rows, which would slow down what it watches.
const LOOP: &str = "DO $$ DECLARE
    samples text[] := '{}';
    sample text;
BEGIN
    LOOP
        PERFORM pg_sleep(0.001);
        SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint || string_agg(' ' || event || '=' || sessions, '') INTO sample
            FROM (SELECT coalesce(wait_event_type || ':' || wait_event, 'none') AS event, count(*) AS sessions FROM pg_stat_activity
                  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND query NOT LIKE 'SELECT pg_advisory%' GROUP BY 1) AS events;
        samples := samples || sample;
        EXIT WHEN NOT pg_try_advisory_xact_lock_shared(1);
        COMMIT;
    END LOOP;
    PERFORM set_config('holdup.samples', array_to_string(samples, chr(10)), false);
END $$";
const STOP: &str = "SELECT pg_advisory_lock(1)";
const SAMPLES: &str = "SELECT current_setting('holdup.samples')";
/// No wait event: on a CPU, or runnable since it lost one.
const NONE: &str = "none";
/// In parts of all sessions: a session that is on a CPU, or was preempted, between setting its wait event and its sleep, or between
/// its wake-up and taking the event back, shows it in samples. The account has that time as what it is.
const TOLERANCE: f64 = 0.02;
/// Less than this part of the samples is too little for an interval by windows.
const LEAST: f64 = 0.01;

/// The sessions in each wait event at a time, ns since 1970.
pub(crate) type Sample = (i64, BTreeMap<String, f64>);

/// A session that samples until it is asked to stop.
pub(crate) struct Sampler(Receiver<Vec<Sample>>);

impl Sampler {
    pub(crate) fn stop(self, server: &Server) -> Vec<Sample> {
        let mut holder = server.connect();
        holder.simple_query(STOP).expect("it waits for the sampler at most");
        self.0.recv().expect("samples")
    }
}

/// `microseconds EVENT=SESSIONS EVENT=SESSIONS`.
fn read_sample(line: &str) -> Option<Sample> {
    let mut words = line.split(' ');
    let at = words.next()?.parse::<i64>().ok()? * 1000;
    let of_word = |word: &str| word.split_once('=').and_then(|(event, n)| Some((event.to_owned(), n.parse().ok()?)));
    Some((at, words.filter_map(of_word).collect()))
}

fn samples(client: &mut Client) -> Vec<Sample> {
    client.simple_query(LOOP).expect("it samples");
    let rows = sql::rows(client, SAMPLES).expect("the server answers");
    rows[0][0].as_deref().unwrap_or_default().lines().filter_map(read_sample).collect()
}

/// Begins to ask the server, again and again, what its sessions wait for.
pub(crate) fn sample(server: &mut Server) -> Sampler {
    let (sender, receiver) = channel();
    let mut client = server.connect();
    server.thread(move |_| sender.send(samples(&mut client)).is_err());
    Sampler(receiver)
}

/// Shares of a wait event in each window.
struct Shares {
    sampled: Vec<f64>,
    asleep: Vec<f64>,
    woken: Vec<f64>,
}

fn shares(event: &str, bundle: &BundleData, samples: &[Sample], sessions: f64) -> Shares {
    let of_samples = |trial: &Trial| sampled(samples, trial, event) / sessions;
    let part = |trial: &Trial, s: f64| s / (trial.window.expect("it was closed").length_ns as f64 / 1e9) / sessions;
    let ending = format!("| {event}");
    let of_backends = |label: &str| label.starts_with("client backend |") && label.ends_with(&ending);
    let asleep = |trial: &Trial| part(trial, account_s(trial, "account_s", of_backends));
    let woken = |trial: &Trial| part(trial, account_s(trial, "woken_wait_s", of_backends));
    let each = |of: &dyn Fn(&Trial) -> f64| bundle.trials.iter().map(of).collect();
    Shares { sampled: each(&of_samples), asleep: each(&asleep), woken: each(&woken) }
}

/// The sessions that are in a wait event on average, by the samples of a window.
pub(crate) fn sampled(samples: &[Sample], trial: &Trial, event: &str) -> f64 {
    let window = trial.window.expect("it was closed");
    let inside = |at: &i64| (window.begin_unix_ns..window.end_unix_ns).contains(at);
    let of_window = samples.iter().filter(|(at, _)| inside(at));
    let counts: Vec<f64> = of_window.map(|(_, events)| events.get(event).copied().unwrap_or(0.0)).collect();
    mean(&counts)
}

pub(crate) fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

/// Half of the 95 % interval of a mean over the windows of a record, by Student's t.
pub(crate) fn half_interval(all: &[f64]) -> f64 {
    let t = match all.len() {
        4 => 3.182,
        10 => 2.262,
        windows => panic!("{windows} windows"),
    };
    let spread = all.iter().map(|one| (one - mean(all)).powi(2)).sum::<f64>() / (all.len() - 1) as f64;
    t * (spread / all.len() as f64).sqrt()
}

/// The intervals of each wait event by samples and by the account overlap.
pub(crate) fn agrees(name: &str, bundle: &BundleData, samples: &[Sample]) {
    let sessions = samples.first().expect("a sample").1.values().sum::<f64>();
    let all: BTreeSet<&String> = samples.iter().flat_map(|(_, events)| events.keys()).collect();
    println!("{name}: {} samples of {sessions} sessions", samples.len());
    for event in all.into_iter().filter(|event| *event != NONE) {
        let Shares { sampled, asleep, woken } = shares(event, bundle, samples, sessions);
        if mean(&sampled) < LEAST {
            continue;
        }
        let shown: Vec<f64> = asleep.iter().zip(&woken).map(|(asleep, woken)| asleep + woken).collect();
        let (off, off_shown) = (half_interval(&sampled), half_interval(&shown));
        println!(
            "  {event}: sampled {:.2} ± {:.2} %, account {:.2} ± {:.2} % (asleep {:.2} %, woken {:.2} %)",
            mean(&sampled) * 100.0,
            off * 100.0,
            mean(&shown) * 100.0,
            off_shown * 100.0,
            mean(&asleep) * 100.0,
            mean(&woken) * 100.0,
        );
        let apart = (mean(&sampled) - mean(&shown)).abs();
        assert!(apart < off + off_shown + TOLERANCE, "{name}: {event}: sampled {sampled:?}, account {shown:?}");
    }
}
