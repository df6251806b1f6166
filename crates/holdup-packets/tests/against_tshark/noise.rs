//! Segments that no TCP would send: random numbers from small sets, so that every corner of the rules is met often.

use crate::dice::Dice;
use crate::made::Tcp;
use holdup_packets::segment::{ACK, Endpoint, FIN, Options, PSH, RST, SYN};

/// Sequence numbers start here: small ones, around the wrap, around half of it.
const BASES: [u32; 7] = [0, 1, 5, 1000, u32::MAX - 4, (1 << 31) - 3, 77_777];

/// Times between segments, ns: around every threshold, and none.
const STEPS_NS: [i64; 16] = [
    0,
    1_000,
    1_000,
    50_000,
    50_000,
    1_000_000,
    2_999_000,
    3_000_000,
    3_001_000,
    19_999_000,
    20_000_000,
    20_001_000,
    200_000_000,
    1_000_000_000,
    1_000_000_000,
    -5_000,
];

/// How a connection's numbers are drawn.
struct Style {
    bases: [u32; 2],
    /// Over how many bytes numbers are spread.
    spread: u32,
    /// The chance of an odd flag, in percent.
    odd_flags: u32,
    windows: &'static [u16],
    lengths: &'static [usize],
    sacks: u32,
    options: u32,
}

const WINDOWS: [&[u16]; 4] = [&[0, 1], &[0, 3, 8], &[5, 6], &[0, 100, 100, 100, 65_535]];
const LENGTHS: [&[usize]; 5] =
    [&[0, 1], &[0, 0, 1, 2, 3], &[0, 1, 1, 4], &[0, 256, 257, 255], &[0, 0, 536, 537, 1460, 1461]];

impl Style {
    fn random(dice: &mut Dice) -> Self {
        Style {
            bases: [dice.pick(&BASES), dice.pick(&BASES)],
            spread: dice.pick(&[2, 4, 8, 8, 12, 600, 3000]),
            odd_flags: dice.pick(&[0, 3, 10, 30]),
            windows: dice.pick(&WINDOWS),
            lengths: dice.pick(&LENGTHS),
            sacks: dice.pick(&[0, 5, 30, 60]),
            options: dice.pick(&[0, 5, 20]),
        }
    }
}

/// The segments of a connection between two ends, and the time of each since the beginning, ns.
pub(crate) fn connection(dice: &mut Dice, ends: [Endpoint; 2], segments: usize) -> Vec<(i64, Tcp)> {
    let style = Style::random(dice);
    let mut at_ns = 0;
    let mut ends_seen = style.bases;
    let mut all = Vec::new();
    for _ in 0..segments {
        at_ns = (at_ns + dice.pick(&STEPS_NS)).max(0);
        let from = dice.below(2) as usize;
        let mut tcp = Tcp::new(ends[from], ends[1 - from]);
        tcp.payload_bytes = dice.pick(style.lengths);
        tcp.seq = number(dice, &style, from, ends_seen[from]);
        tcp.ack = number(dice, &style, 1 - from, ends_seen[1 - from]);
        tcp.window = dice.pick(style.windows);
        tcp.flags = flags(dice, style.odd_flags);
        tcp.options = options(dice, &style, tcp.ack, tcp.flags);
        let end = tcp.seq.wrapping_add(tcp.payload_bytes as u32);
        if (end.wrapping_sub(ends_seen[from]) as i32) > 0 {
            ends_seen[from] = end;
        }
        all.push((at_ns, tcp));
    }
    all
}

/// A number near where a direction is, or anywhere where it was.
fn number(dice: &mut Dice, style: &Style, side: usize, near: u32) -> u32 {
    match dice.below(20) {
        0..=9 => near,
        10..=12 => near.wrapping_add(dice.below(3)).wrapping_sub(1),
        13 => 0,
        14 => dice.next() as u32,
        _ => style.bases[side].wrapping_add(dice.below(style.spread)),
    }
}

fn flags(dice: &mut Dice, odd: u32) -> u16 {
    let mut flags = ACK;
    if dice.chance(30) {
        flags |= PSH;
    }
    for flag in [SYN, FIN, RST] {
        if dice.chance(odd) {
            flags |= flag;
        }
    }
    if dice.chance(odd / 2) {
        flags &= !ACK;
    }
    flags
}

fn options(dice: &mut Dice, style: &Style, ack: u32, flags: u16) -> Options {
    let mut options = Options::default();
    let likely = if flags & SYN != 0 { 60 } else { style.options };
    if dice.chance(likely) {
        options.mss = Some(dice.pick(&[0, 1, 3, 536, 1460, 32_767, 32_768, 65_495, 65_535]));
    }
    if dice.chance(likely) {
        options.window_shift = Some(dice.pick(&[0, 1, 2, 7, 14, 15, 200]));
    }
    options.sack_permitted = dice.chance(likely);
    if dice.chance(likely) {
        options.timestamps = Some((dice.below(100), dice.below(100)));
    }
    if dice.chance(style.sacks) {
        let room = 40
            - 4
            - if options.timestamps.is_some() { 12 } else { 4 }
            - if options.window_shift.is_some() { 4 } else { 0 }
            - 4;
        let most = ((room - 4) / 8).min(4);
        options.sack_count = 1 + dice.below(most as u32) as u8;
        for i in 0..usize::from(options.sack_count) {
            let base = if dice.chance(80) { ack } else { style.bases[0] };
            let first = base.wrapping_add(dice.below(6)).wrapping_sub(2);
            options.sacks[i] = (first, first.wrapping_add(dice.pick(&[0, 1, 2, 3, 6, 1000, 3000])));
        }
        if dice.chance(10)
            && options.mss.is_none()
            && options.window_shift.is_none()
            && options.timestamps.is_none()
            && !options.sack_permitted
        {
            options.sack_count = 4;
        }
    }
    options
}
