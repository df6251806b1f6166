//! Sessions of a small TCP over a path with faults, as a capture somewhere on the path has them.

use crate::dice::Dice;
use crate::made::Tcp;
use holdup_packets::segment::{ACK, Endpoint, FIN, Options, PSH, RST, SYN};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const US: i64 = 1_000;
const MS: i64 = 1_000_000;

/// Chances in 1,000.
struct Faults {
    lost_before: u32,
    lost_after: u32,
    uncaptured: u32,
    late: u32,
    twice: u32,
    /// How late.
    late_ns: i64,
}

/// The path: how long one way takes, and how far from end 0 the capture is, in percent.
struct Path {
    delay_ns: i64,
    place: i64,
    faults: Faults,
    /// Only segments of this end are captured.
    only: Option<usize>,
}

/// What one end does.
struct Ways {
    mss: u16,
    shift: Option<u8>,
    has_sack: bool,
    has_timestamps: bool,
    buffer: u64,
    window: u64,
    /// Segments that the card cuts itself are up to this many times larger.
    super_packets: u32,
    closes: bool,
    takes_probes: bool,
    probes_with_byte: bool,
    read_ns: i64,
    keep_alive_ns: i64,
    aborts_at: Option<u64>,
}

struct End {
    ways: Ways,
    begin: u32,
    peer_begin: u32,
    total: u64,
    una: u64,
    next: u64,
    peer_window: u64,
    peer_shift: u32,
    peer_sacks: bool,
    peer_stamps: bool,
    received: u64,
    holes: Vec<(u64, u64)>,
    twice: Option<(u64, u64)>,
    unread: u64,
    repeats: u32,
    recover: u64,
    unanswered: u32,
    has_peer: bool,
    is_open: bool,
    is_dead: bool,
    peer_fin: Option<u64>,
    stamp_ns: i64,
    timer: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(usize, usize),
    Timeout(usize, u64),
    AckLater(usize, u64),
    Read(usize),
    KeepAlive(usize),
}

/// One run.
struct World<'a> {
    dice: &'a mut Dice,
    hosts: [Endpoint; 2],
    path: Path,
    ends: [End; 2],
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    count: u64,
    sent: Vec<Tcp>,
    captured: Vec<(i64, u64, Tcp)>,
    now: i64,
    opens_fast: bool,
}

fn faults(dice: &mut Dice) -> Faults {
    let rate = |dice: &mut Dice| dice.pick(&[0, 0, 0, 2, 10, 30, 100]);
    Faults {
        lost_before: rate(dice),
        lost_after: rate(dice),
        uncaptured: rate(dice),
        late: rate(dice),
        twice: rate(dice),
        late_ns: dice.pick(&[20 * US, MS, 3 * MS, 19 * MS, 21 * MS, 200 * MS]),
    }
}

fn ways(dice: &mut Dice) -> Ways {
    let buffer = dice.pick(&[1, 1000, 3000, 20_000, 65_535, 65_535, 1_000_000]);
    Ways {
        mss: dice.pick(&[100, 536, 1460, 1460, 1460, 8960, 40_000]),
        shift: dice.chance(80).then(|| dice.pick(&[0, 2, 7, 7, 14])),
        has_sack: dice.chance(80),
        has_timestamps: dice.chance(60),
        buffer,
        window: dice.pick(&[1000, 5000, 15_000, 100_000]),
        super_packets: dice.pick(&[1, 1, 1, 4, 20]),
        closes: dice.chance(80),
        takes_probes: dice.chance(50),
        probes_with_byte: dice.chance(50),
        read_ns: dice.pick(&[10 * US, 10 * US, 200 * US, 10 * MS, 500 * MS, 3000 * MS]),
        keep_alive_ns: dice.pick(&[0, 0, 100 * MS, 1000 * MS]),
        aborts_at: dice.chance(10).then(|| dice.below(30_000).into()),
    }
}

fn end(dice: &mut Dice, begin: u32) -> End {
    End {
        ways: ways(dice),
        begin,
        peer_begin: 0,
        total: dice.pick(&[0, 1, 10, 300, 3000, 30_000, 30_000, 100_000]),
        una: 0,
        next: 0,
        peer_window: 1,
        peer_shift: 0,
        peer_sacks: false,
        peer_stamps: false,
        received: 0,
        holes: Vec::new(),
        twice: None,
        unread: 0,
        repeats: 0,
        recover: 0,
        unanswered: 0,
        has_peer: false,
        is_open: false,
        is_dead: false,
        peer_fin: None,
        stamp_ns: 0,
        timer: 0,
    }
}

/// A first sequence number: any, or one whose direction wraps.
pub(crate) fn begin_number(dice: &mut Dice) -> u32 {
    if dice.chance(30) { u32::MAX - dice.below(20_000) } else { dice.next() as u32 }
}

/// The segments of a session as they were captured, and the time of each since its beginning, ns.
pub(crate) fn session(dice: &mut Dice, hosts: [Endpoint; 2], begins: [u32; 2]) -> Vec<(i64, Tcp)> {
    let delay_ns = dice.pick(&[10 * US, 200 * US, 1500 * US, 5 * MS, 10 * MS, 60 * MS]);
    let path = Path {
        delay_ns,
        place: dice.pick(&[0, 0, 5, 50, 100]),
        faults: faults(dice),
        only: dice.chance(12).then(|| dice.below(2) as usize),
    };
    let ends = begins.map(|begin| end(dice, begin));
    let mut world = World {
        hosts,
        path,
        ends,
        events: BinaryHeap::new(),
        count: 0,
        sent: Vec::new(),
        captured: Vec::new(),
        now: 0,
        opens_fast: dice.chance(8),
        dice,
    };
    world.run();
    let mut captured = world.captured;
    captured.sort_by_key(|(at_ns, order, _)| (*at_ns, *order));
    let mut captured: Vec<(i64, Tcp)> = captured.into_iter().map(|(at_ns, _, tcp)| (at_ns, tcp)).collect();
    if dice.chance(15) {
        // The capture began in the middle.
        let cut = dice.below(captured.len() as u32 / 2 + 1) as usize;
        captured.drain(..cut);
    }
    if dice.chance(5) {
        // Written by several CPUs, not in the order of time.
        for _ in 0..captured.len() / 8 {
            let i = dice.below(captured.len() as u32 - 1) as usize;
            captured.swap(i, i + 1);
        }
    }
    captured
}

impl World<'_> {
    fn run(&mut self) {
        self.open(0);
        if self.dice.chance(4) {
            self.open(1);
        }
        for i in 0..2 {
            self.at(self.ends[i].ways.read_ns, Event::Read(i));
            if self.ends[i].ways.keep_alive_ns > 0 {
                self.at(self.ends[i].ways.keep_alive_ns, Event::KeepAlive(i));
            }
        }
        let most = self.dice.pick(&[30, 100, 400]);
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.now = now;
            match event {
                Event::Arrive(i, sent) => self.arrive(i, sent),
                Event::Timeout(i, timer) => self.timeout(i, timer),
                Event::AckLater(i, received) => {
                    if !self.ends[i].is_dead && self.ends[i].received == received {
                        self.acknowledge(i);
                    }
                }
                Event::Read(i) => self.read(i),
                Event::KeepAlive(i) => self.keep_alive(i),
            }
            if self.sent.len() > most || now > 30_000 * MS {
                break;
            }
        }
    }

    fn at(&mut self, after_ns: i64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((self.now + after_ns, self.count, event)));
    }

    fn open(&mut self, i: usize) {
        let data = if self.opens_fast && i == 0 { 200 } else { 0 };
        self.send(i, SYN, 0, data);
        let e = &mut self.ends[i];
        e.next = e.next.max(1);
        self.arm(i);
    }

    fn arm(&mut self, i: usize) {
        let e = &mut self.ends[i];
        e.timer += 1;
        let after = 2 * self.path.delay_ns + ((200 * MS) << e.unanswered.min(4));
        let timer = e.timer;
        self.at(after, Event::Timeout(i, timer));
    }

    fn window(&self, i: usize) -> u64 {
        let e = &self.ends[i];
        e.ways.buffer.saturating_sub(e.unread)
    }

    /// Sends a segment of an end, from a place in its stream.
    fn send(&mut self, i: usize, flags: u16, place: u64, length: u64) {
        let window = self.window(i);
        let e = &self.ends[i];
        let mut tcp = Tcp::new(self.hosts[i], self.hosts[1 - i]);
        let is_syn = flags & SYN != 0;
        tcp.flags = if e.has_peer { flags | ACK } else { flags };
        tcp.seq = e.begin.wrapping_add(place as u32);
        let fin = u64::from(e.peer_fin.is_some_and(|fin| fin <= e.received));
        tcp.ack = if e.has_peer { e.peer_begin.wrapping_add((e.received + fin) as u32) } else { 0 };
        tcp.payload_bytes = length as usize;
        let shift = if is_syn { 0 } else { u32::from(e.ways.shift.unwrap_or(0)) };
        tcp.window = (window >> shift).min(65_535) as u16;
        tcp.options = self.options(i, is_syn);
        if is_syn && i == 0 && self.opens_fast {
            tcp.more_options = vec![34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1];
        }
        self.ends[i].twice = None;
        self.travel(i, tcp);
    }

    fn options(&self, i: usize, is_syn: bool) -> Options {
        let e = &self.ends[i];
        let mut options = Options::default();
        if is_syn {
            options.mss = (e.ways.mss != 536).then_some(e.ways.mss);
            options.window_shift = e.ways.shift;
            options.sack_permitted = e.ways.has_sack;
        }
        if e.ways.has_timestamps && (e.peer_stamps || is_syn) {
            options.timestamps = Some(((self.now / MS) as u32, (e.stamp_ns / MS) as u32));
        }
        if e.ways.has_sack && e.peer_sacks && !is_syn {
            let blocks: Vec<(u64, u64)> = e.twice.into_iter().chain(e.holes.iter().copied()).take(3).collect();
            options.sack_count = blocks.len() as u8;
            for (to, (first, end)) in options.sacks.iter_mut().zip(blocks) {
                *to = (e.peer_begin.wrapping_add(first as u32), e.peer_begin.wrapping_add(end as u32));
            }
        }
        options
    }

    /// The way of a segment: over the capture, or lost, late, twice.
    fn travel(&mut self, i: usize, tcp: Tcp) {
        let Faults { lost_before, lost_after, uncaptured, late, twice, late_ns } = self.path.faults;
        let mut hit = |rate: u32| self.dice.below(1000) < rate;
        let times = if hit(twice) { 2 } else { 1 };
        for time in 0..times {
            if hit(lost_before) {
                continue;
            }
            let (is_late_before, is_late_after) = (hit(late), hit(late));
            let place = if i == 0 { self.path.place } else { 100 - self.path.place };
            let jitter = i64::from(self.count as u32 % 7) * 100;
            let mut at = self.now + self.path.delay_ns * place / 100 + jitter + time * 30 * US;
            at += if is_late_before { late_ns } else { 0 };
            let is_lost = hit(lost_after);
            let is_captured = !hit(uncaptured) && self.path.only.is_none_or(|only| only == i);
            if is_captured {
                self.captured.push((at, self.captured.len() as u64, tcp.clone()));
            }
            if !is_lost {
                at += self.path.delay_ns * (100 - place) / 100 + if is_late_after { late_ns } else { 0 };
                self.sent.push(tcp.clone());
                self.count += 1;
                self.events.push(Reverse((at, self.count, Event::Arrive(1 - i, self.sent.len() - 1))));
            }
        }
    }

    fn acknowledge(&mut self, i: usize) {
        let next = self.ends[i].next;
        self.send(i, ACK, next, 0);
    }

    fn arrive(&mut self, i: usize, sent: usize) {
        let tcp = self.sent[sent].clone();
        if self.ends[i].is_dead {
            if tcp.flags & RST == 0 && self.dice.chance(50) {
                let mut reset = Tcp::new(self.hosts[i], self.hosts[1 - i]);
                (reset.flags, reset.seq, reset.window) = (RST, tcp.ack, 0);
                self.travel(i, reset);
            }
            return;
        }
        if tcp.flags & RST != 0 {
            self.ends[i].is_dead = true;
            return;
        }
        if tcp.flags & SYN != 0 {
            self.arrive_syn(i, &tcp);
        }
        if tcp.flags & ACK != 0 {
            self.arrive_ack(i, &tcp);
        }
        if self.ends[i].has_peer && tcp.flags & SYN == 0 {
            self.arrive_data(i, &tcp);
        }
        self.pump(i);
    }

    fn arrive_syn(&mut self, i: usize, tcp: &Tcp) {
        let was_known = self.ends[i].has_peer;
        let e = &mut self.ends[i];
        e.has_peer = true;
        e.peer_begin = tcp.seq;
        e.received = e.received.max(1);
        e.peer_sacks = tcp.options.sack_permitted;
        e.peer_stamps = tcp.options.timestamps.is_some();
        e.peer_shift = match (e.ways.shift, tcp.options.window_shift) {
            (Some(_), Some(shift)) => shift.into(),
            _ => 0,
        };
        if tcp.options.window_shift.is_none() && tcp.flags & ACK == 0 {
            e.ways.shift = None;
        }
        if tcp.flags & ACK == 0 {
            if tcp.payload_bytes > 0 && self.dice.chance(60) {
                self.ends[i].received = 1 + tcp.payload_bytes as u64;
            }
            self.send(i, SYN | ACK, 0, 0);
            self.ends[i].next = self.ends[i].next.max(1);
            self.arm(i);
        } else if was_known {
            self.acknowledge(i);
        } else {
            if tcp.options.window_shift.is_none() {
                self.ends[i].ways.shift = None;
            }
            self.ends[i].una = 1;
            self.acknowledge(i);
        }
        self.ends[i].is_open = true;
    }

    fn arrive_ack(&mut self, i: usize, tcp: &Tcp) {
        let e = &mut self.ends[i];
        let ack = u64::from(tcp.ack.wrapping_sub(e.begin));
        if ack > e.next + 1 {
            return;
        }
        let shift = if tcp.flags & SYN != 0 { 0 } else { e.peer_shift };
        e.peer_window = u64::from(tcp.window) << shift;
        if ack > e.una {
            e.una = ack;
            e.next = e.next.max(ack);
            (e.repeats, e.unanswered) = (0, 0);
            if e.recover > ack {
                // Losses after a loss are retransmitted immediately.
                self.send_again(i);
            }
            self.arm(i);
        } else if ack == e.una && tcp.payload_bytes == 0 && e.next > e.una {
            e.repeats += 1;
            if e.repeats == 3 {
                e.recover = e.next;
                self.send_again(i);
            }
        }
    }

    /// Sends again from the first byte that is not acknowledged, sometimes with other bounds.
    fn send_again(&mut self, i: usize) {
        let odd = self.dice.chance(10);
        let length = u64::from(if odd { self.dice.below(2000) + 1 } else { self.ends[i].ways.mss.into() });
        let e = &self.ends[i];
        if e.una == 0 {
            let flags = if e.has_peer { SYN | ACK } else { SYN };
            self.send(i, flags, 0, 0);
            return;
        }
        let (una, total) = (e.una, e.total + 1);
        let length = length.min(total.saturating_sub(una)).min(e.next - una);
        let is_last = una + length == total && e.next > total;
        self.send(i, if is_last { ACK | FIN } else { ACK | PSH }, una, length);
    }

    fn arrive_data(&mut self, i: usize, tcp: &Tcp) {
        let length = tcp.payload_bytes as u64;
        let e = &mut self.ends[i];
        let place = u64::from(tcp.seq.wrapping_sub(e.peer_begin));
        if place > 1 << 31 || (length == 0 && tcp.flags & FIN == 0) {
            if place != e.received && place < 1 << 31 {
                self.acknowledge(i);
            }
            return;
        }
        e.stamp_ns = self.now;
        let end = place + length;
        if tcp.flags & FIN != 0 {
            e.peer_fin = Some(end);
        }
        let room = e.ways.buffer.saturating_sub(e.unread);
        let takes = room >= length || (length == 1 && e.ways.takes_probes);
        let at_once = if !takes || end <= e.received && length > 0 {
            e.twice = (end <= e.received && place < end).then_some((place, end));
            true
        } else if place > e.received {
            insert(&mut e.holes, place, end);
            true
        } else {
            let before = e.received;
            e.received = e.received.max(end);
            let filled = !e.holes.is_empty();
            while let Some(at) = e.holes.iter().position(|(first, _)| *first <= e.received) {
                let (_, last) = e.holes.remove(at);
                e.received = e.received.max(last);
            }
            e.unread += e.received - before;
            filled || tcp.flags & FIN != 0
        };
        let received = e.received;
        if at_once || self.dice.chance(40) {
            self.acknowledge(i);
        } else {
            let after = self.dice.pick(&[100 * US, MS, 40 * MS]);
            self.at(after, Event::AckLater(i, received));
        }
    }

    /// Sends what may be sent.
    fn pump(&mut self, i: usize) {
        loop {
            let e = &self.ends[i];
            if !e.is_open || e.is_dead || e.una == 0 {
                return;
            }
            if e.ways.aborts_at.is_some_and(|at| e.next > at) {
                let place = e.next + if self.dice.chance(30) { 5000 } else { 0 };
                let flags = if self.dice.chance(50) { RST } else { RST | ACK };
                self.send(i, flags, place, 0);
                self.ends[i].is_dead = true;
                return;
            }
            let last = e.total + 1;
            let edge = e.una + e.ways.window.min(e.peer_window);
            if e.next < last && e.next < edge {
                let most = u64::from(e.ways.mss) * u64::from(1 + self.dice.below(e.ways.super_packets));
                let next = e.next;
                let length = most.min(last - next).min(edge - next).min(60_000);
                let is_end = next + length == last;
                let closes = is_end && e.ways.closes && self.dice.chance(50);
                let flags = ACK | if is_end || self.dice.chance(10) { PSH } else { 0 } | if closes { FIN } else { 0 };
                self.send(i, flags, next, length);
                self.ends[i].next = next + length + u64::from(closes);
            } else if e.next == last && e.ways.closes {
                let next = e.next;
                self.send(i, ACK | FIN, next, 0);
                self.ends[i].next += 1;
            } else {
                return;
            }
            if self.ends[i].next > self.ends[i].una && self.dice.chance(20) {
                self.arm(i);
            }
        }
    }

    fn timeout(&mut self, i: usize, timer: u64) {
        let e = &mut self.ends[i];
        if e.is_dead || e.timer != timer || e.unanswered > 5 {
            return;
        }
        e.unanswered += 1;
        if e.next > e.una {
            self.send_again(i);
        } else if e.peer_window == 0 && e.next <= e.total {
            let next = e.next;
            if e.ways.probes_with_byte {
                self.send(i, ACK, next, 1);
            } else {
                self.send(i, ACK, next - 1, 0);
            }
        }
        self.arm(i);
    }

    fn read(&mut self, i: usize) {
        let e = &mut self.ends[i];
        let was_full = e.ways.buffer.saturating_sub(e.unread) == 0;
        let most = self.dice.pick(&[500, 5000, 100_000]);
        e.unread = e.unread.saturating_sub(most);
        let after = e.ways.read_ns;
        if e.is_open && !e.is_dead && (was_full || self.dice.chance(2)) {
            self.acknowledge(i);
        }
        if self.now < 20_000 * MS {
            self.at(after.max(5 * MS), Event::Read(i));
        }
    }

    fn keep_alive(&mut self, i: usize) {
        let e = &self.ends[i];
        if e.is_open && !e.is_dead && e.una == e.next && e.next > 1 {
            let place = e.next - 1;
            let length = u64::from(self.dice.chance(40));
            self.send(i, ACK, place, length);
        }
        let after = self.ends[i].ways.keep_alive_ns;
        if self.now < 5_000 * MS {
            self.at(after, Event::KeepAlive(i));
        }
    }
}

/// Adds a range, the latest first, joined with those that it meets.
fn insert(holes: &mut Vec<(u64, u64)>, mut first: u64, mut end: u64) {
    holes.retain(|(a, b)| {
        let meets = *a <= end && first <= *b;
        if meets {
            (first, end) = (first.min(*a), end.max(*b));
        }
        !meets
    });
    holes.insert(0, (first, end));
    holes.truncate(20);
}
