//! Clients take their rows more slowly than the server gives them.

use crate::situations::server::Server;
use crate::situations::{QUIET, Situation, USUAL, judge_beside};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "slow reader",
    first: &["other-wait"],
    says: "Clients that read slowly: sessions spend",
    never: &["oversubscription", "heavyweight-lock", "lightweight-lock", "slow-disk"],
    ..QUIET
};

const MANY_ROWS: &str = "COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT";

/// A client of ours that has sent a statement (protocol-message-formats of PostgreSQL: StartupMessage, Query).
pub(crate) fn client(server: &Server, statement: &str) -> UnixStream {
    let mut stream = UnixStream::connect(server.socket()).expect("the server listens");
    let startup = b"\0\x03\0\0user\0holdup\0database\0postgres\0\0";
    let query = [statement.as_bytes(), b"\0"].concat();
    for (kind, body) in [(&b""[..], &startup[..]), (b"Q", &query)] {
        let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
        stream.write_all(&[kind, &length, body].concat()).expect("it is read");
    }
    stream
}

pub(crate) fn clients_that_read_slowly() {
    judge_beside(&SITUATION, USUAL, |server| {
        for _ in 0..4 {
            let (mut stream, mut some) = (client(server, MANY_ROWS), [0; 4096]);
            server.thread(move |_| {
                std::thread::sleep(Duration::from_millis(10));
                stream.read(&mut some).is_ok_and(|read| read > 0)
            });
        }
        std::thread::sleep(Duration::from_millis(500));
    });
}
