//! The server's side: a service that carries out orders on the machine where it runs.

use crate::Cancel;
use crate::clock::{now_ns, unix_less_monotonic_ns};
use crate::peer::channel::{Channel, End};
use crate::peer::{PeerAnswer, PeerHello, PeerOrder, RemoteEnd};
use holdup_host::Host;
use holdup_model::ends::{MOST_CLIENT_HOSTS, Token};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How often the listener looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a connection may be silent before its hello.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// Connections that are served at the same time; a session needs one for each client host.
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
    let open = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        while !stop.is_cancelled() {
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
            if open.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                open.fetch_sub(1, Ordering::SeqCst);
                turn_away(stream);
                log(&format!("{from}: refused: {MOST_CONNECTIONS} connections are open"));
                continue;
            }
            let open = &open;
            let work = move || {
                if let Some(line) = one::<E>(host, stream, from, &tokens, stop) {
                    log(&line);
                }
                open.fetch_sub(1, Ordering::SeqCst);
            };
            if let Err(e) = std::thread::Builder::new().name("holdup-peer".to_owned()).spawn_scoped(scope, work) {
                open.fetch_sub(1, Ordering::SeqCst);
                log(&format!("{from}: no thread for it: {e}"));
            }
        }
        Ok(())
    })
}

fn turn_away(stream: TcpStream) {
    let why = format!("{MOST_CONNECTIONS} connections are open, and no more are served");
    if let Ok(mut channel) = Channel::new(stream) {
        let _gone = channel.send(&PeerAnswer::<()>::Refused(why));
    }
}

/// One connection; returns the line to log at its end.
fn one<E: RemoteEnd>(
    host: &Host,
    stream: TcpStream,
    from: SocketAddr,
    tokens: &[Token],
    stop: &Cancel,
) -> Option<String> {
    // Dropped after the channel: the client has its end at that moment, however long workers take to end.
    let mut server = E::default();
    let mut channel = match Channel::new(stream) {
        Ok(channel) => channel,
        Err(e) => return Some(format!("{from}: {e}")),
    };
    match converse(host, &mut channel, &mut server, tokens, stop) {
        Ok(()) | Err(End::Cancelled) => None,
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
    stop: &Cancel,
) -> Result<(), End> {
    // The token comes first: of another connection nothing but a hello is read.
    let first = match channel.receive::<PeerOrder<()>>(Some(HELLO_LIMIT), stop) {
        // It looked whether the port is open.
        Err(End::Closed) => return Ok(()),
        first => first?,
    };
    match first {
        PeerOrder::Hello(_, given) if !tokens.contains(&given) => {
            return Err(End::fault("its token is not the one of this run"));
        }
        PeerOrder::Hello(hello, _) if hello.version == env!("CARGO_PKG_VERSION") => {
            channel.send(&PeerAnswer::<()>::Hello(PeerHello::of(host, hello.nonce)))?;
        }
        PeerOrder::Hello(hello, _) => {
            let why = format!("holdup {} asks, this is {}", hello.version.escape_debug(), env!("CARGO_PKG_VERSION"));
            return Err(End::Fault(why));
        }
        _ => return Err(End::fault("an order came before the hello")),
    }
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
