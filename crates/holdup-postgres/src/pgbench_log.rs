//! Reader of pgbench's per-transaction logs (`pgbench -l`).
//!
//! A line is `client_id transaction_no time script_no time_epoch time_us [schedule_lag] [retries]`; times
//! are in µs, `failed` or `skipped` (or `serialization`, `deadlock`) stands in place of the time of a
//! transaction without a result (src/bin/pgbench/pgbench.c:doLog, 15.18, 17.11). Memory stays the same
//! for a log of any size, and no byte of a log can make this panic.

use holdup_model::{Histogram, Problem};
use std::io::Read;

/// A line that is longer than this is not one of pgbench's: eight numbers need less.
const LONGEST_LINE: usize = 256;

/// How much of a line is quoted.
const QUOTED: usize = 80;

/// Which of the optional columns are there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogFormat {
    /// `schedule_lag`: written when a rate is set (`-R`).
    pub lag: bool,
    /// `retries`: written when the maximum number of tries is not 1.
    pub retries: bool,
}

/// What a log says about the window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogCounts {
    /// Transactions that were completed inside the window.
    pub completed: u64,
    /// Transactions that failed for good inside the window.
    pub failed: u64,
    /// Transactions that were skipped inside the window, because they were too late.
    pub skipped: u64,
    /// Completed or failed transactions inside the window that were tried more than once.
    pub retried: u64,
    /// The sum of the latencies of the completed ones, µs.
    pub latency_sum_us: u64,
    /// The sum of the schedule lags of the completed ones, µs; zero without a rate.
    pub lag_sum_us: u64,
    /// The time of clients between the end of a transaction and the start of their next one that was completed
    /// inside the window, µs: their thread of pgbench was busy with other clients. Zero with a rate.
    pub think_sum_us: u64,
    /// How many such times there are: the first transaction of a client has none.
    pub thinks: u64,
    /// Completed and failed transactions of the whole log, to hold against pgbench's own count.
    pub all_tried: u64,
    /// Skipped transactions of the whole log.
    pub all_skipped: u64,
}

/// A line that is none of pgbench's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLine {
    /// Its number in what was fed, from 1.
    pub number: u64,
    /// The begin of it, with what cannot be printed escaped.
    pub text: String,
}

impl From<UnknownLine> for Problem {
    fn from(line: UnknownLine) -> Self {
        Problem::trial("pgbench log", format!("line {} is not known: `{}`", line.number, line.text))
    }
}

/// Counts what lies inside a window, from bytes in pieces of any size.
#[derive(Debug, Clone)]
pub struct LogReader {
    begin_us: i64,
    end_us: i64,
    format: LogFormat,
    counts: LogCounts,
    latency: Histogram,
    lag: Histogram,
    lines: u64,
    /// When the last transaction of each client ended, µs; `NEVER` before its first.
    ends: Vec<i64>,
    /// The begin of a line whose end has not come yet.
    rest: Vec<u8>,
}

/// A time that no log has: `scan` never gives it.
const NEVER: i64 = i64::MIN;

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Completed(u64),
    Failed,
    Skipped,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Transaction {
    client: u64,
    outcome: Outcome,
    at_us: i64,
    lag_us: u64,
    retries: u64,
}

impl LogReader {
    /// A reader that counts the transactions that *ended* in `begin_us..=end_us`, µs since 1970 by the
    /// clock of the log. `clients` bounds the client numbers whose think time is followed.
    pub fn new(begin_us: i64, end_us: i64, format: LogFormat, clients: u32) -> Self {
        // With a rate, latency begins at the scheduled start, and clients wait for that: no think time.
        let followed = if format.lag { 0 } else { clients as usize };
        LogReader {
            begin_us,
            end_us,
            format,
            counts: LogCounts::default(),
            latency: Histogram::new(),
            lag: Histogram::new(),
            lines: 0,
            ends: vec![NEVER; followed],
            rest: Vec::new(),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// On the first line that is none of pgbench's; the reader is of no use after that.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), UnknownLine> {
        if !self.rest.is_empty() {
            let Some(end) = memchr::memchr(b'\n', bytes) else { return self.keep(bytes) };
            self.keep(&bytes[..end])?;
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.rest);
            self.line(&line)?;
            self.rest = line;
            self.rest.clear();
        }
        let Some(last) = memchr::memrchr(b'\n', bytes) else { return self.keep(bytes) };
        let (whole, rest) = bytes.split_at(last + 1);
        self.whole_lines(whole)?;
        self.keep(rest)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), UnknownLine> {
        if self.rest.len() + bytes.len() > LONGEST_LINE {
            let mut begin = std::mem::take(&mut self.rest);
            begin.extend_from_slice(&bytes[..bytes.len().min(QUOTED + 1)]);
            return Err(self.unknown(&begin));
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    /// `bytes` ends with a line's end.
    fn whole_lines(&mut self, bytes: &[u8]) -> Result<(), UnknownLine> {
        let mut from = 0;
        while from < bytes.len() {
            // Nearly every line is one that `scan` reads in a single pass, its end included.
            if let Some((line, length)) = scan(&bytes[from..], self.format) {
                self.count(line);
                from += length;
                continue;
            }
            let end = memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |n| from + n);
            self.line(&bytes[from..end])?;
            from = end + 1;
        }
        Ok(())
    }

    /// One line without its end.
    fn line(&mut self, line: &[u8]) -> Result<(), UnknownLine> {
        let mut ended = [0; LONGEST_LINE + 1];
        if line.len() > LONGEST_LINE {
            return Err(self.unknown(line));
        }
        ended[..line.len()].copy_from_slice(line);
        ended[line.len()] = b'\n';
        match scan(&ended[..=line.len()], self.format) {
            Some((parsed, length)) if length == line.len() + 1 => {
                self.count(parsed);
                Ok(())
            }
            _ => Err(self.unknown(line)),
        }
    }

    #[inline]
    fn count(&mut self, line: Transaction) {
        self.lines += 1;
        match line.outcome {
            Outcome::Skipped => self.counts.all_skipped += 1,
            _ => self.counts.all_tried += 1,
        }
        let slot = usize::try_from(line.client).ok().and_then(|client| self.ends.get_mut(client));
        let ended_before = slot.map_or(NEVER, |slot| std::mem::replace(slot, line.at_us));
        if line.at_us < self.begin_us || line.at_us > self.end_us {
            return;
        }
        self.counts.retried += u64::from(line.retries > 0);
        match line.outcome {
            Outcome::Failed => self.counts.failed += 1,
            Outcome::Skipped => self.counts.skipped += 1,
            Outcome::Completed(latency_us) => {
                self.counts.completed += 1;
                self.counts.latency_sum_us = self.counts.latency_sum_us.saturating_add(latency_us);
                self.latency.record_ns(latency_us.saturating_mul(1000));
                if ended_before != NEVER {
                    // The log's clock is read once more after the latency's: the difference may be a µs short.
                    let gap = line.at_us - ended_before;
                    let think = u64::try_from(gap).unwrap_or(0).saturating_sub(latency_us);
                    self.counts.think_sum_us = self.counts.think_sum_us.saturating_add(think);
                    self.counts.thinks += 1;
                }
                if self.format.lag {
                    self.counts.lag_sum_us = self.counts.lag_sum_us.saturating_add(line.lag_us);
                    self.lag.record_ns(line.lag_us.saturating_mul(1000));
                }
            }
        }
    }

    fn unknown(&self, line: &[u8]) -> UnknownLine {
        let mut text = line[..line.len().min(QUOTED)].escape_ascii().to_string();
        if line.len() > QUOTED {
            text.push('…');
        }
        UnknownLine { number: self.lines + 1, text }
    }

    /// Ends a file: a last line without its end was cut, which is what a full disk leaves.
    ///
    /// # Errors
    /// When a line was begun and not ended.
    pub fn end_of_file(&mut self) -> Result<(), UnknownLine> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.unknown(&self.rest)) }
    }

    /// Takes a whole file.
    ///
    /// # Errors
    /// When it cannot be read, or has a line that is none of pgbench's.
    pub fn read_file(&mut self, mut file: impl Read) -> Result<(), Problem> {
        // Fits the second-level cache together with the histogram.
        let mut buffer = vec![0; 128 << 10];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(self.end_of_file()?),
                Ok(length) => self.feed(&buffer[..length])?,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Problem::trial("pgbench log", format!("it cannot be read: {e}"))),
            }
        }
    }

    /// Lines taken so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The counts, the latencies and the schedule lags (ns) of what was fed.
    pub fn finish(self) -> (LogCounts, Histogram, Histogram) {
        (self.counts, self.latency, self.lag)
    }
}

/// The largest number that a column may hold. Far beyond every time in µs, and its thousandfold is no overflow
/// of the sums that follow.
const LARGEST: u64 = 999_999_999_999_999;

/// The digits at the begin of `bytes`, and how many there are. Neither none nor more than 15.
#[inline(always)]
fn digits(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    let mut length = 0;
    while let Some(digit) = bytes.get(length).map(|b| b.wrapping_sub(b'0')).filter(|d| *d <= 9) {
        value = value * 10 + u64::from(digit);
        length += 1;
        if value > LARGEST {
            return None;
        }
    }
    (length > 0).then_some((value, length))
}

/// Walks over the columns of one line.
struct Columns<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Columns<'_> {
    #[inline(always)]
    fn number(&mut self) -> Option<u64> {
        let (value, length) = digits(&self.bytes[self.at..])?;
        self.at += length;
        Some(value)
    }

    #[inline(always)]
    fn byte(&mut self, wanted: u8) -> Option<()> {
        (self.bytes.get(self.at) == Some(&wanted)).then(|| self.at += 1)
    }

    fn word(&mut self) -> Option<Outcome> {
        // `serialization` and `deadlock` are how --failures-detailed names failures.
        let words: [(&[u8], Outcome); 4] = [
            (b"failed", Outcome::Failed),
            (b"skipped", Outcome::Skipped),
            (b"serialization", Outcome::Failed),
            (b"deadlock", Outcome::Failed),
        ];
        let (word, outcome) = words.into_iter().find(|(word, _)| self.bytes[self.at..].starts_with(word))?;
        self.at += word.len();
        Some(outcome)
    }
}

/// Reads one line with its end from the begin of `bytes`; gives it and its length. `None` when the begin
/// of `bytes` is no such line.
#[inline(always)]
fn scan(bytes: &[u8], format: LogFormat) -> Option<(Transaction, usize)> {
    let mut columns = Columns { bytes, at: 0 };
    let client = columns.number()?;
    columns.byte(b' ')?;
    let _transaction = columns.number()?;
    columns.byte(b' ')?;
    let outcome = match columns.number() {
        Some(latency_us) => Outcome::Completed(latency_us),
        None => columns.word()?,
    };
    columns.byte(b' ')?;
    let _script = columns.number()?;
    columns.byte(b' ')?;
    let seconds = columns.number()?;
    columns.byte(b' ')?;
    let micros = columns.number()?;
    let mut line = Transaction { client, outcome, at_us: 0, lag_us: 0, retries: 0 };
    if format.lag {
        columns.byte(b' ')?;
        line.lag_us = columns.number()?;
    }
    if format.retries {
        columns.byte(b' ')?;
        line.retries = columns.number()?;
    }
    columns.byte(b'\n')?;
    let (seconds, micros) = (i64::try_from(seconds).ok()?, i64::try_from(micros).ok()?);
    line.at_us = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
    Some((line, columns.at))
}
