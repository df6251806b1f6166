//! Any bytes as segments of few connections, which meet every rule of the judgement: no panic, no connection beyond the limit,
//! and each segment is counted once or given up and counted there. Of each segment come 12 bytes.
#![no_main]

use holdup_packets::rfc::{Finding, Judge};
use holdup_packets::segment::{Address, Endpoint, Options, Segment};
use holdup_packets::wireshark::{Limits, Table};
use libfuzzer_sys::fuzz_target;

/// Where the numbers of both ends begin: before the wrap.
const BASE: u32 = u32::MAX - 5000;
/// From one segment to the next, ns: also back in time.
const STEPS_NS: [i64; 8] = [0, 1000, 1_000_000, 30_000_000, 300_000_000, -1000, -5_000_000_000, i64::MAX / 1000];

fn segment(bytes: &[u8; 12], frame: u32, at_ns: i64) -> Segment {
    let [who, flags, seq, seq_low, ack, ack_low, length, window, kinds, clock, sack, sack_low] = *bytes;
    let number = |high: u8, low: u8| BASE.wrapping_add(u32::from(high) << 8 | u32::from(low));
    let port = 1000 + u16::from(who >> 1 & 7);
    let address = |host: u32| if who & 16 != 0 { Address::V6(u128::from(host).into()) } else { Address::V4(host) };
    let ends = [Endpoint { address: address(1), port }, Endpoint { address: address(2), port: 80 }];
    let (from, to) = if who & 1 == 0 { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
    let sack = number(sack, sack_low);
    let options = Options {
        mss: (kinds & 1 != 0).then_some(1000),
        window_shift: (kinds & 2 != 0).then_some(clock),
        sack_permitted: kinds & 4 != 0,
        sacks: [
            (sack, sack.wrapping_add(500)),
            (sack.wrapping_sub(200), sack.wrapping_add(900)),
            (BASE, sack),
            (sack, sack),
        ],
        sack_count: kinds >> 3 & 3,
        timestamps: (kinds & 32 != 0).then_some((u32::from(clock), u32::from(clock))),
        fast_open_cookie: kinds & 64 != 0,
        sacks_are_cut: kinds & 128 != 0,
        ..Options::default()
    };
    Segment {
        frame,
        at_ns,
        from,
        to,
        seq: number(seq, seq_low),
        ack: number(ack, ack_low),
        payload_bytes: (length != 255).then_some(u32::from(length) * u32::from(length)),
        flags: u16::from(flags & 63),
        window: u16::from(window) * 257,
        in_error: who & 224 == 224,
        is_fragment: who & 224 == 192,
        header_bytes: 20,
        header_captured_bytes: 20,
        ip_id: (who & 16 == 0).then_some(u16::from(clock)),
        frame_bytes: 54,
        options,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { flows: 6, unacknowledged: 40 };
    let (mut table, mut own) = (Table::new(limits), Judge::default());
    let (mut at_ns, mut n, mut fed) = (1_i64 << 60, 0_u32, 0_u64);
    for bytes in bytes.as_chunks::<12>().0 {
        at_ns = (at_ns + STEPS_NS[usize::from(bytes[1] >> 6) | usize::from(bytes[6] & 1) << 2]).min(i64::MAX / 2);
        n += 1;
        let segment = segment(bytes, n, at_ns);
        if let Some(marks) = table.judge(&segment) {
            assert!(marks.stream < limits.flows && marks.direction < 2);
            own.judge(&segment, &marks);
            fed += u64::from(!segment.in_error);
        }
    }
    let analysis = table.finish();
    assert_eq!(analysis.segments, u64::from(n));
    assert!(analysis.flows.len() <= limits.flows as usize);
    let counted: u64 = analysis.flows.iter().flat_map(|flow| flow.directions).map(|direction| direction.segments).sum();
    assert_eq!(counted, fed);
    assert!(fed + analysis.given_up.segments_beyond_flows <= u64::from(n));
    // What is found is at most what was sent, or a gap beside it.
    let own = own.finish();
    let again = [Finding::LostBefore, Finding::LostBehind, Finding::Needless, Finding::Reordered, Finding::Doubled];
    let found: u64 = again.iter().map(|finding| own.get(*finding)).sum();
    assert!(found <= u64::from(n), "{found} of {n}");
});
