//! Operations of a program: a line each, and blocks.

use crate::parse::{Names, add};
use crate::source::{SourceLine, Word};
use holdup_model::Problem;
use holdup_sim::program::{COUNTERS, Channel, Op, Preemption};
use holdup_sim::world::MOST_MARKS;
use std::collections::BTreeMap;

/// The most operations of a program.
const MOST_OPS: usize = 10_000;
/// The most blocks inside of each other.
const MOST_DEPTH: usize = 32;

/// An open block.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// Its first operation.
    begin: u32,
    /// How often it runs; `None` without end.
    times: Option<u32>,
    /// Its number, from 1 on.
    number: u32,
}

/// A jump to a label that may stand below it.
#[derive(Debug)]
struct Goes<'a> {
    /// The operation.
    at: usize,
    to: Word<'a>,
    /// The innermost `repeat` around it; 0 for none.
    within: u32,
}

/// A program that is being read.
pub(crate) struct Writer<'a, 'n> {
    names: &'n mut Names,
    ops: Vec<Op>,
    /// The line of each operation, and of the program's end.
    pub(crate) lines: Vec<u32>,
    blocks: Vec<Block>,
    /// How many blocks there were.
    opened: u32,
    /// Where labels stand, and in which `repeat`.
    labels: BTreeMap<&'a str, (u32, u32)>,
    goes: Vec<Goes<'a>>,
    /// True if the program creates tasks.
    pub(crate) forks: bool,
}

impl<'a, 'n> Writer<'a, 'n> {
    pub(crate) fn new(names: &'n mut Names) -> Self {
        Writer {
            names,
            ops: Vec::new(),
            lines: Vec::new(),
            blocks: Vec::new(),
            opened: 0,
            labels: BTreeMap::new(),
            goes: Vec::new(),
            forks: false,
        }
    }

    /// Reads up to the `}` that ends the program, whose first line is `header`.
    pub(crate) fn program(
        &mut self,
        header: &SourceLine<'_>,
        rest: &mut impl Iterator<Item = SourceLine<'a>>,
    ) -> Result<Vec<Op>, Problem> {
        for mut line in rest {
            let first = line.word("an operation")?;
            if self.ops.len() >= MOST_OPS {
                return Err(line.wrong(first, format!("a program has at most {MOST_OPS} operations")));
            }
            if first.text == "}" {
                line.end()?;
                self.lines.resize(self.ops.len() + 1, line.number());
                let Some(block) = self.blocks.pop() else {
                    self.find_labels(&line)?;
                    return Ok(std::mem::take(&mut self.ops));
                };
                self.close(block);
                continue;
            }
            self.operation(&mut line, first)?;
            line.end()?;
            self.lines.resize(self.ops.len(), line.number());
        }
        Err(header.wrong(header.last(), "the program has no end").hint("end it with a line `}`"))
    }

    fn close(&mut self, block: Block) {
        let to = block.begin;
        self.ops.push(match block.times {
            None => Op::Jump(to),
            // The blocks around it that count use the counters before this one.
            Some(times) => Op::Repeat { to, counter: self.counting() as u8, times },
        });
    }

    /// How many open blocks count.
    fn counting(&self) -> usize {
        self.blocks.iter().filter(|block| block.times.is_some()).count()
    }

    /// The innermost open block that counts.
    fn within(&self) -> u32 {
        self.blocks.iter().rev().find(|block| block.times.is_some()).map_or(0, |block| block.number)
    }

    fn operation(&mut self, line: &mut SourceLine<'a>, first: Word<'a>) -> Result<(), Problem> {
        let op = match first.text {
            "repeat" | "forever" => return self.block(line, first),
            "label" => return self.label(line),
            "jump" => return self.jump(line),
            "compute" => Op::Compute(line.span()?),
            "system" => self.system(line)?,
            "lock" => {
                let lock = line.one_of(&self.names.locks, "lock")?;
                if line.is("shared") { Op::LockShared(lock) } else { Op::Lock(lock) }
            }
            "unlock" => Op::Unlock(line.one_of(&self.names.locks, "lock")?),
            "data" => {
                let lock = line.one_of(&self.names.locks, "lock")?;
                let lines = line.count("a number of cache lines", (1, 1 << 20))?;
                line.expect("lines")?;
                Op::Data { lock, lines }
            }
            "touch" => {
                let region = line.one_of(&self.names.regions, "region")?;
                let pages = line.count("a number of pages", (1, 1 << 16))?;
                line.expect("pages")?;
                Op::Touch { region, pages }
            }
            "forget" => Op::Forget(line.one_of(&self.names.regions, "region")?),
            "sleep" => Op::Sleep(line.span()?),
            "yield" => Op::Yield,
            "io" => Op::Io { device: line.one_of(&self.names.devices, "device")?, work: line.span()? },
            "send" => {
                let to = self.channel(line)?;
                let tag = if line.is("tag") { line.count("a tag", (0, 255))? as u8 } else { 0 };
                Op::Send { to, tag }
            }
            "receive" => Op::Receive(self.channel(line)?),
            "append" => Op::Append(line.one_of(&self.names.logs, "log")?),
            "flush" => Op::Flush(line.one_of(&self.names.logs, "log")?),
            "extension" => {
                let word = line.word("on or off")?;
                match word.text {
                    "on" => Op::ExtendBegin,
                    "off" => Op::ExtendEnd,
                    _ => return Err(line.wrong(word, "on or off was expected")),
                }
            }
            "begin" | "done" => self.mark(line, first.text == "begin")?,
            "fork" => {
                self.forks = true;
                Op::Fork(line.one_of(&self.names.programs, "program")?)
            }
            "join" => Op::Join,
            "exit" => Op::Exit,
            _ => {
                let known = "compute, system, lock, unlock, data, touch, forget, sleep, yield, io, send, receive, append, \
                             flush, extension, begin, done, fork, join, exit, label, jump, repeat, forever";
                return Err(line.wrong(first, "there is no such operation").hint(format!("there are {known}")));
            }
        };
        self.ops.push(op);
        Ok(())
    }

    fn block(&mut self, line: &mut SourceLine<'a>, first: Word<'a>) -> Result<(), Problem> {
        let counts = first.text == "repeat";
        if self.blocks.len() >= MOST_DEPTH {
            return Err(line.wrong(first, format!("at most {MOST_DEPTH} blocks stand inside of each other")));
        }
        if counts && self.counting() >= COUNTERS {
            return Err(line.wrong(first, format!("at most {COUNTERS} of these stand inside of each other")));
        }
        let times = if counts { Some(line.count("how often", (1, u32::MAX))?) } else { None };
        line.expect("{")?;
        self.opened += 1;
        self.blocks.push(Block { begin: self.ops.len() as u32, times, number: self.opened });
        Ok(())
    }

    fn label(&mut self, line: &mut SourceLine<'a>) -> Result<(), Problem> {
        let name = line.name("label")?;
        match self.labels.insert(name.text, (self.ops.len() as u32, self.within())) {
            None => Ok(()),
            Some(_) => Err(line.wrong(name, "the label stands in this program already")),
        }
    }

    /// `jump NAME`, and when.
    fn jump(&mut self, line: &mut SourceLine<'a>) -> Result<(), Problem> {
        let label = line.word("the name of a label")?;
        let to = 0;
        let op = if line.is("with chance") {
            let word = line.word("a chance such as 12.5%")?;
            let of = chance(word.text).ok_or_else(|| line.wrong(word, "a chance is between 0% and 100%"))?;
            Op::Chance { of, to }
        } else if line.is("if tag") {
            Op::IfTag { tag: line.count("a tag", (0, 255))? as u8, to }
        } else if line.is("if used up") {
            Op::UsedUp { region: line.one_of(&self.names.regions, "region")?, to }
        } else if line.is("if found") {
            line.expect("one of")?;
            let of = line.count("how many things there are", (1, u32::MAX))?;
            line.expect("in")?;
            Op::Found { region: line.one_of(&self.names.regions, "region")?, of, to }
        } else {
            Op::Jump(to)
        };
        self.goes.push(Goes { at: self.ops.len(), to: label, within: self.within() });
        self.ops.push(op);
        Ok(())
    }

    fn find_labels(&mut self, line: &SourceLine<'_>) -> Result<(), Problem> {
        for Goes { at, to: word, within } in std::mem::take(&mut self.goes) {
            let Some(&(target, inside)) = self.labels.get(word.text) else {
                return Err(line.wrong(word, "there is no such label in this program"));
            };
            if inside != within {
                let why = "the jump leads into a repeated block or out of it, whose count would be wrong";
                return Err(line.wrong(word, why).hint("jump within the block"));
            }
            self.ops[at] = self.ops[at].with_target(target);
        }
        Ok(())
    }

    /// `system 5us`, `system 5us, preemption off`, `system 5us, a point every 1us`.
    fn system(&mut self, line: &mut SourceLine<'a>) -> Result<Op, Problem> {
        let work = line.span()?;
        let mut preemption = Preemption::On;
        if line.is(",") {
            if line.is("preemption off") {
                preemption = Preemption::Off;
            } else {
                line.expect("a point every")?;
                let ns = line.duration()?;
                let every = u32::try_from(ns).ok().filter(|ns| *ns > 0);
                preemption = Preemption::CondResched(
                    every.ok_or_else(|| line.wrong(line.last(), "between 1ns and 4s is possible"))?,
                );
            }
        }
        Ok(Op::System { work, preemption })
    }

    fn channel(&mut self, line: &mut SourceLine<'a>) -> Result<Channel, Problem> {
        Ok(if line.is("mine") {
            Channel::Mine
        } else if line.is("peer") {
            Channel::Peer
        } else if line.is("sender") {
            Channel::Sender
        } else {
            Channel::Of(line.one_of(&self.names.channels, "channel")?)
        })
    }

    fn mark(&mut self, line: &mut SourceLine<'a>, begins: bool) -> Result<Op, Problem> {
        let word = line.name("mark")?;
        let mark = match self.names.marks.get(word.text) {
            Some(mark) => *mark,
            None => add(&mut self.names.marks, line, word, MOST_MARKS)?,
        };
        let mark = mark as u8;
        Ok(match (begins, line.is("for sender")) {
            (true, false) => Op::Begin(mark),
            (false, false) => Op::Done(mark),
            (true, true) => Op::BeginFor(mark),
            (false, true) => Op::DoneFor(mark),
        })
    }
}

/// A percentage as a share of 2^32.
fn chance(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%')?;
    let is_number = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let percent: f64 = if is_number { number.parse().ok()? } else { return None };
    // 100 % would be one more than there is room for.
    (0.0..=100.0).contains(&percent).then(|| (percent / 100.0 * 4_294_967_296.0).min(4_294_967_295.0) as u32)
}
