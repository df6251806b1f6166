//! Lines for the system's log: a datagram to /dev/log (RFC 3164), which journald and syslogd read.

use std::os::unix::net::UnixDatagram;

/// Facility daemon (3), severity warning (4).
const PRIORITY: u32 = 3 * 8 + 4;

/// Writes one line. A system without a log has none, which is no error.
pub fn warn(line: &str) {
    let line = line.replace(['\n', '\r'], " ");
    let message = format!("<{PRIORITY}>holdup[{}]: {line}", std::process::id());
    // The socket is never waited for: a log that is stuck must not stop what is watched.
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(message.as_bytes(), "/dev/log")
    });
    let _not_there = sent;
}
