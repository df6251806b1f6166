//! iperf3: streams over TCP or UDP.

use crate::external::setup::{Setup, push};
use crate::external::text;
use crate::external::{About, Invocation, Listens, Reading, Run, Server, Tool, ToolOutput};
use holdup_catalogue::external::{self, Mode, Protocol};
use holdup_model::Problem;
use serde_json::Value;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Iperf3;

impl Tool for Iperf3 {
    fn about(&self) -> &'static About {
        &About {
            tool: external::Tool::Iperf3,
            program: "iperf3",
            install: "apt install iperf3",
            version: Some(&["--version"]),
            version_after: "iperf ",
            modes: &[Mode::Write, Mode::Read],
            protocols: &[Protocol::Tcp, Protocol::Udp],
            parameters: &["connections", "size", "rate"],
        }
    }

    fn measures(&self, setup: &Setup) -> &'static [&'static str] {
        match setup.protocol {
            Some(Protocol::Udp) => &[
                "throughput_gbit_per_s",
                "cpu_s_per_gb",
                "messages_sent",
                "messages_received",
                "messages_dropped",
                "sent_per_s",
                "delivered_per_s",
            ],
            _ => &["throughput_gbit_per_s", "retransmissions", "cpu_s_per_gb"],
        }
    }

    fn invocation(&self, setup: &Setup, run: &Run) -> Result<Invocation, Problem> {
        let given = &setup.given;
        let port = run.port.to_string();
        let texts = |all: &[&str]| -> Vec<String> { all.iter().map(|t| (*t).to_owned()).collect() };
        let server = texts(&["-s", "-1", "-B", "127.0.0.1", "-p", &port, "-i", "0"]);
        let seconds = run.whole_seconds();
        let mut arguments = texts(&["-c", "127.0.0.1", "-p", &port, "-t", &seconds, "-J", "-i", "0"]);
        push(&mut arguments, "-P", given.connections);
        push(&mut arguments, "-l", given.size);
        if setup.mode == Some(Mode::Read) {
            arguments.push("-R".to_owned());
        }
        let bits = match (setup.given.rate, setup.given.size) {
            (None, _) => Some(0),
            (Some(_), None) => {
                return Err(setup.wrong("rate", "iperf3 takes bits per second, so messages need a `size`"));
            }
            (Some(rate), Some(size)) => rate.checked_mul(size).and_then(|bytes| bytes.checked_mul(8)),
        };
        let bits = bits.ok_or_else(|| setup.wrong("rate", "rate times size is more than can be counted"))?;
        if setup.protocol == Some(Protocol::Udp) {
            arguments.push("-u".to_owned());
        }
        if setup.protocol == Some(Protocol::Udp) || bits > 0 {
            // Without, UDP is sent at 1 Mbit/s. The rate of iperf3 is that of each stream.
            let streams = setup.given.connections.unwrap_or(1).max(1);
            arguments.extend(["-b".to_owned(), (bits / streams).to_string()]);
        }
        arguments.extend(setup.further());
        Ok(Invocation {
            arguments,
            server: Some(Server { arguments: server, listens: Listens::Tcp, forks: false }),
            whole_seconds: true,
            ..Invocation::default()
        })
    }

    fn read(&self, setup: &Setup, said: &ToolOutput<'_>) -> Result<Reading, String> {
        parse(said.stdout, setup.protocol == Some(Protocol::Udp))
    }
}

/// The JSON document of `-J`.
fn parse(stdout: &str, udp: bool) -> Result<Reading, String> {
    let document: Value = serde_json::from_str(stdout)
        .map_err(|e| format!("it is not one JSON document ({e}), it begins: {}", text::shown(stdout)))?;
    if let Some(error) = document.get("error").and_then(Value::as_str) {
        return Err(format!("iperf3 says: {}", text::shown(error)));
    }
    let at = |pointer: &str| document.pointer(pointer).and_then(Value::as_f64);
    let need = |pointer: &str| at(pointer).ok_or_else(|| format!("there is no number at {pointer}"));
    let mut reading = Reading::default();
    let bytes = need("/end/sum_received/bytes")?;
    let seconds = need("/end/sum_received/seconds")?;
    if seconds <= 0.0 || bytes < 0.0 {
        return Err(format!("it received {bytes} bytes in {seconds} s"));
    }
    reading.put("throughput_gbit_per_s", bytes * 8.0 / seconds / 1e9);
    reading.bytes = Some(bytes);
    if udp {
        datagrams(&mut reading, &at, seconds)?;
    } else {
        match at("/end/sum_sent/retransmits") {
            Some(n) => reading.put("retransmissions", n),
            None => reading.absent("retransmissions", "iperf3 does not say how often the sender's kernel sent again"),
        }
    }
    if let (Some(host), Some(remote), Some(sent)) = (
        at("/end/cpu_utilization_percent/host_total"),
        at("/end/cpu_utilization_percent/remote_total"),
        at("/end/sum_sent/seconds"),
    ) && bytes > 0.0
    {
        let per_gb = (host + remote) / 100.0 * sent / (bytes / 1e9);
        reading.note(format!("iperf3's own account of CPU time is {per_gb:.4} s/GB at both ends"));
    }
    Ok(reading)
}

/// What was sent and lost. `end.sum` has the rate of what was *sent*, also at the receiver's side.
fn datagrams(reading: &mut Reading, at: &dyn Fn(&str) -> Option<f64>, seconds: f64) -> Result<(), String> {
    let need = |pointer: &str| at(pointer).ok_or_else(|| format!("there is no number at {pointer}"));
    // Some versions have no packets in sum_sent.
    let sent = at("/end/sum_sent/packets").map_or_else(|| need("/end/sum/packets"), Ok)?;
    let (lost, counted) = (need("/end/sum_received/lost_packets")?, need("/end/sum_received/packets")?);
    let received = counted - lost;
    reading.put("messages_sent", sent);
    reading.put("messages_received", received);
    reading.put("messages_dropped", lost);
    reading.put("sent_per_s", sent / at("/end/sum_sent/seconds").filter(|s| *s > 0.0).unwrap_or(seconds));
    reading.put("delivered_per_s", received / seconds);
    let open = sent - counted;
    if open > 0.0 {
        reading.note(format!(
            "iperf3 does not account for the last {open} datagrams: no later one came by which the receiver would miss them"
        ));
    }
    Ok(())
}
