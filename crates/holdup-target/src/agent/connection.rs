//! The agent's side of its connection: frames out under one lock, frames in by one thread.

use super::client::OfClients;
use holdup_load::Cancel;
use holdup_model::Problem;
use holdup_model::frame::{Decoder, Received, encode};
use holdup_model::wire::{self, Answer, Order};
use holdup_watch::unix_ns;
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The interval of heartbeats. The other side takes an agent for hung after many of these.
const BEAT: Duration = Duration::from_secs(1);

/// The way out.
#[derive(Clone)]
pub(super) struct Connection {
    output: Arc<Mutex<Output>>,
}

struct Output {
    to: Box<dyn Write + Send>,
    sequence: u32,
}

/// Ends the beats when dropped.
pub(super) struct Beats(#[allow(dead_code, reason = "dropping it is what ends the thread")] Sender<()>);

impl Connection {
    pub(super) fn new(to: impl Write + Send + 'static) -> Self {
        Connection { output: Arc::new(Mutex::new(Output { to: Box::new(to), sequence: 0 })) }
    }

    /// Sends one message.
    pub(super) fn send(&self, answer: &Answer) -> Result<(), Problem> {
        let payload = wire::to_bytes(answer);
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = encode(output.sequence, &payload);
        output.sequence = output.sequence.wrapping_add(1);
        let written = output.to.write_all(&frame).and_then(|()| output.to.flush());
        written.map_err(|e| Problem::host("the connection to holdup", format!("it cannot be written: {e}")))
    }

    /// Sends a heartbeat each second, until the returned value is dropped.
    pub(super) fn beat_in_background(self) -> Beats {
        let (stop, stopped) = channel::<()>();
        std::thread::spawn(move || {
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if self.send(&Answer::Alive).is_err() {
                    return;
                }
            }
        });
        Beats(stop)
    }
}

/// Reads orders until the connection ends. `Off`, `Cancel` and that end cancel the work under way.
pub(super) fn read_in_background(
    mut input: impl Read + Send + 'static,
    (orders, of_clients): (Sender<Order>, Sender<OfClients>),
    cancel: Cancel,
    connection: Connection,
) {
    std::thread::spawn(move || {
        let mut decoder = Decoder::new();
        let mut bytes = vec![0; 64 << 10];
        loop {
            match input.read(&mut bytes) {
                Ok(0) => break,
                Ok(n) => decoder.feed(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            while let Some(received) = decoder.next() {
                let order = match received {
                    Received::Frame { payload, .. } => wire::from_bytes::<Order>(&payload),
                    Received::Noise(_) => continue,
                    Received::Gap { expected, found } => Err(format!("order {found} came where {expected} was due")),
                    Received::Damaged { why, .. } => Err(format!("an order came damaged: {why}")),
                };
                match order {
                    Ok(Order::Alive) => {}
                    Ok(Order::Cancel) => cancel.cancel(),
                    // An answer that no work waits for is of work that was ended.
                    Ok(Order::OfClients(answers)) => drop(of_clients.send(answers)),
                    // Answered here, where it waits for no trial.
                    Ok(Order::Clock) => drop(connection.send(&Answer::Clock(unix_ns()))),
                    Ok(order) => {
                        if order == Order::Off {
                            cancel.cancel();
                        }
                        if orders.send(order).is_err() {
                            return;
                        }
                    }
                    Err(why) => {
                        let _broken = connection.send(&Answer::Refused(why));
                    }
                }
            }
        }
        cancel.cancel();
        // The receiver sees that the sender is gone.
    });
}
