//! The server's side: a service that carries out orders on the machine where it runs.

use crate::Cancel;
use crate::clock::{now_ns, unix_less_monotonic_ns};
use crate::peer::channel::{Channel, End};
use crate::peer::{MOST_MESSAGE_BYTES, PeerAnswer, PeerHello, PeerOrder, RemoteEnd};
use holdup_host::Host;
use holdup_model::ends::{MOST_CLIENT_HOSTS, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the listener looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a connection may be silent before its hello.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// The longest message before the token is known, bytes: a hello has some hundred.
const MOST_HELLO_BYTES: usize = 4 << 10;
/// Connections with the token that are served at the same time; a session needs one for each client host. No more wait for theirs:
/// any user of a client host can connect.
const MOST_CONNECTIONS: usize = 4 * MOST_CLIENT_HOSTS;

/// Who is served.
#[derive(Debug, Clone, Default)]
pub enum Admission {
    /// Each connection, as on a link between two machines alone; the token is empty.
    #[default]
    Each,
    /// Connections from these addresses alone, each with the token of its address.
    Only(Vec<(IpAddr, Token)>),
}

impl Admission {
    /// The tokens of which a connection from here has to say one; `None` where none is served.
    fn tokens(&self, from: IpAddr) -> Option<Vec<Token>> {
        let tokens: Vec<Token> = match self {
            Admission::Each => vec![Token::default()],
            Admission::Only(all) => {
                all.iter().filter(|(only, _)| *only == from.to_canonical()).map(|(_, token)| token.clone()).collect()
            }
        };
        (!tokens.is_empty()).then_some(tokens)
    }
}

/// Connections of a service: those with a token, and those that have not shown one yet.
#[derive(Default)]
struct ServiceDoor {
    /// Connections without a token, by their numbers, the oldest first.
    waiting: Mutex<VecDeque<(u64, TcpStream)>>,
    /// Has a reference of each that has shown one, beside its own.
    open: Arc<()>,
}

impl ServiceDoor {
    /// Has a connection wait until it shows its token, and the oldest of too many end.
    fn wait(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back((number, stream));
        if waiting.len() > MOST_CONNECTIONS
            && let Some((_, oldest)) = waiting.pop_front()
        {
            // The thread of the connection reads an end, and says why.
            let _gone = oldest.shutdown(Shutdown::Read);
        }
        Ok(())
    }

    /// Ends the wait of a connection; `false` when it had to end for another one.
    fn leave(&self, number: u64) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.len();
        waiting.retain(|(of, _)| *of != number);
        waiting.len() < before
    }
}

/// Serves a listener until it is asked to stop, each connection in its own thread. Returns when the last of them
/// has ended, which they do within some milliseconds then.
///
/// `log` gets a line for each connection that ended for a reason other than the client's request.
///
/// # Errors
/// When the listener itself cannot be used. What a connection brings is no error of the service.
pub fn serve<E: RemoteEnd>(
    host: &Host,
    listener: &TcpListener,
    admission: &Admission,
    stop: &Cancel,
    log: &(dyn Fn(&str) + Sync),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let door = ServiceDoor::default();
    std::thread::scope(|scope| {
        for number in 0.. {
            if stop.is_cancelled() {
                break;
            }
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) => {
                    match e.kind() {
                        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                        _ if matches!(e.raw_os_error(), Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK)) => {
                            // Connections that are open would keep this from returning.
                            stop.cancel();
                            return Err(e);
                        }
                        // No descriptor or no memory is left for one more; the next attempt may find some.
                        _ => log(&format!("a connection could not be taken: {e}")),
                    }
                    std::thread::sleep(GLANCE);
                    continue;
                }
            };
            let Some(tokens) = admission.tokens(from.ip()) else {
                log(&format!("{from}: refused: it is another host"));
                continue;
            };
            if let Err(e) = door.wait(number, &stream) {
                log(&format!("{from}: a connection could not be taken: {e}"));
                continue;
            }
            let door = &door;
            let work = move || {
                if let Some(line) = one::<E>(host, stream, from, &tokens, (door, number), stop) {
                    log(&line);
                }
                door.leave(number);
            };
            if let Err(e) = std::thread::Builder::new().name("holdup-peer".to_owned()).spawn_scoped(scope, work) {
                door.leave(number);
                log(&format!("{from}: no thread for it: {e}"));
            }
        }
        Ok(())
    })
}

/// One connection; returns the line to log at its end.
fn one<E: RemoteEnd>(
    host: &Host,
    stream: TcpStream,
    from: SocketAddr,
    tokens: &[Token],
    at: (&ServiceDoor, u64),
    stop: &Cancel,
) -> Option<String> {
    // Dropped after the channel: the client has its end at that moment, however long workers take to end.
    let mut server = E::default();
    let mut channel = match Channel::new(stream) {
        Ok(channel) => channel,
        Err(e) => return Some(format!("{from}: {e}")),
    };
    match converse(host, &mut channel, &mut server, tokens, at, stop) {
        Ok(()) | Err(End::Cancelled) => None,
        Err(End::Crowded) => {
            let _gone = channel.send(&PeerAnswer::<()>::Crowded);
            Some(format!("{from}: {}", End::Crowded))
        }
        Err(end) => {
            // Who sends garbage may not read the answer, but one of another version will.
            let _gone = channel.send(&PeerAnswer::<()>::Refused(end.to_string()));
            Some(format!("{from}: {end}"))
        }
    }
}

fn converse<E: RemoteEnd>(
    host: &Host,
    channel: &mut Channel,
    server: &mut E,
    tokens: &[Token],
    (door, number): (&ServiceDoor, u64),
    stop: &Cancel,
) -> Result<(), End> {
    // The token comes first: of another connection nothing but a hello is read.
    channel.most_bytes = MOST_HELLO_BYTES;
    let first = channel.receive::<PeerOrder<()>>(Some(HELLO_LIMIT), stop);
    if !door.leave(number) {
        return Err(End::Crowded);
    }
    let first = match first {
        // It looked whether the port is open.
        Err(End::Closed) => return Ok(()),
        first => first?,
    };
    let nonce = match first {
        PeerOrder::Hello(_, given) if !tokens.contains(&given) => {
            return Err(End::fault("its token is not the one of this run"));
        }
        PeerOrder::Hello(hello, _) if hello.version == env!("CARGO_PKG_VERSION") => hello.nonce,
        PeerOrder::Hello(hello, _) => {
            let why = format!("holdup {} asks, this is {}", hello.version.escape_debug(), env!("CARGO_PKG_VERSION"));
            return Err(End::Fault(why));
        }
        _ => return Err(End::fault("an order came before the hello")),
    };
    let _open = Arc::clone(&door.open);
    if Arc::strong_count(&door.open) > 1 + MOST_CONNECTIONS {
        return Err(End::Fault(format!("{MOST_CONNECTIONS} connections are open, and no more are served")));
    }
    channel.most_bytes = MOST_MESSAGE_BYTES;
    channel.send(&PeerAnswer::<()>::Hello(PeerHello::of(host, nonce)))?;
    loop {
        let order = channel.receive::<PeerOrder<E::Order>>(None, stop)?;
        let received_ns = now_ns().cast_signed();
        let answer = match order {
            PeerOrder::Clock => PeerAnswer::Clock {
                received_ns,
                unix_less_monotonic_ns: unix_less_monotonic_ns(),
                sent_back_ns: now_ns().cast_signed(),
            },
            PeerOrder::Facts => PeerAnswer::Facts(holdup_host::facts(host)),
            PeerOrder::Work(order) => match server.carry_out(host, channel.address(), order) {
                Ok(answer) => PeerAnswer::Work(answer),
                Err(problem) => PeerAnswer::Failed(format!("{}: {}", problem.what, problem.why)),
            },
            PeerOrder::Bye => return Ok(()),
            PeerOrder::Hello(..) => return Err(End::fault("a second hello came")),
        };
        channel.send(&answer)?;
    }
}

#[cfg(test)]
mod tests;
