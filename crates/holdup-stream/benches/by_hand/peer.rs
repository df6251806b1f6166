//! iperf3 and uperf over the loopback link, and what they cost.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A rate and what it took at both ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) gbit_per_s: f64,
    pub(crate) client_s_per_gb: f64,
    pub(crate) server_s_per_gb: f64,
}

/// Waits for a process and gives the CPU time of its whole life in s.
fn cpu_s(child: &Child) -> f64 {
    // SAFETY: zero bytes are a valid rusage, and the kernel writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::wait4(child.id() as i32, std::ptr::null_mut(), 0, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn free_port() -> Option<u16> {
    Some(TcpListener::bind(("127.0.0.1", 0)).ok()?.local_addr().ok()?.port())
}

fn quiet(command: &mut Command) -> Option<Child> {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    // Neither of them says when it listens.
    std::thread::sleep(Duration::from_millis(300));
    Some(child)
}

/// Runs a client to its end; its output and CPU time.
fn to_its_end(command: &mut Command) -> Option<(String, f64)> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take()?, &mut text).ok()?;
    Some((text, cpu_s(&child)))
}

/// iperf3 with its own defaults: blocks of 128 KB, one thread at each end.
pub(crate) fn iperf3(connections: i64, seconds: u64) -> Option<Cost> {
    let port = free_port()?.to_string();
    let server = quiet(Command::new("iperf3").args(["-s", "-1", "-p", &port]))?;
    let (connections, seconds) = (connections.to_string(), seconds.to_string());
    let client = to_its_end(Command::new("iperf3").args([
        "-c",
        "127.0.0.1",
        "-p",
        &port,
        "-P",
        &connections,
        "-t",
        &seconds,
        "-J",
    ]));
    if client.is_none() {
        // SAFETY: a plain system call; the server was not waited for, so that the number is its own.
        unsafe { libc::kill(server.id() as i32, libc::SIGKILL) };
    }
    let server_s = cpu_s(&server);
    let (text, client_s) = client?;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    let received = &json["end"]["sum_received"];
    let gb = received["bytes"].as_f64()? / 1e9;
    Some(Cost {
        gbit_per_s: received["bits_per_second"].as_f64()? / 1e9,
        client_s_per_gb: client_s / gb,
        server_s_per_gb: server_s / gb,
    })
}

/// uperf with the shipped profile `streams-read`; the rate is that of its data transaction alone, from its raw lines.
pub(crate) fn uperf(program: &str, connections: i64, seconds: u64) -> Option<Cost> {
    let port = free_port()?.to_string();
    let server = quiet(Command::new(program).args(["-s", "-P", &port]))?;
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/uperf/streams-read.xml");
    let client = to_its_end(
        Command::new(program)
            .args(["-m", profile, "-R", "-i", "1", "-P", &port])
            .env("h", "127.0.0.1")
            .env("proto", "tcp")
            .env("conns", connections.to_string())
            .env("duration", format!("{seconds}s")),
    );
    // SAFETY: a plain system call; the server was not waited for, so that the number is its own.
    unsafe { libc::kill(server.id() as i32, libc::SIGTERM) };
    let server_s = cpu_s(&server);
    let (text, client_s) = client?;
    let field =
        |line: &str, name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.parse::<f64>().ok());
    let lines: Vec<(f64, f64)> = text
        .split(['\n', '\r'])
        .filter(|line| line.contains("name:Txn2"))
        .filter_map(|line| Some((field(line, "timestamp_ms:")?, field(line, "nr_bytes:")?)))
        .collect();
    let (first, last) = (lines.first()?, lines.last()?);
    let gb = last.1 / 1e9;
    Some(Cost {
        gbit_per_s: (last.1 - first.1) * 8.0 / ((last.0 - first.0) * 1e6),
        client_s_per_gb: client_s / gb,
        server_s_per_gb: server_s / gb,
    })
}
