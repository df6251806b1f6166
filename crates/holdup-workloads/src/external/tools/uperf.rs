//! uperf: connections over which transfers of one size go one way.

use crate::external::setup::Setup;
use crate::external::text;
use crate::external::{About, Invocation, Listens, Reading, Run, Server, Tool, ToolOutput};
use holdup_catalogue::Sharing;
use holdup_catalogue::external::{self, Mode, Protocol};
use holdup_model::Problem;
use std::fmt::Write;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uperf;

/// Bytes of a transfer that is not given: as in the profiles of uperf for streams, and one that fits into a datagram.
const TCP_BYTES: u64 = 64 << 10;
const UDP_BYTES: u64 = 1 << 10;

impl Tool for Uperf {
    fn about(&self) -> &'static About {
        &About {
            tool: external::Tool::Uperf,
            program: "uperf",
            install: "build it from github.com/uperf/uperf and put it on the PATH",
            version: Some(&["-V"]),
            version_after: "Uperf Version ",
            modes: &[Mode::Write, Mode::Read],
            protocols: &[Protocol::Tcp, Protocol::Udp],
            parameters: &["connections", "size", "sharing"],
        }
    }

    fn measures(&self, setup: &Setup) -> &'static [&'static str] {
        match setup.protocol {
            Some(Protocol::Udp) => &[
                "throughput_gbit_per_s",
                "transfers_per_s",
                "cpu_s_per_gb",
                "messages_sent",
                "messages_received",
                "messages_dropped",
                "sent_per_s",
                "delivered_per_s",
            ],
            _ => &["throughput_gbit_per_s", "transfers_per_s", "cpu_s_per_gb"],
        }
    }

    fn invocation(&self, setup: &Setup, run: &Run) -> Result<Invocation, Problem> {
        let port = run.port.to_string();
        let texts = |all: &[&str]| -> Vec<String> { all.iter().map(|t| (*t).to_owned()).collect() };
        // Shorter intervals than a second make uperf end the transaction too early.
        let mut arguments = texts(&["-m", "{profile}", "-P", &port, "-R", "-i", "1", "-t"]);
        arguments.extend(setup.further());
        Ok(Invocation {
            arguments,
            profile: Some(profile(setup, run.duration_ns)?),
            server: Some(Server { arguments: texts(&["-s", "-P", &port]), listens: Listens::Tcp, forks: true }),
            counts_udp: setup.protocol == Some(Protocol::Udp),
            ..Invocation::default()
        })
    }

    fn read(&self, setup: &Setup, said: &ToolOutput<'_>) -> Result<Reading, String> {
        let mut reading = Reading::default();
        if let Some(wrong) = said.stdout.lines().chain(said.stderr.lines()).find(|l| l.contains("** Error")) {
            return Err(format!("uperf counted errors: {}", text::shown(wrong)));
        }
        let data = parse(said.stdout)?;
        let size = size(setup).map_err(|p| p.why)?;
        if setup.protocol == Some(Protocol::Udp) {
            datagrams(&mut reading, said.udp, &data, setup.mode == Some(Mode::Write), size);
        } else {
            reading.put("throughput_gbit_per_s", data.bytes * 8.0 / data.seconds / 1e9);
            reading.bytes = Some(data.bytes);
        }
        reading.put("transfers_per_s", data.operations / data.seconds);
        reading.note(
            "rates are those of the data transaction alone; uperf's Total also spans the handshake and a pause around \
             each transaction",
        );
        Ok(reading)
    }
}

fn size(setup: &Setup) -> Result<u64, Problem> {
    let default = if setup.protocol == Some(Protocol::Udp) { UDP_BYTES } else { TCP_BYTES };
    Ok(setup.given.size.unwrap_or(default))
}

/// connect, transfers for a time, disconnect. The parser of uperf wants spaces or line ends between elements.
fn profile(setup: &Setup, duration_ns: u64) -> Result<String, Problem> {
    let tasks = if setup.given.sharing == Some(Sharing::Processes) { "nprocs" } else { "nthreads" };
    let connections = setup.given.connections.unwrap_or(1);
    let mut text = format!("<?xml version=\"1.0\"?>\n<profile name=\"holdup\">\n<group {tasks}=\"{connections}\">\n");
    let mut transaction = |how: String, flowop: &str, options: String| {
        // Empty options end uperf 1.0.8 with an invalid pointer.
        let options = if options.is_empty() { options } else { format!(" options=\"{options}\"") };
        let _never_fails_into_memory =
            write!(text, "  <transaction {how}>\n    <flowop type=\"{flowop}\"{options} />\n  </transaction>\n");
    };
    let once = || "iterations=\"1\"".to_owned();
    transaction(
        once(),
        "connect",
        format!("remotehost=127.0.0.1 protocol={}", setup.protocol.map_or("", Protocol::word)),
    );
    transaction(
        format!("duration=\"{duration_ns}ns\""),
        setup.mode.map_or("", Mode::word),
        format!("size={}", size(setup)?),
    );
    transaction(once(), "disconnect", String::new());
    Ok(format!("{text}</group>\n</profile>\n"))
}

/// The transaction that transfers data.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Data {
    bytes: f64,
    operations: f64,
    /// How long it took, the mean over the strands.
    seconds: f64,
}

/// Raw lines `timestamp_ms:T name:Txn2 nr_bytes:N nr_ops:N`, cumulative in a transaction, and the table of averages,
/// where the transactions are counted from 0. The raw lines say how much, and the averages how long: the last raw line
/// comes after a pause that no data went in.
fn parse(stdout: &str) -> Result<Data, String> {
    let raw = stdout.lines().rfind(|l| l.starts_with("timestamp_ms:") && l.contains(" name:Txn2 "));
    let raw = raw
        .ok_or_else(|| format!("there are no statistics of the data transaction, it says: {}", text::shown(stdout)))?;
    let bytes = text::number_after(raw, "nr_bytes:");
    let operations = text::number_after(raw, "nr_ops:");
    let row = stdout.lines().find_map(|l| l.strip_prefix("Txn1 ")).unwrap_or_default();
    let mut fields = row.split_whitespace();
    let count = fields.next().and_then(|f| f.parse::<f64>().ok());
    let mean = fields.next().and_then(duration_s);
    let strands = text::number_after(stdout, "Starting ").filter(|n| *n >= 1.0);
    let (Some(bytes), Some(operations), Some(count), Some(mean), Some(strands)) =
        (bytes, operations, count, mean, strands)
    else {
        return Err("the statistics of the data transaction are not complete".to_owned());
    };
    let seconds = count * mean / strands;
    if !(seconds > 0.0 && operations > 0.0) {
        return Err(format!("the data transaction made {operations} transfers in {seconds} s"));
    }
    Ok(Data { bytes, operations, seconds })
}

/// `51.87us`, `1.20ms`, `2.00s`.
fn duration_s(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (value, unit) = text.split_at(at);
    let value: f64 = value.parse().ok()?;
    let unit = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(value * unit)
}

/// What was sent, and by the kernel's count what arrived. uperf's client knows only its own side.
fn datagrams(
    reading: &mut Reading,
    udp: Option<Result<crate::external::snmp::Udp, &str>>,
    data: &Data,
    writes: bool,
    size: u64,
) {
    let counted = match udp {
        Some(Ok(udp)) => Ok(udp),
        Some(Err(why)) => Err(why),
        None => Err("the kernel's counters were not read"),
    };
    let (sent, received) = match (writes, counted) {
        (true, counted) => (Ok(data.operations), counted.map(|udp| udp.received as f64)),
        (false, counted) => (counted.map(|udp| udp.sent as f64), Ok(data.operations)),
    };
    let mut put = |id: &'static str, value: Result<f64, &str>| match value {
        Ok(value) => reading.put(id, value),
        Err(why) => reading.absent(id, why),
    };
    put("messages_sent", sent);
    put("messages_received", received);
    put("messages_dropped", counted.map(|udp| udp.queue_full as f64));
    put("sent_per_s", sent.map(|n| n / data.seconds));
    put("delivered_per_s", received.map(|n| n / data.seconds));
    put("throughput_gbit_per_s", received.map(|n| n * size as f64 * 8.0 / data.seconds / 1e9));
    reading.bytes = received.ok().map(|n| n * size as f64);
    reading.note("datagrams that uperf does not count are the kernel's count over the whole network namespace");
}
