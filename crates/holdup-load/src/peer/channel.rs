//! Messages over one connection.

use super::MOST_MESSAGE_BYTES;
use crate::Cancel;
use holdup_model::frame::{Decoder, Received, encode};
use holdup_model::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// How often a wait looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a message that has begun may take until it is whole.
const WHOLE_LIMIT: Duration = Duration::from_secs(30);
/// How long the other side may not take what is written.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side closed it between two messages.
    Closed,
    /// It was asked to.
    Cancelled,
    /// It had shown no token yet, and too many others wait to.
    Crowded,
    /// This is wrong.
    Fault(String),
}

impl End {
    pub(crate) fn fault(why: impl Into<String>) -> Self {
        End::Fault(why.into())
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Closed => f.write_str("the other side closed the connection"),
            End::Cancelled => f.write_str("it was asked to end"),
            End::Crowded => f.write_str("ended for another one: too many connections have shown no token"),
            End::Fault(why) => f.write_str(why),
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    decoder: Decoder,
    sequence: u32,
    buffer: Vec<u8>,
    /// The longest message that is received.
    pub(crate) most_bytes: usize,
}

impl Channel {
    pub(crate) fn new(stream: TcpStream) -> std::io::Result<Self> {
        // An accepted socket does not inherit it, but one that was made not to block elsewhere would spin here.
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GLANCE))?;
        stream.set_write_timeout(Some(WRITE_LIMIT))?;
        let (decoder, buffer) = (Decoder::new(), vec![0; 64 << 10]);
        Ok(Channel { stream, decoder, sequence: 0, buffer, most_bytes: MOST_MESSAGE_BYTES })
    }

    /// The own address of the connection.
    pub(crate) fn address(&self) -> IpAddr {
        self.stream.local_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip())
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), End> {
        let payload = wire::to_plain_bytes(message);
        if payload.len() > MOST_MESSAGE_BYTES {
            let why = format!("a message of {} bytes was to be sent, above {MOST_MESSAGE_BYTES}", payload.len());
            return Err(End::Fault(why));
        }
        let frame = encode(self.sequence, &payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(&frame).map_err(|e| match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                End::Fault(format!("the other side took nothing for {} s", WRITE_LIMIT.as_secs()))
            }
            _ => End::Fault(format!("it cannot be written: {e}")),
        })
    }

    /// Waits for the next message: until it begins up to `limit` (`None` for as long as it takes), then until it is
    /// whole.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self, limit: Option<Duration>, cancel: &Cancel) -> Result<T, End> {
        let asked = Instant::now();
        let mut begun = None;
        loop {
            if let Some(received) = self.decoder.next() {
                return message(received, self.most_bytes);
            }
            let pending = self.decoder.pending_bytes();
            // Stuffing may double what is on the line.
            if pending > 2 * self.most_bytes {
                return Err(End::Fault(format!("a message above {} bytes", self.most_bytes)));
            }
            if cancel.is_cancelled() {
                return Err(End::Cancelled);
            }
            if pending > 0 {
                let since: Instant = *begun.get_or_insert_with(Instant::now);
                if since.elapsed() > WHOLE_LIMIT {
                    let why = format!("{pending} bytes of a message, and no more for {} s", WHOLE_LIMIT.as_secs());
                    return Err(End::Fault(why));
                }
            } else if let Some(limit) = limit.filter(|limit| asked.elapsed() > *limit) {
                return Err(End::Fault(format!("no message within {:.1} s", limit.as_secs_f64())));
            }
            match self.stream.read(&mut self.buffer) {
                Ok(0) if pending == 0 => return Err(End::Closed),
                Ok(0) => {
                    return Err(End::Fault(format!("the connection ended within a message, after {pending} bytes")));
                }
                Ok(count) => self.decoder.feed(&self.buffer[..count]),
                Err(e) => match e.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(End::Fault(format!("it cannot be read: {e}"))),
                },
            }
        }
    }
}

/// TCP loses and adds nothing, so bytes that are not the next frame were not sent by holdup.
fn message<T: DeserializeOwned>(received: Received, most_bytes: usize) -> Result<T, End> {
    match received {
        Received::Frame { payload, .. } if payload.len() > most_bytes => {
            Err(End::Fault(format!("a message of {} bytes, above {most_bytes}", payload.len())))
        }
        Received::Frame { payload, .. } => wire::from_plain_bytes(&payload).map_err(End::Fault),
        Received::Noise(bytes) => Err(End::Fault(format!("{} bytes that are no message of holdup", bytes.len()))),
        Received::Damaged { why, .. } => Err(End::Fault(format!("a damaged message: {why}"))),
        Received::Gap { expected, found } => Err(End::Fault(format!("message {found} came where {expected} was due"))),
    }
}
