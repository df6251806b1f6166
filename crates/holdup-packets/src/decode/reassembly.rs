//! Datagrams from fragments of IP, as tshark puts them together.
//!
//! Only the first bytes of a datagram are kept, enough for the headers in it; of the others it is known that they were there.

use super::Limits;
use super::view::View;
use crate::segment::Address;
use std::collections::{BTreeMap, VecDeque};

/// How much of a datagram is kept: room for the headers of a dozen tunnels and TCP.
const KEPT_BYTES: u32 = 1024;

/// What fragments of one datagram share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) from: Address,
    pub(super) to: Address,
    /// The identification, of IPv4 with more in it.
    pub(super) id: u32,
}

/// A part of a datagram, captured whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment<'a> {
    pub(super) key: Key,
    /// What the header says of what the datagram holds.
    pub(super) next: u8,
    pub(super) offset_bytes: u32,
    pub(super) length: u32,
    pub(super) has_more: bool,
    pub(super) inside: View<'a>,
}

/// A datagram that is whole.
#[derive(Debug)]
pub(super) struct Whole {
    bytes: Vec<u8>,
    length: u32,
}

impl Whole {
    pub(super) fn view(&self) -> View<'_> {
        View::whole(&self.bytes, self.length)
    }
}

/// Where a fragment belongs, and its bytes as far as they are kept.
#[derive(Debug)]
struct Part {
    offset: u32,
    length: u32,
    bytes: Box<[u8]>,
}

#[derive(Debug, Default)]
struct Datagram {
    /// The frame of the first one that came.
    began: u32,
    /// By their place, in the order in which they came where that is the same.
    pieces: Vec<Part>,
    /// What the last fragment says of the length, the first one of these that came.
    length: Option<u32>,
}

/// The datagrams that are not whole.
#[derive(Debug)]
pub(super) struct Fragments {
    limits: Limits,
    waiting: BTreeMap<Key, Datagram>,
    /// Those in the order in which they began, and some that are whole since.
    order: VecDeque<(u32, Key)>,
    given_up: u64,
}

impl Fragments {
    pub(super) fn new(limits: Limits) -> Self {
        Fragments { limits, waiting: BTreeMap::new(), order: VecDeque::new(), given_up: 0 }
    }

    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Adds a fragment that came in a frame; its datagram, when that is whole by it.
    pub(super) fn add(&mut self, fragment: &Fragment<'_>, frame: u32) -> Option<Whole> {
        self.make_room(frame);
        let datagram = self.waiting.entry(fragment.key).or_insert_with(|| {
            self.order.push_back((frame, fragment.key));
            Datagram { began: frame, ..Datagram::default() }
        });
        let (offset, length) = (fragment.offset_bytes, fragment.length);
        if !fragment.has_more {
            datagram.length.get_or_insert(offset + length);
        }
        let kept = KEPT_BYTES.saturating_sub(offset).min(length) as usize;
        let bytes = fragment.inside.bytes();
        let piece = Part { offset, length, bytes: bytes[..kept.min(bytes.len())].into() };
        let place = datagram.pieces.partition_point(|before| before.offset <= offset);
        datagram.pieces.insert(place, piece);
        if datagram.pieces.len() > self.limits.fragments {
            self.give_up(fragment.key);
            return None;
        }
        let whole = datagram.whole()?;
        self.waiting.remove(&fragment.key);
        Some(whole)
    }

    /// Gives up what is too old, and the oldest where there are too many.
    fn make_room(&mut self, frame: u32) {
        while let Some((began, key)) = self.order.front().copied() {
            let is_old = frame.saturating_sub(began) > self.limits.age_frames;
            if self.is_waiting(began, &key) {
                if !is_old && self.waiting.len() < self.limits.datagrams {
                    break;
                }
                self.give_up(key);
            }
            self.order.pop_front();
        }
        if self.order.len() > 2 * self.limits.datagrams {
            let mut order = std::mem::take(&mut self.order);
            order.retain(|(began, key)| self.is_waiting(*began, key));
            self.order = order;
        }
    }

    fn is_waiting(&self, began: u32, key: &Key) -> bool {
        self.waiting.get(key).is_some_and(|datagram| datagram.began == began)
    }

    fn give_up(&mut self, key: Key) {
        self.given_up += self.waiting.remove(&key).map_or(0, |datagram| datagram.pieces.len() as u64);
    }
}

impl Datagram {
    /// The datagram without gaps. Where fragments overlap, the one that begins first holds.
    fn whole(&self) -> Option<Whole> {
        let length = self.length?;
        let mut end = 0;
        for piece in &self.pieces {
            if piece.offset > end {
                break;
            }
            end = end.max(piece.offset + piece.length);
        }
        if end < length {
            return None;
        }
        let mut bytes = Vec::with_capacity(length.min(KEPT_BYTES) as usize);
        for piece in &self.pieces {
            let over = bytes.len() - (piece.offset as usize).min(bytes.len());
            if piece.offset as usize <= bytes.len()
                && let Some(rest) = piece.bytes.get(over..)
            {
                bytes.extend_from_slice(rest);
            }
        }
        bytes.truncate(length.min(KEPT_BYTES) as usize);
        Some(Whole { bytes, length })
    }
}
