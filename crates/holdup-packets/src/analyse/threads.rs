//! A capture that several threads go through together.
//!
//! Each thread has a part of the connections, and does whatever can be done next: it judges what was read of its part, in the
//! order of the capture; else, one at a time, it reads the next block of frames, and lists which of them are of which part. So
//! none waits for another that has more to do. Only the places of frames are handed on: a thread decodes the frames of its
//! part where they were read, because a segment that goes through memory costs as much as its decoding. What is counted
//! depends on the order of a connection's segments alone, but for the limits of all connections together: before
//! one of them can be reached, the threads end and leave the rest of the capture to the caller. They do so too where frames
//! are long, because there nearly all of the work is to read them, one block after the other.

use super::parts::{Part, Parts, room};
use super::{Others, Read};
use crate::capture::{Block, Chain, Frame, MOST_FRAMES};
use crate::decode::{Decoded, Decoder, Why};
use crate::segment::Segment;
use crate::wireshark::{Limits, part};
use holdup_model::Problem;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// How many blocks may be under way.
const WAITING: usize = 8;

/// By so many blocks it is seen how long frames are.
const FIRST_BLOCKS: usize = 16;

/// Frames that are longer, bytes, are gone through by one thread at least as fast.
const LONG_BYTES: usize = 512;

/// How often a thread looks for a change before it sleeps.
const LOOKS: usize = 50;

/// Goes through a capture, until its end or until it might come to a limit.
///
/// # Errors
/// As [`Chain::block`], and when there can be no thread.
pub(super) fn go_through(
    frames: &mut Chain<'_>,
    decoder: &mut Decoder,
    parts: &mut Parts,
    read: &mut Read,
) -> Result<(), Problem> {
    let count = parts.all.len();
    let used = parts.all.iter().map(|part| part.table.used()).collect();
    let spare_blocks = parts.all.iter().map(|_| Vec::new()).collect();
    let office = Office {
        frames: Mutex::new(frames),
        fragments: Mutex::new(decoder),
        desk: Mutex::new(Desk { judged: vec![0; count], used, spare_blocks, ..Desk::default() }),
        changed: Condvar::new(),
        limits: parts.limits,
    };
    thread::scope(|scope| {
        let mut threads = parts.all.iter_mut().enumerate();
        let first = threads.next();
        for (index, part) in threads {
            let office = &office;
            thread::Builder::new()
                .name("holdup-judge".to_owned())
                .spawn_scoped(scope, move || office.work(index, part))
                .map_err(|e| {
                    office.fail();
                    Problem::host("a thread that judges", e.to_string())
                })?;
        }
        if let Some((index, part)) = first {
            office.work(index, part);
        }
        Ok(())
    })?;
    let desk = office.desk.into_inner().unwrap_or_else(PoisonError::into_inner);
    read.add(&desk.read);
    desk.problem.map_or(Ok(()), Err)
}

/// What the threads share.
struct Office<'a, 'f> {
    /// Of the thread that reads.
    frames: Mutex<&'a mut Chain<'f>>,
    /// Who remembers fragments, which must come in their order.
    fragments: Mutex<&'a mut Decoder>,
    desk: Mutex<Desk>,
    changed: Condvar,
    limits: Limits,
}

/// What is under way.
#[derive(Default)]
struct Desk {
    /// The blocks that are not yet judged in all parts, by the order of the capture; `None` before its frames are listed.
    blocks: VecDeque<Option<Listed>>,
    /// How many came before those.
    gone: usize,
    /// How many blocks each part has judged.
    judged: Vec<usize>,
    /// What each part used of the limits then.
    used: Vec<Limits>,
    /// How many changes were told.
    changes: usize,
    /// How many threads sleep until one is.
    waiting: usize,
    /// Frames and bytes of all blocks.
    size: (usize, usize),
    /// Whether a thread reads.
    is_reading: bool,
    /// Whether nothing more is read.
    is_over: bool,
    /// Whether a thread has panicked, or is missing.
    has_failed: bool,
    problem: Option<Problem>,
    read: Read,
    spare: Vec<List>,
    /// Blocks by the thread whose they are: its CPU has them in its cache.
    spare_blocks: Vec<Vec<Block>>,
}

/// A block whose frames are listed by parts.
struct Listed {
    block: Arc<Block>,
    /// The thread that read it.
    reader: usize,
    lists: Vec<List>,
    /// When its first segment was captured that a host sent.
    first_ns: Option<i64>,
}

/// The segments of one part in a block.
#[derive(Default)]
struct List {
    /// Places of frames, or [`OTHER`] for the next of the others.
    places: Vec<u32>,
    /// Segments that are made from more than one frame, or of headers that take long to go through.
    others: Vec<Segment>,
}

/// No place of a frame.
const OTHER: u32 = u32::MAX;

/// What a thread does next.
enum Next {
    Judge(Arc<Block>, List, Option<i64>),
    Read(Block),
    End,
}

impl Desk {
    /// How many blocks were read.
    fn begun(&self) -> usize {
        self.gone + self.blocks.len()
    }

    /// Whether another block may be read; when it might come to a limit, none is any more.
    fn has_room(&mut self, limits: Limits) -> bool {
        self.is_over |= room(limits, self.used.iter().copied()) < (WAITING * MOST_FRAMES) as u32;
        !self.is_over && !self.is_reading && self.blocks.len() < WAITING
    }

    /// What a part has to judge next.
    fn judgeable(&mut self, index: usize) -> Option<Next> {
        let place = self.judged[index] - self.gone;
        let Listed { block, lists, first_ns, .. } = self.blocks.get_mut(place)?.as_mut()?;
        Some(Next::Judge(block.clone(), std::mem::take(&mut lists[index]), *first_ns))
    }
}

impl Office<'_, '_> {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed.
    fn wait<'d>(&'d self, desk: MutexGuard<'d, Desk>) -> MutexGuard<'d, Desk> {
        let changes = desk.changes;
        drop(desk);
        // To be woken takes as long as reading a block, so what comes at once is waited for awake.
        for _ in 0..LOOKS {
            thread::yield_now();
            let desk = self.desk();
            if desk.changes != changes {
                return desk;
            }
        }
        let mut desk = self.desk();
        while desk.changes == changes {
            desk.waiting += 1;
            desk = self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
            desk.waiting -= 1;
        }
        desk
    }

    /// Tells of a change those who wait, after the desk is left: they want it at once.
    fn tell(&self, mut desk: MutexGuard<'_, Desk>) {
        desk.changes += 1;
        let waits = desk.waiting > 0;
        drop(desk);
        if waits {
            self.changed.notify_all();
        }
    }

    /// Has all threads end.
    fn fail(&self) {
        let mut desk = self.desk();
        desk.has_failed = true;
        self.tell(desk);
    }

    /// A thread's life.
    fn work(&self, index: usize, part: &mut Part) {
        /// Nobody waits for a thread that panicked.
        struct Alarm<'a, 'b, 'f>(&'a Office<'b, 'f>);
        impl Drop for Alarm<'_, '_, '_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    self.0.fail();
                }
            }
        }
        let _alarm = Alarm(self);
        let mut decoder = Decoder::of_single_frames();
        loop {
            match self.next(index) {
                Next::Judge(block, list, first_ns) => {
                    first_ns.into_iter().for_each(|at_ns| part.table.begin_at(at_ns));
                    let others = judge(&block, &list, &mut decoder, part);
                    drop(block);
                    self.judged(index, list, &others, part.table.used());
                }
                Next::Read(block) => self.read(index, block, &mut decoder),
                Next::End => return,
            }
        }
    }

    /// What a thread does next, after waiting for it.
    fn next(&self, index: usize) -> Next {
        let mut desk = self.desk();
        loop {
            if desk.has_failed {
                return Next::End;
            }
            if let Some(judge) = desk.judgeable(index) {
                return judge;
            }
            if desk.has_room(self.limits) {
                desk.is_reading = true;
                return Next::Read(desk.spare_blocks[index].pop().unwrap_or_default());
            }
            if desk.is_over && !desk.is_reading && desk.judged[index] == desk.begun() {
                return Next::End;
            }
            desk = self.wait(desk);
        }
    }

    /// Tells that a list was judged, and gives it back.
    fn judged(&self, index: usize, mut list: List, others: &Others, used: Limits) {
        list.places.clear();
        list.others.clear();
        let mut desk = self.desk();
        desk.spare.push(list);
        desk.read.others.add_all(others);
        desk.judged[index] += 1;
        desk.used[index] = used;
        let by_all = desk.judged.iter().min().map_or(0, |judged| judged - desk.gone);
        if by_all > 0 {
            let was_full = desk.blocks.len() == WAITING;
            for _ in 0..by_all {
                let judged = desk.blocks.pop_front().flatten();
                let block = judged.and_then(|Listed { block, reader, .. }| Some((reader, Arc::into_inner(block)?)));
                block.into_iter().for_each(|(reader, block)| desk.spare_blocks[reader].push(block));
            }
            desk.gone += by_all;
            if was_full || desk.is_over {
                self.tell(desk);
            }
        }
    }

    /// Reads the next block, and lists its frames.
    fn read(&self, index: usize, mut block: Block, decoder: &mut Decoder) {
        let more = self.frames.lock().unwrap_or_else(PoisonError::into_inner).block(&mut block);
        let mut desk = self.desk();
        desk.is_reading = false;
        if more != Ok(true) {
            (desk.is_over, desk.problem) = (true, more.err());
            return self.tell(desk);
        }
        let number = desk.begun();
        desk.blocks.push_back(None);
        desk.size = (desk.size.0 + block.len(), desk.size.1 + block.bytes());
        desk.is_over |= number + 1 == FIRST_BLOCKS && desk.size.1 > LONG_BYTES * desk.size.0;
        let parts = desk.judged.len();
        let lists = (0..parts).map(|_| desk.spare.pop().unwrap_or_default()).collect();
        self.tell(desk);
        let mut listed = Listed { block: Arc::new(block), reader: index, lists, first_ns: None };
        let read = self.list(&mut listed, number, decoder);
        let mut desk = self.desk();
        desk.read.add(&read);
        let place = number - desk.gone;
        desk.blocks[place] = Some(listed);
        self.tell(desk);
    }

    /// Lists the frames of a block by parts, and tells what is no segment.
    fn list(&self, listed: &mut Listed, number: usize, decoder: &mut Decoder) -> Read {
        let Listed { block, lists, first_ns, .. } = listed;
        let parts = lists.len();
        let mut read = Read::default();
        for (place, frame) in block.frames().enumerate() {
            read.frame(&frame);
            match Decoder::ends(&frame) {
                Some(ends) if first_ns.is_some() => lists[part(ends, parts)].places.push(place as u32),
                _ => match self.decode(&frame, number, decoder) {
                    Decoded::Segment(ref segment) => {
                        let list = &mut lists[part([segment.from, segment.to], parts)];
                        list.places.push(OTHER);
                        list.others.push(*segment);
                        if !segment.in_error {
                            first_ns.get_or_insert(segment.at_ns);
                        }
                    }
                    Decoded::Other(why) => read.others.add(why),
                },
            }
        }
        read
    }

    /// Decodes a frame; a fragment when the frames of all blocks before its own are listed.
    fn decode(&self, frame: &Frame<'_>, number: usize, decoder: &mut Decoder) -> Decoded {
        let decoded = decoder.decode(frame);
        if decoded != Decoded::Other(Why::Fragment) {
            return decoded;
        }
        let mut desk = self.desk();
        while !desk.has_failed && desk.blocks.iter().take(number - desk.gone).any(Option::is_none) {
            desk = self.wait(desk);
        }
        drop(desk);
        self.fragments.lock().unwrap_or_else(PoisonError::into_inner).decode(frame)
    }
}

/// Judges the segments of a list, and tells what in it was none.
fn judge(block: &Block, list: &List, decoder: &mut Decoder, part: &mut Part) -> Others {
    let mut none = Others::default();
    let mut others = list.others.iter();
    for place in &list.places {
        if *place == OTHER {
            others.next().into_iter().for_each(|segment| part.judge(segment));
            continue;
        }
        // By reference, as without threads.
        match decoder.decode(&block.frame(*place as usize)) {
            Decoded::Segment(ref segment) => part.judge(segment),
            Decoded::Other(why) => none.add(why),
        }
    }
    none
}
