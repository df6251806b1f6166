//! What passes packets between the two links, loses, doubles and holds some of them by seeded dice, and writes all of it down.

use crate::dice::Dice;
use crate::namespaces::net::{Side, wait};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// What is done to the packets of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Path {
    /// How long each packet is under way, µs.
    pub(crate) delay_us: u32,
    /// How many packets are lost before anything else.
    pub(crate) first_lost: u32,
    /// How many packets from the first on nothing is done to but the delay, so that the connection comes about soon.
    pub(crate) spared: u32,
    pub(crate) lost_percent: u32,
    pub(crate) twice_percent: u32,
    /// How many are under way for up to so much longer, µs, so that others overtake them.
    pub(crate) late_percent: u32,
    pub(crate) late_us: u32,
    /// Packets marked as having met congestion (ECN), if their sender supports it.
    pub(crate) congested_percent: u32,
}

/// A packet that came out of one of the links.
#[derive(Debug, Clone)]
pub(crate) struct Passed {
    /// The side that sent it.
    pub(crate) from: usize,
    /// The packet of IP.
    pub(crate) packet: Vec<u8>,
    /// When it was read, ns since the epoch. No two times of a relay are the same.
    pub(crate) sent_ns: i64,
    /// When it was given to the other side: never when it was lost, twice when it was doubled.
    pub(crate) came_ns: Vec<i64>,
}

/// A clock of which no two readings are the same.
#[derive(Debug, Default)]
struct Clock(i64);

impl Clock {
    fn now(&mut self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as i64;
        self.0 = now.max(self.0 + 1);
        self.0
    }
}

/// Bytes of the header of virtio before each packet of a link with offload.
const VIRTIO_BYTES: usize = 10;

/// Forwards packets until it is stopped and none is in flight.
pub(crate) fn pass(sides: &[Side; 2], paths: &[Path; 2], offload: bool, seed: u64, stop: &AtomicBool) -> Vec<Passed> {
    let header = if offload { VIRTIO_BYTES } else { 0 };
    let (mut dice, mut clock) = (Dice::new(seed), Clock::default());
    let mut passed: Vec<Passed> = Vec::new();
    let mut raw: Vec<Vec<u8>> = Vec::new();
    let mut under_way: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let mut buffer = vec![0; 1 << 17];
    let mut counts = [0_u32; 2];
    loop {
        let mut is_quiet = true;
        for from in 0..2 {
            while let Some(length) = sides[from].read(&mut buffer) {
                is_quiet = false;
                if !is_tcp(&buffer[header..length]) {
                    // IPv6 neighbour and router solicitations stay unanswered.
                    continue;
                }
                counts[from] += 1;
                let sent_ns = clock.now();
                let whole = &mut buffer[..length];
                let path = if counts[from] > paths[from].spared {
                    paths[from]
                } else {
                    Path { delay_us: paths[from].delay_us, ..Path::default() }
                };
                let is_lost = counts[from] <= paths[from].first_lost;
                for due_ns in fate(&path, sent_ns, &mut dice).into_iter().filter(|_| !is_lost) {
                    under_way.push(Reverse((due_ns, passed.len())));
                }
                if dice.chance(path.congested_percent) {
                    mark(&mut whole[header..]);
                }
                passed.push(Passed { from, packet: whole[header..].to_vec(), sent_ns, came_ns: Vec::new() });
                raw.push(whole.to_vec());
            }
        }
        let now = clock.now();
        while let Some(Reverse((due_ns, i))) = under_way.peek().copied()
            && due_ns <= now
        {
            under_way.pop();
            let came_ns = clock.now();
            passed[i].came_ns.push(came_ns);
            sides[1 - passed[i].from].write(&raw[i]);
        }
        if is_quiet {
            if under_way.is_empty() && stop.load(Ordering::Relaxed) {
                return passed;
            }
            let next =
                under_way.peek().map_or(5_000_000, |Reverse((due_ns, _))| (due_ns - clock.now()).clamp(0, 5_000_000));
            wait(sides, Duration::from_nanos(next as u64));
        }
    }
}

fn is_tcp(packet: &[u8]) -> bool {
    packet[if packet[0] >> 4 == 6 { 6 } else { 9 }] == 6
}

/// When a packet is to come, once for each time.
fn fate(path: &Path, sent_ns: i64, dice: &mut Dice) -> Vec<i64> {
    if dice.chance(path.lost_percent) {
        return Vec::new();
    }
    let mut due_ns = sent_ns + i64::from(path.delay_us) * 1000;
    if dice.chance(path.late_percent) {
        due_ns += i64::from(dice.below(path.late_us) + 1) * 1000;
    }
    let mut times = vec![due_ns];
    if dice.chance(path.twice_percent) {
        times.push(due_ns + i64::from(dice.below(300)) * 1000);
    }
    times
}

/// Writes "congestion experienced" into a packet of IPv4 whose sender understands it (RFC 3168, 5).
fn mark(packet: &mut [u8]) {
    if packet[0] >> 4 != 4 || packet[1] & 3 == 0 {
        return;
    }
    packet[1] |= 3;
    packet[10..12].fill(0);
    let head = usize::from(packet[0] & 15) * 4;
    let sum = crate::made::layers::checksum(0, &packet[..head]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}
