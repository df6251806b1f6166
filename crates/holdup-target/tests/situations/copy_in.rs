//! A client gives COPY its rows slowly: its session waits for it, in a transaction.

use crate::situations::{QUIET, Situation, USUAL, judge_beside};
use std::time::Duration;

static SITUATION: Situation = Situation { name: "slow producer", setup: &["CREATE TABLE t (id int)"], ..QUIET };

pub(crate) fn a_producer_that_is_slow() {
    judge_beside(&SITUATION, USUAL, |server| {
        for _ in 0..4 {
            let mut stream = crate::situations::slow_reader::client(server, "COPY t FROM STDIN");
            let row = [&b"d"[..], &8_u32.to_be_bytes(), b"1234"].concat();
            server.thread(move |_| {
                std::thread::sleep(Duration::from_millis(10));
                std::io::Write::write_all(&mut stream, &row).is_ok()
            });
        }
    });
}
