//! What the kernels' TCP is made to do.

use crate::namespaces::net::{Side, Wants};
use rustix::net::sockopt;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread::{scope, sleep};
use std::time::Duration;

const PORT: u16 = 5432;

/// A client on the first side, a server on the second.
fn pair(
    sides: &[Side; 2],
    wants: [Wants; 2],
    client: impl FnOnce(TcpStream) -> io::Result<()> + Send,
    server: impl FnOnce(TcpStream) -> io::Result<()> + Send,
) -> io::Result<()> {
    let listener = sides[1].listener(Wants { port: PORT, ..wants[1] })?;
    scope(|scope| {
        let served = scope.spawn(move || server(listener.accept()?.0));
        client(sides[0].connect(&sides[1], PORT, wants[0])?)?;
        served.join().expect("a server does not panic")
    })
}

fn send(stream: &mut TcpStream, bytes: usize) -> io::Result<()> {
    stream.write_all(&vec![7; bytes])
}

fn read_to_end(stream: &mut TcpStream) -> io::Result<()> {
    io::copy(stream, &mut io::sink()).map(drop)
}

fn ms(ms: u64) {
    sleep(Duration::from_millis(ms));
}

/// The client sends, then waits for the server's end.
pub(crate) fn upload(sides: &[Side; 2], bytes: usize, begin: Option<u32>) -> io::Result<()> {
    let client = |mut stream: TcpStream| {
        send(&mut stream, bytes)?;
        stream.shutdown(Shutdown::Write)?;
        read_to_end(&mut stream)
    };
    let wants = [Wants { begin, ..Wants::default() }, Wants::default()];
    pair(sides, wants, client, |mut stream| read_to_end(&mut stream))
}

/// Both send at the same time.
pub(crate) fn both(sides: &[Side; 2], bytes: usize) -> io::Result<()> {
    let end = |stream: TcpStream| {
        let (mut reader, mut writer) = (stream.try_clone()?, stream);
        scope(|scope| {
            let read = scope.spawn(move || read_to_end(&mut reader));
            send(&mut writer, bytes)?;
            writer.shutdown(Shutdown::Write)?;
            read.join().expect("a reader does not panic")
        })
    };
    pair(sides, [Wants::default(); 2], end, end)
}

/// Small requests with small answers.
pub(crate) fn requests(sides: &[Side; 2], rounds: usize) -> io::Result<()> {
    let client = |mut stream: TcpStream| {
        let mut answer = [0; 3000];
        for round in 0..rounds {
            send(&mut stream, 1 + round * 37 % 2000)?;
            stream.read_exact(&mut answer[..1 + round * 53 % 3000])?;
        }
        Ok(())
    };
    let server = |mut stream: TcpStream| {
        let mut request = [0; 2000];
        for round in 0..rounds {
            stream.read_exact(&mut request[..1 + round * 37 % 2000])?;
            send(&mut stream, 1 + round * 53 % 3000)?;
        }
        read_to_end(&mut stream)
    };
    pair(sides, [Wants::default(); 2], client, server)
}

/// The server does not read for a while, twice.
pub(crate) fn slow_reader(sides: &[Side; 2]) -> io::Result<()> {
    let bytes = 400_000;
    let client = |mut stream: TcpStream| send(&mut stream, bytes);
    let server = |mut stream: TcpStream| {
        ms(1500);
        let mut some = vec![0; bytes / 2];
        stream.read_exact(&mut some)?;
        ms(700);
        read_to_end(&mut stream)
    };
    pair(sides, [Wants::default(), Wants { receive_bytes: Some(20_000), ..Wants::default() }], client, server)
}

/// Nothing is said for a while, and both ends look whether the other one is there.
pub(crate) fn silence(sides: &[Side; 2]) -> io::Result<()> {
    let end = |mut stream: TcpStream| {
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(1))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(1))?;
        sockopt::set_socket_keepalive(&stream, true)?;
        send(&mut stream, 1000)?;
        ms(3300);
        send(&mut stream, 1000)?;
        stream.shutdown(Shutdown::Write)?;
        read_to_end(&mut stream)
    };
    pair(sides, [Wants::default(); 2], end, end)
}

/// The same ports again and again, after a reset and after an end.
pub(crate) fn ports_again(sides: &[Side; 2]) -> io::Result<()> {
    for round in 0..6 {
        let is_reset = round % 2 == 0;
        let wants = [Wants { port: 40_000, ..Wants::default() }, Wants::default()];
        let client = |mut stream: TcpStream| {
            send(&mut stream, 5000)?;
            stream.read_exact(&mut [0; 100])?;
            if is_reset {
                // It waits for the end of nothing: a reset is sent.
                return Ok(sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?);
            }
            read_to_end(&mut stream)
        };
        let server = |mut stream: TcpStream| {
            stream.read_exact(&mut [0; 5000])?;
            send(&mut stream, 100)?;
            if is_reset {
                // What it reads is the reset.
                return read_to_end(&mut stream).or(Ok(()));
            }
            Ok(())
        };
        pair(sides, wants, client, server)?;
        ms(20);
    }
    Ok(())
}

/// Closed ports, one of them twice from the same port, then a client that closes with unread data.
pub(crate) fn refused(sides: &[Side; 2]) -> io::Result<()> {
    for port in [41_000, 41_000, 0, 0] {
        let refused = sides[0].connect(&sides[1], 9, Wants { port, ..Wants::default() });
        assert!(refused.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused), "the port is closed");
    }
    let server = |mut stream: TcpStream| {
        // The reset may come while it sends.
        let _ = send(&mut stream, 50_000);
        let _ = read_to_end(&mut stream);
        Ok(())
    };
    let client = |mut stream: TcpStream| stream.read_exact(&mut [0; 100]);
    pair(sides, [Wants::default(); 2], client, server)
}

/// Both ends connect to each other at the same time.
pub(crate) fn at_once(sides: &[Side; 2]) -> io::Result<()> {
    let wants = Wants { port: 42_000, ..Wants::default() };
    scope(|scope| {
        let ends = [0, 1].map(|i| {
            scope.spawn(move || -> io::Result<()> {
                let mut stream = sides[i].connect(&sides[1 - i], 42_000, wants)?;
                send(&mut stream, 20_000)?;
                stream.shutdown(Shutdown::Write)?;
                read_to_end(&mut stream)
            })
        });
        ends.into_iter().try_for_each(|end| end.join().expect("an end does not panic"))
    })
}

/// The first connection gets a cookie, the next ones bring data in their SYN.
pub(crate) fn fast_open(sides: &[Side; 2]) -> io::Result<()> {
    for _ in 0..3 {
        let wants = Wants { fast_open: true, ..Wants::default() };
        let client = |mut stream: TcpStream| {
            send(&mut stream, 600)?;
            stream.shutdown(Shutdown::Write)?;
            read_to_end(&mut stream)
        };
        let server = |mut stream: TcpStream| {
            read_to_end(&mut stream)?;
            send(&mut stream, 3000)
        };
        pair(sides, [wants; 2], client, server)?;
    }
    Ok(())
}
