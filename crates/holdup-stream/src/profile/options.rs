//! The options of a flowop, out of `options="name=value flag …"` (uperf 1.0.8: parse.c, `parse_option`).

use super::faults::{Faults, Wrong, did_you_mean, one_line, shown};
use super::model::{Note, Options, Protocol, Size};
use super::number;
use super::{MOST_ITERATIONS, MOST_SIZE_BYTES, Variables};
use std::collections::BTreeSet;

const FLAGS: &[&str] = &["tcp_nodelay", "canfail", "non_blocking", "busy", "idle"];

const KEYS: &[&str] = &[
    "remotehost",
    "localhost",
    "protocol",
    "port",
    "conn",
    "wndsz",
    "size",
    "rsize",
    "count",
    "repeat",
    "batch_size",
    "duration",
    "timeout",
    "nfiles",
    "dir",
    "cc",
    "stack",
    "bblog",
];

/// Protocols that uperf has, or had, and holdup has not.
const FOREIGN_PROTOCOLS: &[&str] = &["ssl", "sctp", "rds", "vsock", "udapl"];

/// The text of a value, or of the variable that stands in its place.
///
/// As in uperf, a variable is the whole value or none, its name is read in lower case, and what it holds is not looked
/// through for further ones.
pub(super) fn resolve(value: &str, variables: Variables<'_>) -> Result<Option<String>, (String, Wrong)> {
    let Some(written) = value.strip_prefix('$') else {
        if value.contains('$') {
            let wrong = Wrong::new("a variable can only be the whole value").hint("write name=$variable");
            return Err((shown(value), wrong));
        }
        return Ok(None);
    };
    let name = written.to_lowercase();
    let what = format!("variable {}", shown(value));
    if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        let wrong = Wrong::new("not the name of a variable").hint("a variable is the whole value, as in count=$n");
        return Err((what, wrong));
    }
    let mut hint = format!("give it a value: {}=…", one_line(&name));
    if name != written {
        hint.push_str("; like uperf, holdup reads the names of variables in lower case");
    }
    match variables(&name) {
        Some(held) if !held.trim().is_empty() => Ok(Some(held)),
        Some(_) => Err((what, Wrong::new("is empty").hint(hint))),
        None => Err((what, Wrong::new("is not set").hint(hint))),
    }
}

/// Reads the options of one flowop.
pub(super) struct OptionReader<'a> {
    pub(super) flowop: &'a str,
    pub(super) variables: Variables<'a>,
    pub(super) faults: &'a mut Faults,
    pub(super) notes: &'a mut Vec<Note>,
    pub(super) options: Options,
    pub(super) seen: BTreeSet<String>,
}

impl OptionReader<'_> {
    /// One option, `name=value` or a flag.
    pub(super) fn read(&mut self, word: &str, line: u32) {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key.to_ascii_lowercase(), Some(value)),
            None => (word.to_ascii_lowercase(), None),
        };
        if self.seen.contains(&key) {
            self.note(line, format!("option {} stands twice: the last one counts", shown(&key)));
        }
        let read = match value {
            None => self.flag(&key),
            Some(value) => match resolve(value, self.variables) {
                // uperf reads a whole profile in lower case, but not what variables hold; folders are left alone here.
                Ok(None) if key == "dir" => self.key(&key, value, line),
                Ok(None) => self.key(&key, &value.to_lowercase(), line),
                Ok(Some(held)) => {
                    // The message shows what the variable holds, because the wrong value is there and not in the profile.
                    if let Err(wrong) = self.key(&key, held.trim(), line) {
                        self.wrong(line, &format!("{word} ({})", held.trim()), wrong);
                    }
                    Ok(())
                }
                Err((what, wrong)) => {
                    self.faults.add(line, what, wrong);
                    Ok(())
                }
            },
        };
        if let Err(wrong) = read {
            self.wrong(line, word, wrong);
        }
        self.seen.insert(key);
    }

    fn wrong(&mut self, line: u32, option: &str, wrong: Wrong) {
        self.faults.add(line, format!("flowop {}, option {}", shown(self.flowop), shown(option)), wrong);
    }

    fn note(&mut self, line: u32, text: String) {
        self.notes.push(Note { line, text });
    }

    fn flag(&mut self, key: &str) -> Result<(), Wrong> {
        match key {
            "tcp_nodelay" => self.options.tcp_nodelay = true,
            "canfail" => self.options.canfail = true,
            "non_blocking" => self.options.non_blocking = true,
            "busy" => self.options.busy = true,
            // With both, uperf computes.
            "idle" => {}
            key if KEYS.contains(&key) => {
                return Err(Wrong::new("has no value").hint(format!("write {key}=…, without blanks")));
            }
            key => return Err(unknown(key)),
        }
        Ok(())
    }

    fn key(&mut self, key: &str, value: &str, line: u32) -> Result<(), Wrong> {
        if value.is_empty() {
            return Err(Wrong::new("has no value").hint(format!("write {key}=…, without blanks")));
        }
        let o = &mut self.options;
        match key {
            "remotehost" => o.remotehost = Some(value.to_owned()),
            "protocol" => o.protocol = Some(protocol(value)?),
            "port" => o.port = Some(port(value)?),
            "conn" => o.conn = at_least_one(value)? as u32,
            "wndsz" => o.wndsz = Some(number::size(value, MOST_SIZE_BYTES)?).filter(|bytes| *bytes > 0),
            "size" => o.size = Some(size(value)?),
            "rsize" => o.rsize = Some(above_zero(number::size(value, MOST_SIZE_BYTES)?)?),
            "count" => o.count = number::plain(value, MOST_ITERATIONS)?,
            "repeat" => o.repeat = at_least_one(value)?,
            "timeout" => self.options.timeout_ns = Some(self.time(value, line)?),
            "duration" => self.options.duration_ns = Some(self.time(value, line)?),
            "nfiles" => o.nfiles = Some(above_zero(number::size(value, 1 << 20)?)?),
            "dir" => o.dir = Some(value.to_owned()),
            "cc" => o.cc = Some(value.to_owned()),
            "localhost" | "batch_size" | "stack" | "bblog" => self.without_effect(key, value, line)?,
            key if FLAGS.contains(&key) => {
                return Err(Wrong::new("takes no value").hint(format!("write {key} alone")));
            }
            key => return Err(unknown(key)),
        }
        Ok(())
    }

    /// Options that are read and do nothing here, as in uperf on Linux without SCTP and RDS.
    fn without_effect(&mut self, key: &str, value: &str, line: u32) -> Result<(), Wrong> {
        let o = &mut self.options;
        let why = match key {
            "localhost" => {
                o.localhost = Some(value.to_owned());
                "uperf uses it for rds only"
            }
            "batch_size" => {
                o.batch_size = at_least_one(value)?;
                "uperf uses it for sctp only"
            }
            "stack" => {
                o.stack = Some(value.to_owned());
                "it chooses a TCP of FreeBSD"
            }
            _ => {
                o.bblog = Some(number::size(value, MOST_ITERATIONS)?);
                "it is about the log of FreeBSD's TCP"
            }
        };
        self.note(line, format!("option {} has no effect: {why}", shown(key)));
        Ok(())
    }

    fn time(&mut self, value: &str, line: u32) -> Result<u64, Wrong> {
        let (ns, is_m) = number::time_ns(value)?;
        if is_m {
            self.note(line, format!("time {} is in milliseconds, as in uperf", shown(value)));
        }
        Ok(ns)
    }
}

fn unknown(key: &str) -> Wrong {
    if key.starts_with("sctp_") {
        return Wrong::new("belongs to sctp, which holdup does not have");
    }
    match key {
        "engine" | "cipher" | "method" => Wrong::new("belongs to ssl, which holdup does not have"),
        "encaps" => Wrong::new("packs sctp or FreeBSD's TCP into UDP, which holdup does not have"),
        "rate" => Wrong::new("there is no such option").hint("the rate is an attribute of the transaction"),
        "poll_timeout" => Wrong::new("there is no such option").hint("uperf reads it as `timeout`"),
        key => Wrong::new("there is no such option").hint(did_you_mean(key, KEYS.iter().chain(FLAGS).copied())),
    }
}

fn protocol(value: &str) -> Result<Protocol, Wrong> {
    let name = value.to_ascii_lowercase();
    let names = || Protocol::WORDS.iter().copied();
    match name.parse().ok() {
        Some(protocol) => Ok(protocol),
        None if FOREIGN_PROTOCOLS.contains(&name.as_str()) => Err(Wrong::new(format!("holdup has no {name}"))
            .hint(format!("it has {}", names().collect::<Vec<_>>().join(", ")))),
        None => Err(Wrong::new("there is no such protocol").hint(did_you_mean(&name, names()))),
    }
}

fn port(value: &str) -> Result<u16, Wrong> {
    match value.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(Wrong::new("not a port").hint("from 1 to 65535; leave it out for any that is free")),
    }
}

fn at_least_one(value: &str) -> Result<u64, Wrong> {
    above_zero(number::plain(value, MOST_ITERATIONS)?)
}

fn above_zero(number: u64) -> Result<u64, Wrong> {
    if number == 0 { Err(Wrong::new("must be above 0")) } else { Ok(number) }
}

/// `8k`, `8192` or `rand(1,8k)`.
fn size(value: &str) -> Result<Size, Wrong> {
    let bytes = |text: &str| above_zero(number::size(text.trim(), MOST_SIZE_BYTES)?);
    let is_random = value.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("rand("));
    if !is_random {
        return bytes(value).map(Size::Fixed);
    }
    let inside = value[5..].strip_suffix(')').and_then(|inside| inside.split_once(','));
    let Some((least, most)) = inside else {
        return Err(Wrong::new("not two sizes in brackets").hint("write size=rand(4k,8k), without blanks"));
    };
    let (least, most) = (bytes(least)?, bytes(most)?);
    if least > most {
        return Err(Wrong::new("the first size is above the second").hint("write size=rand(SMALLEST,LARGEST)"));
    }
    Ok(Size::Random { least, most })
}
