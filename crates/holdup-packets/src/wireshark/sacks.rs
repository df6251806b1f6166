//! Selective acknowledgements (RFC 2018, RFC 2883).

use super::judge::Findings;
use super::state::Side;
use crate::kinds::Kind;
use crate::segment::{ACK, Segment};
use crate::sequence::{is_before, is_from, is_up_to};

const MOST: usize = 4;

/// The relative blocks of an end's last SACK.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Blocks {
    edges: [(u32, u32); MOST],
    count: u8,
}

const NONE: Blocks = Blocks { edges: [(0, 0); MOST], count: 0 };

impl Blocks {
    #[inline]
    pub(super) fn as_slice(&self) -> &[(u32, u32)] {
        &self.edges[..usize::from(self.count)]
    }

    #[inline(never)]
    pub(super) fn bytes(&self) -> u32 {
        self.as_slice().iter().fold(0, |sum, (first, end)| sum.wrapping_add(end.wrapping_sub(*first)))
    }

    fn of(segment: &Segment, base: u32) -> Blocks {
        let count = usize::from(segment.options.sack_count).min(MOST);
        let mut blocks = Blocks { count: count as u8, ..Blocks::default() };
        for (to, (first, end)) in blocks.edges.iter_mut().zip(&segment.options.sacks[..count]) {
            *to = (first.wrapping_sub(base), end.wrapping_sub(base));
        }
        blocks
    }

    /// True if the first block is a D-SACK: acknowledged, or inside the second (RFC 2883, 4).
    fn begins_with_duplicate(&self, ack: u32) -> bool {
        match *self.as_slice() {
            [] => false,
            [(_, end)] => is_up_to(end, ack),
            [(_, end), (first2, end2), ..] => is_up_to(end, ack) || (is_before(first2, end) && is_from(end2, end)),
        }
    }
}

/// The blocks of all directions that ever had any.
#[derive(Debug, Default)]
pub(super) struct Sacks(Vec<Blocks>);

impl Sacks {
    #[inline(always)]
    pub(super) fn bytes_of(&self, side: &Side) -> u32 {
        match side.sacks {
            0 => 0,
            place => match &self.0[place as usize - 1] {
                Blocks { count: 0, .. } => 0,
                blocks => blocks.bytes(),
            },
        }
    }

    #[inline(always)]
    pub(super) fn of(&self, side: &Side) -> &Blocks {
        match side.sacks {
            0 => &NONE,
            place => &self.0[place as usize - 1],
        }
    }

    /// Reads the blocks of a segment, which make a window update a duplicate ACK.
    pub(super) fn read(&mut self, segment: &Segment, sender: &mut Side, receiver: &Side, findings: &mut Findings) {
        let blocks = Blocks::of(segment, receiver.base);
        if findings.kinds.has(Kind::WindowUpdate) {
            findings.kinds.remove(Kind::WindowUpdate);
            sender.repeats = sender.repeats.wrapping_add(1);
            findings.add(Kind::DuplicateAck);
            findings.duplicate_ack = (sender.ack_frame, sender.repeats);
        }
        self.store(blocks, sender);
        let is_relative = segment.has(ACK) && !segment.in_error;
        let ack = if is_relative { segment.ack.wrapping_sub(receiver.base) } else { segment.ack };
        findings.is_duplicate_sack = !segment.options.sacks_are_cut && blocks.begins_with_duplicate(ack);
    }

    /// Clears the blocks of an end, which are valid until its next segment.
    #[inline(always)]
    pub(super) fn forget(&mut self, side: &Side) {
        if side.sacks > 0 {
            self.0[side.sacks as usize - 1].count = 0;
        }
    }

    fn store(&mut self, blocks: Blocks, side: &mut Side) {
        if side.sacks == 0 {
            self.0.push(blocks);
            side.sacks = self.0.len() as u32;
        } else {
            self.0[side.sacks as usize - 1] = blocks;
        }
    }
}
