//! Points that a binary declares itself: the section `.note.holdup`.
//!
//! Entries are `Elf64_Nhdr` (elf(5)) with the name `holdup`, type 1, and a little-endian description: the address of the
//! point (u64; 0 where the linker dropped its code), its kind (u16), 0 (u16), the number of the lock (u32), and the
//! section's name, ended by a zero byte.

use std::collections::BTreeSet;

/// What is true from a point on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The lock is held.
    Acquired,
    /// It is not.
    Released,
    /// The task waits for it.
    Waiting,
    /// It does not.
    NotWaiting,
}

/// One declared point.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    pub(crate) address: u64,
    pub(crate) kind: Kind,
    pub(crate) lock: u32,
    pub(crate) section: String,
}

/// No binary declares more.
const MOST_POINTS: usize = 100_000;

/// The points of the section, and what was wrong with it.
pub(crate) fn points(mut bytes: &[u8]) -> (Vec<Point>, Vec<String>) {
    let (mut points, mut wrong) = (BTreeSet::new(), Vec::new());
    while !bytes.is_empty() && points.len() < MOST_POINTS {
        let Some((name, kind, description, rest)) = entry(bytes) else {
            wrong.push(format!("the note .note.holdup is cut off: {} bytes are left", bytes.len()));
            break;
        };
        bytes = rest;
        if name != b"holdup\0" || kind != 1 {
            continue;
        }
        match point(description) {
            Some(Point { address: 0, .. }) => {}
            Some(point) => {
                points.insert(point);
            }
            None => wrong.push("an entry of the note .note.holdup is not as declared: ignored".to_owned()),
        }
        wrong.dedup();
    }
    (points.into_iter().collect(), wrong)
}

/// Name, type and description of an entry, and the bytes behind it.
type Entry<'a> = (&'a [u8], u32, &'a [u8], &'a [u8]);
fn entry(bytes: &[u8]) -> Option<Entry<'_>> {
    let number = |at: usize| bytes.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four));
    let (name, description, kind) = (number(0)? as usize, number(4)? as usize, number(8)?);
    let body = bytes.get(12..)?;
    let behind = name.checked_next_multiple_of(4)?;
    let rest = behind.checked_add(description.checked_next_multiple_of(4)?)?;
    let description = body.get(behind..behind.checked_add(description)?)?;
    Some((body.get(..name)?, kind, description, body.get(rest..).unwrap_or_default()))
}

fn point(description: &[u8]) -> Option<Point> {
    let (address, rest) = description.split_first_chunk::<8>()?;
    let (kind, rest) = rest.split_first_chunk::<2>()?;
    let (reserved, rest) = rest.split_first_chunk::<2>()?;
    let (lock, name) = rest.split_first_chunk::<4>()?;
    let kind = match u16::from_le_bytes(*kind) {
        1 => Kind::Acquired,
        2 => Kind::Released,
        3 => Kind::Waiting,
        4 => Kind::NotWaiting,
        _ => return None,
    };
    let name = name.split(|byte| *byte == 0).next()?;
    let fits = *reserved == [0, 0] && !name.is_empty() && name.len() <= 100;
    let section = std::str::from_utf8(name).ok().filter(|name| fits && !name.contains(char::is_control))?;
    Some(Point {
        address: u64::from_le_bytes(*address),
        kind,
        lock: u32::from_le_bytes(*lock),
        section: section.to_owned(),
    })
}
