//! Reassembly of IP fragments, as in tshark.
//!
//! Only the first bytes of a datagram are stored, enough for its headers; of the rest only the presence is recorded.

use super::Limits;
use super::view::View;
use crate::segment::Address;
use std::collections::{BTreeMap, VecDeque};

/// Enough for the headers of a dozen tunnels and TCP.
const STORED_BYTES: u32 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) from: Address,
    pub(super) to: Address,
    /// The identification; for IPv4 combined with protocol and VLAN.
    pub(super) id: u32,
}

/// A completely captured fragment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment<'a> {
    pub(super) key: Key,
    /// The protocol of the datagram.
    pub(super) next: u8,
    pub(super) offset_bytes: u32,
    pub(super) length: u32,
    pub(super) has_more: bool,
    pub(super) inside: View<'a>,
}

/// A complete datagram.
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

#[derive(Debug)]
struct Part {
    offset: u32,
    length: u32,
    bytes: Box<[u8]>,
}

#[derive(Debug, Default)]
struct Datagram {
    /// The frame of the first fragment.
    began: u32,
    /// By offset, in order of arrival if equal.
    pieces: Vec<Part>,
    /// From the first last fragment.
    length: Option<u32>,
}

/// The incomplete datagrams.
#[derive(Debug)]
pub(super) struct Fragments {
    limits: Limits,
    waiting: BTreeMap<Key, Datagram>,
    /// In order of their first fragment, with some that are complete since.
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

    /// Adds a fragment; returns the datagram that it completes.
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
        let kept = STORED_BYTES.saturating_sub(offset).min(length) as usize;
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

    /// Drops what is too old, and the oldest if there are too many.
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
    /// The datagram, if it has no gaps. Where fragments overlap, the earlier offset wins.
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
        let mut bytes = Vec::with_capacity(length.min(STORED_BYTES) as usize);
        for piece in &self.pieces {
            let over = bytes.len() - (piece.offset as usize).min(bytes.len());
            if piece.offset as usize <= bytes.len()
                && let Some(rest) = piece.bytes.get(over..)
            {
                bytes.extend_from_slice(rest);
            }
        }
        bytes.truncate(length.min(STORED_BYTES) as usize);
        Some(Whole { bytes, length })
    }
}
