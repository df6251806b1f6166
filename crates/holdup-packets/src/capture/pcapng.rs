//! pcapng (draft-ietf-opsawg-pcapng): sections, interfaces, frames. Other blocks are skipped.

use super::stream::Stream;
use super::{Found, Link, MOST_BLOCK_BYTES, MOST_FRAME_BYTES, damaged, number};
use holdup_model::Problem;

/// The block type of a section header, the same in both byte orders.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;

/// The limit of interfaces in a section, 32 bytes each.
const MOST_INTERFACES: usize = 1 << 16;

/// The time unit of an interface.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Nanoseconds(u64),
    PerNanosecond(u64),
    /// 2 to this power per second.
    Binary(u8),
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: Link,
    snap_bytes: u32,
    unit: Unit,
    offset_s: i64,
}

impl Interface {
    #[inline(always)]
    fn at_ns(&self, units: u64) -> i64 {
        let ns = match self.unit {
            Unit::Nanoseconds(each) => i64::try_from(units.saturating_mul(each)).unwrap_or(i64::MAX),
            Unit::PerNanosecond(units_per_ns) => i64::try_from(units / units_per_ns).unwrap_or(i64::MAX),
            Unit::Binary(power) => {
                let ns = (u128::from(units) * 1_000_000_000).checked_shr(power.into()).unwrap_or(0);
                i64::try_from(ns).unwrap_or(i64::MAX)
            }
        };
        let at_ns = ns.saturating_add(self.offset_s.saturating_mul(1_000_000_000));
        // 1823 to 2116, so that differences do not overflow.
        at_ns.clamp(-(i64::MAX / 2), i64::MAX / 2)
    }
}

/// The current section and its interfaces.
#[derive(Default)]
pub(super) struct Sections {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    /// The number of the first one over all sections.
    first_interface: u32,
}

#[derive(Clone, Copy)]
struct Block {
    kind: u32,
    length: u32,
}

#[derive(Clone, Copy)]
enum Damage {
    Length,
    /// It ends with another length.
    End(u32),
    Short,
    /// An undefined interface.
    Interface(u32),
    /// A frame longer than the room in its block.
    Room(u32, u32),
}

impl Block {
    #[cold]
    fn damaged(self, damage: Damage, interfaces: usize, offset: u64) -> Problem {
        let length = self.length;
        let why = match damage {
            Damage::Length => format!("a block of {length} bytes, which is impossible"),
            Damage::End(end) => format!("a block of {length} bytes that ends with the length {end}"),
            Damage::Short => "a frame whose block is too short".to_owned(),
            Damage::Interface(index) => format!("a frame of interface {index}, and the section has {interfaces}"),
            Damage::Room(length, room) => format!("a frame of {length} bytes in a block that has room for {room}"),
        };
        damaged(offset, why)
    }
}

impl Sections {
    pub(super) fn count_from(&mut self, interfaces: u32) {
        self.first_interface = interfaces;
    }

    pub(super) fn interfaces(&self) -> u32 {
        self.first_interface + self.interfaces.len() as u32
    }

    #[inline(always)]
    fn block(&self, stream: &Stream) -> Option<Block> {
        let [a, b, c, d, e, f, g, h] = stream.head()?;
        let (kind, length) = (number([a, b, c, d], self.is_big_endian), number([e, f, g, h], self.is_big_endian));
        Some(Block { kind, length })
    }

    /// The next frame, if its block is complete in the buffer and valid, and the length of the block.
    #[inline(always)]
    pub(super) fn frame(&self, stream: &Stream) -> Option<(Found, usize)> {
        let block = self.block(stream)?;
        if !matches!(block.kind, ENHANCED_PACKET | SIMPLE_PACKET | OLD_PACKET) {
            return None;
        }
        let bytes = stream.next(block.length as usize)?;
        let found = self.packet(block, bytes, stream.position()).ok()?;
        Some((found, block.length as usize))
    }

    /// Skips blocks until one with a frame, and makes that complete in the buffer; `false` after the last.
    pub(super) fn ready(&mut self, stream: &mut Stream) -> Result<bool, Problem> {
        loop {
            if !stream.has(12)? {
                return Ok(false);
            }
            if let Some([a, b, c, d, _, _, _, _, e, f, g, h]) = stream.head()
                && [a, b, c, d] == SECTION
            {
                self.begin([e, f, g, h], stream.offset())?;
            }
            let Some(block) = self.block(stream) else { return Ok(false) };
            let (offset, length) = (stream.offset(), block.length);
            let interfaces = self.interfaces.len();
            let problem = |damage| block.damaged(damage, interfaces, offset);
            if length < 12 || !length.is_multiple_of(4) {
                return Err(problem(Damage::Length));
            }
            if !matches!(block.kind, ENHANCED_PACKET | SIMPLE_PACKET | OLD_PACKET | INTERFACE) {
                if !stream.skip(u64::from(length) - 4)? || !stream.has(4)? {
                    return Ok(false);
                }
                self.check_end(block, stream.head()).map_err(problem)?;
                stream.take(4);
                continue;
            }
            if length > MOST_BLOCK_BYTES {
                let why = format!("a block of {length} bytes, more than the limit of {MOST_BLOCK_BYTES}");
                return Err(damaged(offset, why));
            }
            if !stream.has(length as usize)? {
                return Ok(false);
            }
            let Some(bytes) = stream.next(length as usize) else { return Ok(false) };
            self.check_end(block, bytes.last_chunk().copied()).map_err(problem)?;
            if block.kind != INTERFACE {
                return self.packet(block, bytes, 0).map(|_| true).map_err(problem);
            }
            self.describe(offset, bytes)?;
            stream.take(length as usize);
        }
    }

    /// Begins a section with its byte-order magic.
    #[cold]
    fn begin(&mut self, order: [u8; 4], offset: u64) -> Result<(), Problem> {
        self.is_big_endian = match order {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => return Err(damaged(offset, "a section without a byte-order magic")),
        };
        self.first_interface += self.interfaces.len() as u32;
        self.interfaces.clear();
        Ok(())
    }

    /// The length is repeated at the end of a block.
    #[inline(always)]
    fn check_end(&self, block: Block, end: Option<[u8; 4]>) -> Result<(), Damage> {
        let end = end.map_or(0, |end| number(end, self.is_big_endian));
        if end == block.length { Ok(()) } else { Err(Damage::End(end)) }
    }

    fn describe(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Problem> {
        if bytes.len() < 20 {
            return Err(damaged(offset, "an interface description that is too short"));
        }
        if self.interfaces.len() >= MOST_INTERFACES {
            return Err(damaged(offset, format!("more than {MOST_INTERFACES} interfaces in a section")));
        }
        let link = Link::from_number(self.short(bytes, 8).into());
        let mut interface =
            Interface { link, snap_bytes: self.word(bytes, 12), unit: Unit::Nanoseconds(1000), offset_s: 0 };
        let mut options = &bytes[16..bytes.len() - 4];
        while options.len() >= 4 {
            let (code, length) = (self.short(options, 0), usize::from(self.short(options, 2)));
            let Some(value) = options.get(4..4 + length) else {
                return Err(damaged(offset, "an interface with an option that exceeds its block"));
            };
            match (code, value) {
                (OPTION_END, _) => break,
                (OPTION_RESOLUTION, [resolution, ..]) => interface.unit = unit(*resolution, offset)?,
                (OPTION_OFFSET, [_, _, _, _, _, _, _, _, ..]) => {
                    let (first, second) = (self.word(value, 0), self.word(value, 4));
                    let (high, low) = if self.is_big_endian { (first, second) } else { (second, first) };
                    interface.offset_s = (u64::from(high) << 32 | u64::from(low)).cast_signed();
                }
                _ => {}
            }
            options = options.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(interface);
        Ok(())
    }

    #[inline(always)]
    fn packet(&self, block: Block, bytes: &[u8], position: usize) -> Result<Found, Damage> {
        let (index, head_bytes) = match block.kind {
            ENHANCED_PACKET if bytes.len() >= 32 => (self.word(bytes, 8), 28),
            OLD_PACKET if bytes.len() >= 32 => (self.short(bytes, 8).into(), 28),
            SIMPLE_PACKET if bytes.len() >= 16 => (0, 12),
            _ => return Err(Damage::Short),
        };
        if !block.length.is_multiple_of(4) {
            return Err(Damage::Length);
        }
        self.check_end(block, bytes.last_chunk().copied())?;
        let Some(interface) = self.interfaces.get(index as usize) else { return Err(Damage::Interface(index)) };
        let room = (bytes.len() - head_bytes - 4) as u32;
        let (at_ns, length, wire_bytes) = if block.kind == SIMPLE_PACKET {
            let wire_bytes = self.word(bytes, 8);
            let most = if interface.snap_bytes == 0 { u32::MAX } else { interface.snap_bytes };
            (0, wire_bytes.min(most), wire_bytes)
        } else {
            let units = u64::from(self.word(bytes, 12)) << 32 | u64::from(self.word(bytes, 16));
            (interface.at_ns(units), self.word(bytes, 20), self.word(bytes, 24))
        };
        if length > room || length > interface.snap_bytes.max(MOST_FRAME_BYTES) {
            return Err(Damage::Room(length, room));
        }
        let start = position + head_bytes;
        let interface_number = self.first_interface + index;
        Ok(Found { start, length, wire_bytes, at_ns, link: interface.link, interface: interface_number })
    }

    /// 0 beyond the end.
    #[inline(always)]
    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| number(*word, self.is_big_endian))
    }

    /// 0 beyond the end.
    fn short(&self, bytes: &[u8], at: usize) -> u16 {
        let pair = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        if self.is_big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    }
}

/// The unit in `if_tsresol`: a power of ten, or of two with the highest bit.
fn unit(resolution: u8, offset: u64) -> Result<Unit, Problem> {
    match resolution {
        power if power & 0x80 != 0 => Ok(Unit::Binary(power & 0x7f)),
        power @ 0..=9 => Ok(Unit::Nanoseconds(10_u64.pow((9 - power).into()))),
        power @ 10..=28 => Ok(Unit::PerNanosecond(10_u64.pow((power - 9).into()))),
        power => Err(damaged(offset, format!("an interface whose times are in units of 10^-{power} s"))),
    }
}
