//! QMP, QEMU's monitor protocol: commands, answers and events are lines of JSON.
//!
//! Source: docs/interop/qmp-spec.txt of QEMU 7.2.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const MOST_LINE_BYTES: usize = 1 << 20;

const MOST_EVENTS: usize = 100;

/// A connection to QEMU's monitor.
#[derive(Debug)]
pub(super) struct Qmp {
    stream: UnixStream,
    read: Vec<u8>,
    /// Events by name and data.
    events: VecDeque<(String, Value)>,
}

impl Qmp {
    pub(super) fn connect(stream: UnixStream, limit: Duration) -> io::Result<Qmp> {
        let mut qmp = Qmp { stream, read: Vec::new(), events: VecDeque::new() };
        let deadline = Instant::now() + limit;
        while qmp.message(deadline)?.get("QMP").is_none() {}
        qmp.execute("qmp_capabilities", limit)?;
        Ok(qmp)
    }

    pub(super) fn execute(&mut self, command: &str, limit: Duration) -> io::Result<Value> {
        let deadline = Instant::now() + limit;
        self.stream.set_write_timeout(Some(limit))?;
        let line = format!("{}\n", json!({ "execute": command }));
        self.stream.write_all(line.as_bytes())?;
        loop {
            let mut message = self.message(deadline)?;
            if let Some(error) = message.get("error") {
                let why = error.get("desc").and_then(Value::as_str).unwrap_or("an error without a reason");
                return Err(io::Error::other(format!("{command}: {why}")));
            }
            if let Some(value) = message.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    /// `running`, `paused`, `shutdown`, `internal-error`, `guest-panicked`, …
    pub(super) fn status(&mut self, limit: Duration) -> io::Result<String> {
        let answer = self.execute("query-status", limit)?;
        let status = answer.get("status").and_then(Value::as_str);
        status.map(str::to_owned).ok_or_else(|| io::Error::other("query-status: no status in the answer"))
    }

    /// The host's threads of the virtual CPUs, in order.
    pub(super) fn cpu_threads(&mut self, limit: Duration) -> io::Result<Vec<i32>> {
        let answer = self.execute("query-cpus-fast", limit)?;
        let number = |cpu: &Value, key: &str| cpu.get(key).and_then(Value::as_i64);
        let cpu = |cpu: &Value| Some((number(cpu, "cpu-index")?, i32::try_from(number(cpu, "thread-id")?).ok()?));
        let threads: Option<Vec<_>> = answer.as_array().and_then(|all| all.iter().map(cpu).collect());
        let mut threads = threads.ok_or_else(|| io::Error::other("query-cpus-fast: no thread ids in the answer"))?;
        threads.sort_unstable();
        Ok(threads.into_iter().map(|(_, thread)| thread).collect())
    }

    /// `guest-shutdown`, `guest-reset`, `host-signal`, …, once QEMU has ended.
    pub(super) fn shutdown_reason(&mut self) -> Option<String> {
        let deadline = Instant::now() + Duration::from_millis(200);
        while self.message(deadline).is_ok() {}
        let data = self.events.iter().rev().find(|(name, _)| name == "SHUTDOWN").map(|(_, data)| data)?;
        data.get("reason").and_then(Value::as_str).map(str::to_owned)
    }

    /// The next message; events are recorded too.
    fn message(&mut self, deadline: Instant) -> io::Result<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let message: Value = serde_json::from_slice(&line)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("no JSON on QMP: {e}")))?;
                if let Some(name) = message.get("event").and_then(Value::as_str) {
                    let event = (name.to_owned(), message.get("data").cloned().unwrap_or(Value::Null));
                    self.events.push_back(event);
                    if self.events.len() > MOST_EVENTS {
                        self.events.pop_front();
                    }
                }
                return Ok(message);
            }
            if self.read.len() > MOST_LINE_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line of QMP without end"));
            }
            self.more(deadline)?;
        }
    }

    fn more(&mut self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "QEMU's monitor does not answer"));
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "QEMU closed its monitor")),
            Ok(count) => {
                self.read.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);
    const GREETING: &str = "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n{\"return\": {}}\r\n";

    /// A monitor with a fixed output.
    fn monitor(says: &str) -> (io::Result<Qmp>, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(says.as_bytes()).unwrap();
        (Qmp::connect(ours, SOON), theirs)
    }

    #[test]
    fn answers_are_distinguished_from_events() {
        let says = format!(
            "{GREETING}{{\"event\": \"RESUME\"}}\r\n{{\"return\": {{\"status\": \"running\"}}}}\r\n\
             {{\"return\": [{{\"cpu-index\": 1, \"thread-id\": 12}}, {{\"cpu-index\": 0, \"thread-id\": 11}}]}}\r\n\
             {{\"error\": {{\"class\": \"GenericError\", \"desc\": \"no\"}}}}\r\n\
             {{\"event\": \"SHUTDOWN\", \"data\": {{\"guest\": true, \"reason\": \"guest-reset\"}}}}\r\n"
        );
        let (qmp, theirs) = monitor(&says);
        let mut qmp = qmp.unwrap();
        assert_eq!(qmp.status(SOON).unwrap(), "running");
        assert_eq!(qmp.cpu_threads(SOON).unwrap(), [11, 12]);
        assert_eq!(qmp.execute("x", SOON).unwrap_err().to_string(), "x: no");
        drop(theirs);
        assert_eq!(qmp.shutdown_reason().as_deref(), Some("guest-reset"));
    }

    #[test]
    fn what_is_no_qmp_is_an_error() {
        let error = |says: &str| monitor(says).0.unwrap_err().kind();
        assert_eq!(error("SeaBIOS\n"), io::ErrorKind::InvalidData);
        let (qmp, theirs) = monitor(GREETING);
        drop(theirs);
        let mut qmp = qmp.unwrap();
        assert!(qmp.status(SOON).is_err());
        assert_eq!(qmp.shutdown_reason(), None);
    }
}
