//! Analysing one capture on several threads.
//!
//! Each thread owns a part of the connections. It judges the listed frames of its part in the order of the capture; otherwise,
//! one thread at a time, it reads the next block of frames and lists which frames belong to which part. So no thread waits for
//! one that has more to do. Only positions of frames are passed on: a thread decodes its frames in the shared buffer, because
//! passing a segment through memory costs as much as decoding it. The result depends only on the order of each connection's
//! segments, except for the common limits: before one can be reached, the threads stop and leave the rest to the caller. They
//! also stop if frames are long, because then reading dominates and cannot be shared.

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

/// The largest number of blocks in progress.
const WAITING: usize = 8;

/// The length of frames is estimated from these blocks.
const FIRST_BLOCKS: usize = 16;

/// Longer frames, bytes, are no slower on one thread.
const LONG_BYTES: usize = 512;

/// Spins before a thread sleeps.
const SPINS: usize = 50;

/// Analyses a capture until its end, or until a limit could be reached.
///
/// # Errors
/// As [`Chain::block`], and when a thread cannot be started.
pub(super) fn run(
    frames: &mut Chain<'_>,
    decoder: &mut Decoder,
    parts: &mut Parts,
    read: &mut Read,
) -> Result<(), Problem> {
    let count = parts.all.len();
    let used = parts.all.iter().map(|part| part.table.used()).collect();
    let spare_blocks = parts.all.iter().map(|_| Vec::new()).collect();
    let shared = Shared {
        frames: Mutex::new(frames),
        fragments: Mutex::new(decoder),
        progress: Mutex::new(Progress { judged: vec![0; count], used, spare_blocks, ..Progress::default() }),
        changed: Condvar::new(),
        limits: parts.limits,
    };
    thread::scope(|scope| {
        let mut threads = parts.all.iter_mut().enumerate();
        let first = threads.next();
        for (index, part) in threads {
            let shared = &shared;
            thread::Builder::new()
                .name("holdup-judge".to_owned())
                .spawn_scoped(scope, move || shared.work(index, part))
                .map_err(|e| {
                    shared.fail();
                    Problem::host("a thread that judges", e.to_string())
                })?;
        }
        if let Some((index, part)) = first {
            shared.work(index, part);
        }
        Ok(())
    })?;
    let progress = shared.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    read.add(&progress.read);
    progress.problem.map_or(Ok(()), Err)
}

struct Shared<'a, 'f> {
    /// For the thread that reads.
    frames: Mutex<&'a mut Chain<'f>>,
    /// Reassembles fragments, which must come in order.
    fragments: Mutex<&'a mut Decoder>,
    progress: Mutex<Progress>,
    changed: Condvar,
    limits: Limits,
}

#[derive(Default)]
struct Progress {
    /// The blocks that are not yet judged in all parts, in order; `None` until its frames are listed.
    blocks: VecDeque<Option<Listed>>,
    /// The number of blocks before them.
    gone: usize,
    judged: Vec<usize>,
    /// The usage of each part then.
    used: Vec<Limits>,
    /// The number of notifications.
    changes: usize,
    /// Sleeping threads.
    waiting: usize,
    size: (usize, usize),
    is_reading: bool,
    is_over: bool,
    /// A thread panicked or could not be started.
    has_failed: bool,
    problem: Option<Problem>,
    read: Read,
    spare: Vec<List>,
    /// By thread, whose CPU has them in its cache.
    spare_blocks: Vec<Vec<Block>>,
}

struct Listed {
    block: Arc<Block>,
    reader: usize,
    lists: Vec<List>,
    /// The time of its first segment that is not in an ICMP error.
    first_ns: Option<i64>,
}

#[derive(Default)]
struct List {
    /// Positions of frames, or [`OTHER`] for the next of `others`.
    places: Vec<u32>,
    /// Reassembled segments, and those with headers that are slow to decode.
    others: Vec<Segment>,
}

const OTHER: u32 = u32::MAX;

enum Next {
    Judge(Arc<Block>, List, Option<i64>),
    Read(Block),
    End,
}

impl Progress {
    fn begun(&self) -> usize {
        self.gone + self.blocks.len()
    }

    /// True if another block may be read: never again once a limit could be reached.
    fn has_room(&mut self, limits: Limits) -> bool {
        self.is_over |= room(limits, self.used.iter().copied()) < (WAITING * MOST_FRAMES) as u32;
        !self.is_over && !self.is_reading && self.blocks.len() < WAITING
    }

    fn judgeable(&mut self, index: usize) -> Option<Next> {
        let place = self.judged[index] - self.gone;
        let Listed { block, lists, first_ns, .. } = self.blocks.get_mut(place)?.as_mut()?;
        Some(Next::Judge(block.clone(), std::mem::take(&mut lists[index]), *first_ns))
    }
}

impl Shared<'_, '_> {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'d>(&'d self, progress: MutexGuard<'d, Progress>) -> MutexGuard<'d, Progress> {
        let changes = progress.changes;
        drop(progress);
        // Waking takes as long as reading a block, so short waits spin.
        for _ in 0..SPINS {
            thread::yield_now();
            let progress = self.progress();
            if progress.changes != changes {
                return progress;
            }
        }
        let mut progress = self.progress();
        while progress.changes == changes {
            progress.waiting += 1;
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
            progress.waiting -= 1;
        }
        progress
    }

    /// Notifies waiting threads after releasing the lock, which they need.
    fn notify(&self, mut progress: MutexGuard<'_, Progress>) {
        progress.changes += 1;
        let waits = progress.waiting > 0;
        drop(progress);
        if waits {
            self.changed.notify_all();
        }
    }

    fn fail(&self) {
        let mut progress = self.progress();
        progress.has_failed = true;
        self.notify(progress);
    }

    fn work(&self, index: usize, part: &mut Part) {
        /// Ends the other threads if this one panics.
        struct Alarm<'a, 'b, 'f>(&'a Shared<'b, 'f>);
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

    fn next(&self, index: usize) -> Next {
        let mut progress = self.progress();
        loop {
            if progress.has_failed {
                return Next::End;
            }
            if let Some(judge) = progress.judgeable(index) {
                return judge;
            }
            if progress.has_room(self.limits) {
                progress.is_reading = true;
                return Next::Read(progress.spare_blocks[index].pop().unwrap_or_default());
            }
            if progress.is_over && !progress.is_reading && progress.judged[index] == progress.begun() {
                return Next::End;
            }
            progress = self.wait(progress);
        }
    }

    /// Returns a judged list.
    fn judged(&self, index: usize, mut list: List, others: &Others, used: Limits) {
        list.places.clear();
        list.others.clear();
        let mut progress = self.progress();
        progress.spare.push(list);
        progress.read.others.add_all(others);
        progress.judged[index] += 1;
        progress.used[index] = used;
        let by_all = progress.judged.iter().min().map_or(0, |judged| judged - progress.gone);
        if by_all > 0 {
            let was_full = progress.blocks.len() == WAITING;
            for _ in 0..by_all {
                let judged = progress.blocks.pop_front().flatten();
                let block = judged.and_then(|Listed { block, reader, .. }| Some((reader, Arc::into_inner(block)?)));
                block.into_iter().for_each(|(reader, block)| progress.spare_blocks[reader].push(block));
            }
            progress.gone += by_all;
            if was_full || progress.is_over {
                self.notify(progress);
            }
        }
    }

    fn read(&self, index: usize, mut block: Block, decoder: &mut Decoder) {
        let more = self.frames.lock().unwrap_or_else(PoisonError::into_inner).block(&mut block);
        let mut progress = self.progress();
        progress.is_reading = false;
        if more != Ok(true) {
            (progress.is_over, progress.problem) = (true, more.err());
            return self.notify(progress);
        }
        let number = progress.begun();
        progress.blocks.push_back(None);
        progress.size = (progress.size.0 + block.len(), progress.size.1 + block.bytes());
        progress.is_over |= number + 1 == FIRST_BLOCKS && progress.size.1 > LONG_BYTES * progress.size.0;
        let parts = progress.judged.len();
        let lists = (0..parts).map(|_| progress.spare.pop().unwrap_or_default()).collect();
        self.notify(progress);
        let mut listed = Listed { block: Arc::new(block), reader: index, lists, first_ns: None };
        let read = self.list(&mut listed, number, decoder);
        let mut progress = self.progress();
        progress.read.add(&read);
        let place = number - progress.gone;
        progress.blocks[place] = Some(listed);
        self.notify(progress);
    }

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

    /// Decodes a frame; a fragment only after all frames of earlier blocks are listed.
    fn decode(&self, frame: &Frame<'_>, number: usize, decoder: &mut Decoder) -> Decoded {
        let decoded = decoder.decode(frame);
        if decoded != Decoded::Other(Why::Fragment) {
            return decoded;
        }
        let mut progress = self.progress();
        while !progress.has_failed && progress.blocks.iter().take(number - progress.gone).any(Option::is_none) {
            progress = self.wait(progress);
        }
        drop(progress);
        self.fragments.lock().unwrap_or_else(PoisonError::into_inner).decode(frame)
    }
}

/// Judges the segments of a list; returns the frames without one.
fn judge(block: &Block, list: &List, decoder: &mut Decoder, part: &mut Part) -> Others {
    let mut none = Others::default();
    let mut others = list.others.iter();
    for place in &list.places {
        if *place == OTHER {
            others.next().into_iter().for_each(|segment| part.judge(segment));
            continue;
        }
        // By reference, as on one thread.
        match decoder.decode(&block.frame(*place as usize)) {
            Decoded::Segment(ref segment) => part.judge(segment),
            Decoded::Other(why) => none.add(why),
        }
    }
    none
}
