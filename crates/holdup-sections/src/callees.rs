//! Functions that run inside sections because they are called from there, and where their return address lies.

use crate::analysis::Analysis;
use crate::arch::{Abi, Flow, Instruction};
use crate::frames::{Frame, Row};
use crate::image::{Image, Symbol};
use crate::program::Program;
use crate::shipped::postgres;
use holdup_model::sections::{CalleeRange, ReturnAddress};
use std::collections::{BTreeMap, BTreeSet};

/// Calls are followed so deep.
const DEEPEST: u32 = 3;

/// More functions than this are not followed.
const MOST_FUNCTIONS: usize = 400;

/// What runs inside sections.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    pub(crate) ranges: Vec<CalleeRange>,
    pub(crate) imports: BTreeSet<String>,
    pub(crate) notes: Vec<String>,
}

/// Functions to look at, and how deep calls from there are followed.
struct Walk<'p, 'a> {
    program: &'p Program<'a>,
    open: Vec<(u64, u32)>,
    /// Functions by the depth that is left below them.
    functions: BTreeMap<u64, u32>,
    stubs: BTreeSet<u64>,
    inside: Inside,
    by_pointer: usize,
}

impl<'p, 'a> Walk<'p, 'a> {
    fn new(program: &'p Program<'a>) -> Self {
        Walk {
            program,
            open: Vec::new(),
            functions: BTreeMap::new(),
            stubs: BTreeSet::new(),
            inside: Inside::default(),
            by_pointer: 0,
        }
    }

    fn call(&mut self, instruction: &Instruction, depth: u32) {
        if let Flow::Helper(to) = instruction.flow {
            self.stubs.insert(to);
        } else if let Some(name) = self.program.import(instruction) {
            self.inside.imports.insert(name.to_owned());
            self.stubs.extend(instruction.target());
        } else if let Some(callee) = self.program.callee(instruction) {
            self.open.push((callee, depth));
        } else {
            self.by_pointer += 1;
        }
    }

    fn run(&mut self) {
        while let Some((function, depth)) = self.open.pop() {
            let seen = self.functions.get(&function).copied();
            if seen.is_some_and(|before| before >= depth) {
                continue;
            }
            if seen.is_none() && self.functions.len() >= MOST_FUNCTIONS {
                let more = format!("more than {MOST_FUNCTIONS} functions run inside sections: the others are left out");
                if self.inside.notes.last() != Some(&more) {
                    self.inside.notes.push(more);
                }
                continue;
            }
            self.functions.insert(function, depth);
            if depth > 0 && !postgres::NOT_FOLLOWED.contains(&self.program.name(function).as_str()) {
                for call in calls_of(self.program, function) {
                    self.call(&call, depth - 1);
                }
            }
        }
        if self.by_pointer > 0 {
            let say = format!("{} calls inside sections go through pointers, which are not followed", self.by_pointer);
            self.inside.notes.push(say);
        }
    }
}

/// The calls, and jumps to other functions, in a function's own piece: what was moved away as unlikely is not followed.
fn calls_of(program: &Program<'_>, function: u64) -> Vec<Instruction> {
    let image = &program.image;
    let leaves = |instruction: &Instruction| match instruction.flow {
        Flow::Jump(to) => image.fragment(to) != image.fragment(function) && !program.is_part(to),
        Flow::JumpSlot(_) => true,
        Flow::Helper(_) => true,
        _ => instruction.is_call() && !program.never_returns(instruction),
    };
    image.instructions(function).into_iter().flatten().filter(leaves).collect()
}

/// Follows the calls at the given addresses.
pub(crate) fn gather(analysis: &mut Analysis<'_>, calls: &BTreeSet<u64>) -> Inside {
    let mut walk = Walk::new(&analysis.program);
    for at in calls {
        if let Some(instruction) = analysis.program.image.instruction(*at) {
            walk.call(&instruction, DEEPEST);
        }
    }
    walk.run();
    let (functions, stubs, mut inside) = (walk.functions, walk.stubs, walk.inside);
    for function in functions.into_keys() {
        let ranges = ranges(analysis, function);
        match analysis.known.partial.get(&function) {
            None => inside.ranges.extend(ranges),
            // It gives its caller's lock back: behind that it does not run inside the section.
            Some(held) => inside.ranges.extend(ranges.iter().flat_map(|range| clipped(range, held))),
        }
    }
    finish(inside, &stubs, &analysis.program.image)
}

/// The same for functions of a library, by name.
pub(crate) fn of_library(analysis: &mut Analysis<'_>, names: &[&str]) -> Inside {
    let mut walk = Walk::new(&analysis.program);
    let mut missing = Vec::new();
    for name in names {
        match analysis.program.image.symbols.get(*name) {
            None => missing.push(format!("{name}: the library does not define it")),
            Some(symbols) => {
                for symbol in symbols {
                    walk.open.extend(entries(&analysis.program, symbol).into_iter().map(|at| (at, DEEPEST - 1)));
                }
            }
        }
    }
    walk.run();
    let (functions, stubs, mut inside) = (walk.functions, walk.stubs, walk.inside);
    inside.notes.extend(missing);
    for function in functions.into_keys() {
        inside.ranges.extend(ranges(analysis, function));
    }
    finish(inside, &stubs, &analysis.program.image)
}

/// The code that a symbol stands for: of one that is chosen when the program starts, every function whose address the
/// chooser takes.
fn entries(program: &Program<'_>, symbol: &Symbol) -> Vec<u64> {
    if !symbol.indirect {
        return vec![symbol.address];
    }
    let image = &program.image;
    let taken =
        image.instructions(symbol.address).map_or(Vec::new(), |instructions| image.arch.addresses(instructions));
    let begins = |at: &u64| image.fragment_at(*at).is_some_and(|f| f.begin == *at);
    let found: BTreeSet<u64> = taken.into_iter().filter(begins).collect();
    found.into_iter().collect()
}

/// Where the return address of a function lies, at each of its instructions.
fn ranges(analysis: &mut Analysis<'_>, function: u64) -> Vec<CalleeRange> {
    let image = &analysis.program.image;
    let Some(fragment) = image.fragment_at(function) else { return Vec::new() };
    let (begin, end, abi) = (fragment.begin, fragment.end, image.arch.abi());
    let rows = image.frames.rows(begin);
    let by_base = rows.iter().any(|row| matches!(row.frame, Frame::Base(_)));
    // Where a frame pointer is kept, following the stack pointer gives the same from that one, which every caller up the
    // stack has too.
    let depths = if by_base { analysis.stack_depths(begin) } else { BTreeMap::new() };
    let mut ranges = Vec::new();
    for row in rows {
        let (from, to) = (row.begin.max(begin), row.end.min(end));
        // Unwind information of a damaged file has rows that end before their function begins.
        if from >= to {
            continue;
        }
        match row.frame {
            Frame::Stack(bytes) => ranges.extend(range(&row, abi, bytes, false, from, to)),
            Frame::Other => {}
            Frame::Base(bytes) => {
                let known: Vec<(u64, i64)> = depths.range(from..to).map(|(at, depth)| (*at, *depth)).collect();
                if known.is_empty() {
                    ranges.extend(range(&row, abi, bytes, true, from, to));
                }
                for (i, (at, depth)) in known.iter().enumerate() {
                    let next = known.get(i + 1).map_or(to, |next| next.0);
                    ranges.extend(range(&row, abi, depth.saturating_add(abi.call_bytes), false, *at, next));
                }
            }
        }
    }
    ranges
}

/// Instructions of a row; `bytes`: from the stack pointer or frame pointer to the canonical frame address.
fn range(row: &Row, abi: &Abi, bytes: i64, by_frame_pointer: bool, begin: u64, end: u64) -> Option<CalleeRange> {
    let small = |bytes: i64| i32::try_from(bytes).ok().filter(|bytes| *bytes >= 0);
    let plain = CalleeRange { begin, end, by_frame_pointer, saved: row.saved, ..stub(begin, 0, abi) };
    if abi.call_bytes > 0 {
        let return_address_bytes = small(bytes.checked_sub(abi.call_bytes)?)?;
        return Some(CalleeRange { return_address_bytes, ..plain });
    }
    let frame_bytes = small(bytes)?;
    Some(match row.return_address {
        Some(from_frame) => {
            let return_address_bytes = small(bytes.checked_add(from_frame)?)?;
            CalleeRange { return_address_bytes, frame_bytes, return_address: ReturnAddress::Stack, ..plain }
        }
        None => CalleeRange { frame_bytes, ..plain },
    })
}

/// Code that has the return address as at its entry, as stubs have that jump on.
fn stub(at: u64, bytes: u64, abi: &Abi) -> CalleeRange {
    let end = at.saturating_add(bytes);
    let return_address = if abi.call_bytes == 0 { ReturnAddress::Register } else { ReturnAddress::Stack };
    CalleeRange {
        begin: at,
        end,
        return_address_bytes: 0,
        by_frame_pointer: false,
        saved: [0; 6],
        return_address,
        frame_bytes: 0,
    }
}

/// What of a range lies in pieces that are sorted.
fn clipped(range: &CalleeRange, pieces: &BTreeSet<(u64, u64)>) -> Vec<CalleeRange> {
    let inside = pieces.iter().map(|(begin, end)| (range.begin.max(*begin), range.end.min(*end)));
    inside.filter(|(begin, end)| begin < end).map(|(begin, end)| CalleeRange { begin, end, ..*range }).collect()
}

/// Adds stubs and helpers, sorts, and joins neighbours that say the same.
fn finish(mut inside: Inside, stubs: &BTreeSet<u64>, image: &Image<'_>) -> Inside {
    let abi = image.arch.abi();
    for at in stubs {
        match image.helpers.get(at) {
            Some(helper) => {
                inside.ranges.extend(helper.before.iter().map(|(begin, end)| stub(*begin, end - begin, abi)));
                let done = |range| CalleeRange { return_address: ReturnAddress::Done, ..range };
                inside.ranges.extend(helper.after.iter().map(|(begin, end)| done(stub(*begin, end - begin, abi))));
            }
            None => inside.ranges.push(stub(*at, abi.stub_bytes, abi)),
        }
    }
    inside.ranges.sort_unstable();
    let mut joined: Vec<CalleeRange> = Vec::with_capacity(inside.ranges.len());
    for range in inside.ranges {
        match joined.last_mut() {
            Some(last) if last.end > range.begin => {}
            Some(last)
                if last.end == range.begin && CalleeRange { begin: last.begin, end: last.end, ..range } == *last =>
            {
                last.end = range.end;
            }
            _ => joined.push(range),
        }
    }
    inside.ranges = joined;
    inside
}
