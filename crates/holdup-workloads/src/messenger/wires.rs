//! What messages go through: one wire for each receiver, which all senders of its group write to.

use holdup_catalogue::messenger::Transport;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// How often a stranger may connect to the listening socket before it is given up.
const STRANGERS: usize = 16;

/// The wires of one group.
pub(crate) struct Wires {
    /// Where its senders write, one for each receiver. Threads share it, and the last one closes them.
    pub(crate) into: Arc<Vec<OwnedFd>>,
    /// Where its receivers read.
    pub(crate) out: Vec<Arc<OwnedFd>>,
}

/// Makes what `groups` groups of `receivers` receivers need.
pub(crate) fn make(transport: Transport, groups: usize, receivers: usize) -> io::Result<Vec<Wires>> {
    let mut pair: Box<dyn FnMut() -> io::Result<(OwnedFd, OwnedFd)>> = match transport {
        Transport::SocketPair => Box::new(|| UnixStream::pair().map(|(a, b)| (a.into(), b.into()))),
        Transport::Pipe => Box::new(|| io::pipe().map(|(read, write)| (write.into(), read.into()))),
        Transport::Tcp => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            Box::new(move || tcp(&listener))
        }
    };
    let mut group = || {
        let (into, out) = (0..receivers).map(|_| pair()).collect::<io::Result<(Vec<_>, Vec<_>)>>()?;
        Ok(Wires { into: Arc::new(into), out: out.into_iter().map(Arc::new).collect() })
    };
    (0..groups).map(|_| group()).collect()
}

/// A connection from this process to itself.
fn tcp(listener: &TcpListener) -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let own = ours.local_addr()?;
    for _ in 0..STRANGERS {
        // Anyone on this machine may connect to a listening socket; theirs are closed.
        let (accepted, peer) = listener.accept()?;
        if peer == own {
            return Ok((ours.into(), accepted.into()));
        }
    }
    Err(io::Error::other("others connect to the listening socket all the time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_into_a_wire_comes_out_of_it_alone() {
        for transport in [Transport::SocketPair, Transport::Pipe, Transport::Tcp] {
            let groups = make(transport, 2, 3).expect("wires");
            assert_eq!(groups.len(), 2);
            for (g, group) in groups.iter().enumerate() {
                for (r, into) in group.into.iter().enumerate() {
                    rustix::io::write(into, &[g as u8, r as u8]).expect("written");
                }
            }
            for (g, group) in groups.into_iter().enumerate() {
                drop(group.into);
                for (r, out) in group.out.iter().enumerate() {
                    let mut bytes = [0; 3];
                    assert_eq!(rustix::io::read(out, &mut bytes), Ok(2), "{transport:?}");
                    assert_eq!(bytes, [g as u8, r as u8, 0], "{transport:?}");
                    assert_eq!(rustix::io::read(out, &mut bytes), Ok(0), "{transport:?} ends");
                }
            }
        }
    }
}
