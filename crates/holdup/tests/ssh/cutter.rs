//! A line that is cut at a message: stands in the place of `ssh`, runs the real one, and counts what goes through.

use holdup_model::frame::{Decoder, Received, encode};
use holdup_model::wire::{self, Answer, Order};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The environment variable that makes this program the cutter: `HOW:AT:FILE:HOST`. `close` ends the connection in place of the
/// message AT, `silent` lets nothing through from there on. Heartbeats do not count. FILE has the number of messages so far. Lines
/// to hosts other than HOST are left alone.
pub(crate) const CUTTER: &str = "HOLDUP_TEST_CUTTER";

/// What a connection is refused with after the cut.
pub(crate) const IS_CUT: &str = "the line is cut";

struct Counted {
    how: String,
    at: u32,
    file: PathBuf,
}

impl Counted {
    fn number(&self) -> u32 {
        std::fs::read_to_string(&self.file).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Counts one message; whether it may go through.
    fn may_pass(&self) -> bool {
        let number = self.number() + 1;
        std::fs::write(&self.file, number.to_string()).expect("the file of the count");
        number < self.at
    }
}

pub(crate) fn run(asked: &str) -> ExitCode {
    let mut parts = asked.splitn(4, ':');
    let mut part = || parts.next().expect("HOW:AT:FILE:HOST").to_owned();
    let counted = Counted { how: part(), at: part().parse().expect("a number"), file: part().into() };
    let host = part();
    if !std::env::args().any(|word| word == host) {
        let other = Command::new("ssh").args(std::env::args_os().skip(1)).exec();
        panic!("ssh: {other}");
    }
    if counted.number() >= counted.at {
        eprintln!("{IS_CUT}");
        return ExitCode::from(255);
    }
    let mut ssh = Command::new("ssh")
        .args(std::env::args_os().skip(1))
        .env_remove(CUTTER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ssh");
    let (to, from) = (ssh.stdin.take().expect("a pipe"), ssh.stdout.take().expect("a pipe"));
    let ssh = Arc::new(Mutex::new(ssh));
    let counted = Arc::new(Mutex::new(counted));
    {
        let (ssh, counted) = (Arc::clone(&ssh), Arc::clone(&counted));
        std::thread::spawn(move || {
            pump(std::io::stdin(), to, &counted, &ssh, |payload| {
                matches!(wire::from_bytes::<Order>(payload), Ok(Order::Alive))
            });
        });
    }
    pump(from, std::io::stdout(), &counted, &ssh, |payload| {
        matches!(wire::from_bytes::<Answer>(payload), Ok(Answer::Alive))
    });
    let status = ssh.lock().expect("no panic").wait().expect("ssh");
    ExitCode::from(u8::try_from(status.code().unwrap_or(255)).unwrap_or(255))
}

/// Hands on one direction, message by message.
fn pump(
    mut from: impl Read,
    to: impl Write + Send + 'static,
    counted: &Mutex<Counted>,
    ssh: &Mutex<std::process::Child>,
    is_beat: impl Fn(&[u8]) -> bool,
) {
    let (mut decoder, mut bytes, mut to) = (Decoder::new(), vec![0; 64 << 10], to);
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        decoder.feed(&bytes[..n]);
        while let Some(received) = decoder.next() {
            let passed = match received {
                Received::Frame { sequence, payload } => {
                    let counted = counted.lock().expect("no panic");
                    if counted.number() >= counted.at || (!is_beat(&payload) && !counted.may_pass()) {
                        cut(&counted.how, to, ssh);
                    }
                    encode(sequence, &payload)
                }
                Received::Noise(bytes) => bytes,
                other => panic!("{other:?}"),
            };
            if to.write_all(&passed).and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    }
}

fn cut(how: &str, to: impl Send + 'static, ssh: &Mutex<std::process::Child>) -> ! {
    if how == "close" {
        ssh.lock().expect("no panic").kill().expect("ssh runs");
        std::process::exit(255);
    }
    // Both pipes of ssh stay open, also when this program is ended: a cable that was pulled says nothing.
    std::mem::forget(to);
    std::thread::sleep(Duration::from_secs(60));
    std::process::exit(255);
}
