//! The captures that programs are compared on, made from numbers: the same bytes every time.

use crate::made::{Pcap, Tcp, link};
use holdup_packets::segment::{ACK, Address, Endpoint, FIN, Options, PSH, SYN};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// A capture.
pub(crate) struct Capture {
    pub(crate) name: &'static str,
    make: fn(&mut Maker),
    /// Where frames are cut, bytes.
    snap_bytes: u32,
}

pub(crate) const ALL: &[Capture] = &[
    Capture { name: "full-83MB", make: |m| m.bulk(8, 3_600), snap_bytes: 262_144 },
    Capture { name: "full-440MB", make: |m| m.bulk(8, 19_000), snap_bytes: 262_144 },
    Capture { name: "full-2.1GB", make: |m| m.bulk(8, 92_000), snap_bytes: 262_144 },
    Capture { name: "cut-180MB", make: |m| m.bulk(8, 92_000), snap_bytes: 96 },
    Capture { name: "requests-61MB", make: |m| m.requests(1_730, 60), snap_bytes: 262_144 },
    Capture { name: "flows-10000", make: |m| m.requests(10_000, 23), snap_bytes: 262_144 },
    Capture { name: "flows-100000", make: |m| m.requests(100_000, 2), snap_bytes: 262_144 },
];

/// Lost and retransmitted data segments per 1,000.
const LOST: u64 = 2;

/// Writes frames in batches, so that a capture need not fit into memory.
pub(crate) struct Maker {
    file: BufWriter<File>,
    pending: Pcap,
    frames: u32,
    snap_bytes: u32,
    at_ns: i64,
    state: u64,
}

impl Maker {
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 33
    }

    fn empty(snap_bytes: u32) -> Pcap {
        Pcap::new(link::ETHERNET).with_nanoseconds().cut_at(snap_bytes)
    }

    fn send(&mut self, segment: &Tcp) {
        self.at_ns += 900 + (self.random() % 200) as i64;
        self.pending.frame(self.at_ns, &segment.frame());
        self.frames += 1;
        if self.frames.is_multiple_of(4_096) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let pending = std::mem::replace(&mut self.pending, Self::empty(self.snap_bytes));
        self.file.write_all(&pending.into_bytes()[24..]).expect("the capture can be written");
    }

    /// Concurrent streams, each of pairs of segments of 1,448 bytes followed by an acknowledgement.
    fn bulk(&mut self, streams: u32, pairs: u32) {
        let mut talks: Vec<Talk> = (0..streams).map(Talk::new).collect();
        for talk in &mut talks {
            talk.opens(self);
        }
        for _ in 0..pairs {
            for talk in &mut talks {
                talk.streams(self);
            }
        }
        for talk in &mut talks {
            talk.closes(self);
        }
    }

    /// Connections in random order, each with some requests and answers.
    fn requests(&mut self, connections: u32, requests: u32) {
        let mut talks: Vec<Talk> = (0..connections).map(Talk::new).collect();
        let mut left: Vec<u32> = vec![requests + 2; connections as usize];
        let mut open: Vec<usize> = (0..talks.len()).collect();
        while !open.is_empty() {
            let place = self.random() as usize % open.len();
            let who = open[place];
            left[who] -= 1;
            match left[who] {
                0 => {
                    talks[who].closes(self);
                    open.swap_remove(place);
                }
                n if n == requests + 1 => talks[who].opens(self),
                _ => talks[who].asks(self),
            }
        }
    }
}

/// One connection.
struct Talk {
    ends: [Endpoint; 2],
    next: [u32; 2],
    clock: u32,
}

impl Talk {
    fn new(number: u32) -> Self {
        let client =
            Endpoint { address: Address::V4(0x0a01_0000 + number / 20_000), port: 20_000 + (number % 20_000) as u16 };
        let server = Endpoint { address: Address::V4(0x0a02_0001), port: 5432 };
        Talk { ends: [client, server], next: [number.wrapping_mul(77_777_777), !number], clock: number }
    }

    fn segment(&mut self, side: usize, flags: u16, payload_bytes: usize) -> Tcp {
        self.clock += 1;
        let segment = Tcp {
            seq: self.next[side],
            ack: if flags & ACK == 0 { 0 } else { self.next[1 - side] },
            flags,
            window: 2_000,
            payload_bytes,
            options: Options { timestamps: Some((self.clock, self.clock - 1)), ..Options::default() },
            ..Tcp::new(self.ends[side], self.ends[1 - side])
        };
        self.next[side] = self.next[side].wrapping_add(payload_bytes as u32 + u32::from(flags & (SYN | FIN) != 0));
        segment
    }

    fn opens(&mut self, into: &mut Maker) {
        for (side, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
            let mut segment = self.segment(side, flags, 0);
            if flags & SYN != 0 {
                let o = &mut segment.options;
                (o.mss, o.window_shift, o.sack_permitted) = (Some(1460), Some(7), true);
            }
            into.send(&segment);
        }
    }

    /// Two segments and their acknowledgement; now and then the first is lost.
    fn streams(&mut self, into: &mut Maker) {
        let first = self.segment(0, ACK, 1_448);
        let second = self.segment(0, ACK | PSH, 1_448);
        if into.random() % 1_000 >= LOST {
            into.send(&first);
            into.send(&second);
            let ack = self.segment(1, ACK, 0);
            return into.send(&ack);
        }
        into.send(&second);
        for _ in 0..3 {
            let mut again = self.segment(1, ACK, 0);
            again.ack = first.seq;
            (again.options.sacks[0], again.options.sack_count) = ((second.seq, self.next[0]), 1);
            into.send(&again);
        }
        into.send(&first);
        let ack = self.segment(1, ACK, 0);
        into.send(&ack);
    }

    /// A request and its answer, each acknowledged by what comes next.
    fn asks(&mut self, into: &mut Maker) {
        let request = self.segment(0, ACK | PSH, 60 + (into.random() % 60) as usize);
        into.send(&request);
        let answer = self.segment(1, ACK | PSH, 40 + (into.random() % 100) as usize);
        into.send(&answer);
    }

    fn closes(&mut self, into: &mut Maker) {
        for (side, flags) in [(0, FIN | ACK), (1, FIN | ACK), (0, ACK)] {
            let segment = self.segment(side, flags, 0);
            into.send(&segment);
        }
    }
}

impl Capture {
    /// Writes it, and how many frames it has.
    pub(crate) fn write(&self, path: &Path) -> u32 {
        let mut file = BufWriter::new(File::create(path).expect("the capture can be made"));
        let empty = Maker::empty(self.snap_bytes);
        file.write_all(&empty.clone().into_bytes()).expect("the capture can be written");
        let at_ns = 1_700_000_000_000_000_000;
        let mut maker = Maker { file, pending: empty, frames: 0, snap_bytes: self.snap_bytes, at_ns, state: 1 };
        (self.make)(&mut maker);
        maker.flush();
        maker.file.flush().expect("the capture can be written");
        maker.frames
    }
}
