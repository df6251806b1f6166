//! sockperf: one client and one server, ping-pong, under load, or sending only.

use super::thin;
use crate::external::setup::{Setup, push};
use crate::external::text;
use crate::external::{About, Invocation, Listens, Reading, Run, Server, Tool, ToolOutput};
use holdup_catalogue::external::{self, Mode, Protocol};
use holdup_model::foreign::without_colours;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Problem};

/// The tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sockperf;

impl Tool for Sockperf {
    fn about(&self) -> &'static About {
        &About {
            tool: external::Tool::Sockperf,
            program: "sockperf",
            install: "apt install sockperf",
            version: Some(&["--version"]),
            version_after: "version ",
            modes: &[Mode::PingPong, Mode::UnderLoad, Mode::Throughput],
            protocols: &[Protocol::Udp, Protocol::Tcp],
            parameters: &["size", "rate", "burst", "reply_every"],
        }
    }

    fn measures(&self, setup: &Setup) -> &'static [&'static str] {
        const ALL: &[&str] = &[
            "messages_sent",
            "messages_received",
            "messages_dropped",
            "sent_per_s",
            "delivered_per_s",
            "rtt_p50_us",
            "rtt_p99_us",
            "rtt_p999_us",
            "rtt_max_us",
            "rtt_mean_us",
        ];
        if setup.mode == Some(Mode::Throughput) { &ALL[..5] } else { ALL }
    }

    fn invocation(&self, setup: &Setup, run: &Run) -> Result<Invocation, Problem> {
        let given = &setup.given;
        let port = run.port.to_string();
        let texts = |all: &[&str]| -> Vec<String> { all.iter().map(|t| (*t).to_owned()).collect() };
        let mut server = texts(&["server", "-i", "127.0.0.1", "-p", &port]);
        let mut arguments =
            texts(&[setup.mode.map_or("", Mode::word), "-i", "127.0.0.1", "-p", &port, "-t", &run.whole_seconds()]);
        let listens = if setup.protocol == Some(Protocol::Tcp) {
            server.push("--tcp".to_owned());
            arguments.push("--tcp".to_owned());
            Listens::Tcp
        } else {
            Listens::Udp
        };
        if setup.mode != Some(Mode::Throughput) {
            // Each message with its two times. stdout has the summary, and would be cut by it.
            arguments.extend(texts(&["--full-rtt", "--full-log", "/dev/stderr"]));
        }
        if setup.mode != Some(Mode::UnderLoad) && setup.given.reply_every.is_some() {
            return Err(setup.wrong("reply_every", "only mode under-load has it"));
        }
        for (flag, value) in
            [("-m", given.size), ("--mps", given.rate), ("-b", given.burst), ("--reply-every", given.reply_every)]
        {
            push(&mut arguments, flag, value);
        }
        if setup.mode == Some(Mode::Throughput) && setup.given.rate.is_none() {
            arguments.extend(texts(&["--mps", "max"]));
        }
        arguments.extend(setup.further());
        Ok(Invocation {
            arguments,
            server: Some(Server { arguments: server, listens, forks: false }),
            whole_seconds: true,
            counts_udp: setup.protocol == Some(Protocol::Udp),
            ..Invocation::default()
        })
    }

    fn read(&self, setup: &Setup, said: &ToolOutput<'_>) -> Result<Reading, String> {
        let stdout = without_colours(said.stdout);
        let mut reading = Reading::default();
        let (sent, replies, seconds) = match setup.mode {
            Some(Mode::Throughput) => {
                let (sent, seconds) = throughput(&stdout)?;
                (sent, 0, seconds)
            }
            mode => {
                let total = line_of(&stdout, "[Total Run]")?;
                round_trips(&stdout, said.stderr, &mut reading)?;
                // In ping-pong the summary and the percentiles are about the same messages.
                let rates = if mode == Some(Mode::PingPong) { line_of(&stdout, "[Valid Duration]")? } else { total };
                reading.put("sent_per_s", rates.sent as f64 / rates.seconds);
                (total.sent, total.received, total.seconds)
            }
        };
        reading.put("messages_sent", sent as f64);
        if setup.mode == Some(Mode::Throughput) {
            reading.put("sent_per_s", sent as f64 / seconds);
            reading.note("sockperf counts what was sent, not what arrived; what arrived is counted here beside it");
        }
        let answered = setup.mode == Some(Mode::PingPong);
        delivered(&mut reading, setup, said, &stdout, Flow { replies, seconds, answered });
        Ok(reading)
    }
}

/// What went in a run.
#[derive(Debug, Clone, Copy)]
struct Flow {
    /// Answers that came back to the client.
    replies: u64,
    seconds: f64,
    /// True if each message is answered before the next is sent.
    answered: bool,
}

/// What reached the server: by the server's own count where it gave one (it gives it when it ends), else by the
/// kernel's count of the datagrams of the namespace without the answers.
fn delivered(reading: &mut Reading, setup: &Setup, said: &ToolOutput<'_>, stdout: &str, flow: Flow) {
    let server = without_colours(said.server);
    let own = server.lines().find(|l| l.contains("messages received and handled"));
    let own = own.and_then(|l| text::count_after(l, "Total "));
    let udp = said.udp.and_then(Result::ok);
    let received = match (own, udp) {
        (Some(own), _) => Ok(own),
        (None, Some(udp)) => Ok(udp.received.saturating_sub(flow.replies)),
        (None, None) => {
            Err("the server did not say how many messages it received, and they were not counted otherwise")
        }
    };
    match received {
        Ok(received) => {
            reading.put("messages_received", received as f64);
            let rate = if flow.answered {
                reading.values.iter().find(|v| v.0 == "sent_per_s").map_or(f64::NAN, |v| v.1)
            } else {
                received as f64 / flow.seconds
            };
            reading.put("delivered_per_s", rate);
        }
        Err(why) => {
            reading.absent("messages_received", why);
            reading.absent("delivered_per_s", why);
        }
    }
    match said.udp {
        Some(Ok(udp)) => {
            reading.put("messages_dropped", udp.queue_full as f64);
            reading.note(format!(
                "datagrams are the kernel's count over the whole network namespace: {} sent, {} read, {} dropped as a queue was full",
                udp.sent, udp.received, udp.queue_full
            ));
            let gone = udp.sent.saturating_sub(udp.received).saturating_sub(udp.queue_full);
            if gone > 0 {
                reading
                    .note(format!("{gone} datagrams of the namespace were neither read nor dropped at a full queue"));
            }
        }
        Some(Err(why)) => reading.absent("messages_dropped", why),
        None => match text::number_after(stdout, "# dropped messages =") {
            Some(dropped) if setup.protocol == Some(Protocol::Tcp) => reading.put("messages_dropped", dropped),
            _ => {
                reading.absent("messages_dropped", "sockperf does not say it, and the kernel drops no messages of TCP");
            }
        },
    }
}

/// `Total of N messages sent in T sec`.
fn throughput(stdout: &str) -> Result<(u64, f64), String> {
    let line = stdout.lines().find(|l| l.contains("messages sent in"));
    let line = line.ok_or_else(|| format!("it does not say how many messages were sent, it says: {}", last(stdout)))?;
    let sent = text::count_after(line, "Total of ");
    let seconds = text::number_after(line, "sent in").filter(|s| *s > 0.0);
    sent.zip(seconds).ok_or_else(|| format!("its count is not understood: {}", text::shown(line)))
}

/// A line of counts, of the whole run or of the part without warm-up and cool-down.
#[derive(Debug, Clone, Copy)]
struct Counts {
    sent: u64,
    received: u64,
    seconds: f64,
}

/// `[Valid Duration] RunTime=0.520 sec; SentMessages=5201; ReceivedMessages=53`.
fn line_of(stdout: &str, name: &str) -> Result<Counts, String> {
    let line = stdout.lines().find(|l| l.contains(name));
    let line = line.ok_or_else(|| format!("there is no `{name}` in it, it says: {}", last(stdout)))?;
    let counts = (
        text::count_after(line, "SentMessages="),
        text::count_after(line, "ReceivedMessages="),
        text::number_after(line, "RunTime=").filter(|s| *s > 0.0),
    );
    match counts {
        (Some(sent), Some(received), Some(seconds)) => Ok(Counts { sent, received, seconds }),
        _ => Err(format!("`{name}` is not understood: {}", text::shown(line))),
    }
}

fn last(stdout: &str) -> String {
    text::shown(stdout.trim_end().lines().last().unwrap_or_default())
}

/// The percentiles and, from the full log, the histogram.
fn round_trips(stdout: &str, log: &str, reading: &mut Reading) -> Result<(), String> {
    if !stdout.contains("Round trip is") {
        return Err(format!("there is no `Summary: Round trip is` in it, it says: {}", last(stdout)));
    }
    for (id, name) in [
        ("rtt_mean_us", "Round trip is"),
        ("rtt_p50_us", "percentile 50.000 ="),
        ("rtt_p99_us", "percentile 99.000 ="),
        ("rtt_p999_us", "percentile 99.900 ="),
        ("rtt_max_us", "<MAX> observation ="),
    ] {
        match text::number_after(stdout, name) {
            Some(us) => reading.put(id, us),
            None => reading.absent(id, format!("it does not say `{name}`")),
        }
    }
    let observations =
        stdout.lines().find(|l| l.contains(" observations")).and_then(|l| text::number_after(l, "Total "));
    if let Some(observations) = observations {
        thin("sockperf", observations, reading);
    }
    match log.split_once("packet, txTime(sec), rxTime(sec)") {
        None => reading.note("there is no full log of sockperf, or its begin is lost, so there is no histogram"),
        Some((_, rows)) => {
            let histogram = histogram(rows);
            if let Some(n) = observations.filter(|n| *n != histogram.count() as f64) {
                reading.note(format!("sockperf's full log has {} of its {n} round trips", histogram.count()));
            }
            if histogram.count() > 0 {
                reading.histograms.push(NamedHistogram { name: "latency".to_owned(), histogram });
            }
        }
    }
    Ok(())
}

/// Rows `0, 2.445725195, 2.445827727, 51.266`: number, sent, received (s), latency, which is left out as its meaning
/// depends on the options.
fn histogram(rows: &str) -> Histogram {
    let mut histogram = Histogram::new();
    for row in rows.lines() {
        let mut fields = row.split(',').skip(1).map(nanoseconds);
        if let (Some(Some(sent)), Some(Some(received))) = (fields.next(), fields.next())
            && let Some(ns) = received.checked_sub(sent)
        {
            histogram.record_ns(ns);
        }
    }
    histogram
}

/// Seconds with nine decimals, exactly.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, part) = text.trim().split_once('.')?;
    if part.len() != 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part.parse().ok()?)
}
