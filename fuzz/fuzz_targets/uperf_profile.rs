//! Any bytes as a profile of uperf, and any text as what its variables hold.
//!
//! The input is parted at the first zero byte: the values of variables, one a line in turn by the length of the name,
//! then the profile. What is refused names a line of the file; what is read keeps to its bounds, and becomes programs
//! at both ends with a step for each flowop.
#![no_main]

use holdup_stream::profile::program::{Action, Program};
use holdup_stream::profile::{self, Profile, Repeat, Size};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (values, text) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (&b"8\n64k\n1s"[..], bytes),
    };
    let values = String::from_utf8_lossy(values);
    let values: Vec<&str> = values.lines().collect();
    let variables = |name: &str| values.get(name.len() % (values.len() + 1)).map(|value| (*value).to_owned());
    match Profile::read("fuzz.xml", text, &variables) {
        Ok(profile) => check(&profile),
        Err(errors) => {
            let lines = text.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
            assert!(!errors.faults.is_empty() && errors.faults.len() <= profile::MOST_FAULTS);
            assert!(errors.faults.iter().all(|fault| fault.line <= lines && !fault.why.is_empty()), "{errors}");
            assert!(errors.faults.is_sorted_by_key(|fault| fault.line));
        }
    }
});

fn check(profile: &Profile) {
    assert!((1..=profile::MOST_STRANDS).contains(&profile.strands()));
    for flowop in profile.flowops() {
        match flowop.options.size {
            Some(Size::Random { least, most }) => assert!(0 < least && least <= most),
            Some(Size::Fixed(bytes)) => assert!(bytes > 0),
            None => assert!(!flowop.kind.sends() && !flowop.kind.receives()),
        }
        assert!(flowop.options.size.is_none_or(|size| size.most() <= profile::MOST_SIZE_BYTES));
        assert!(flowop.line > 0);
    }
    let server = profile.mirrored();
    let count = profile.flowops().count();
    assert_eq!(server.flowops().count(), count);
    for (client, server) in profile.groups.iter().zip(&server.groups) {
        let client = Program::of(client).expect("what was read becomes a program");
        let server = Program::of(server).expect("and so does its server");
        assert_eq!((client.slots, client.strands), (server.slots, server.strands));
        for (client, server) in client.phases.iter().zip(&server.phases) {
            assert_eq!((client.steps.len(), client.repeat), (server.steps.len(), server.repeat));
            if let Repeat::Duration(ns) = client.repeat {
                assert!(0 < ns && ns <= profile::MOST_DURATION_NS);
            }
        }
        for step in client.phases.iter().chain(&server.phases).flat_map(|phase| &phase.steps) {
            if let Action::Send(transfer) | Action::Receive(transfer) = step.action {
                assert!(u64::from(transfer.most) <= client.buffer_bytes.max(server.buffer_bytes));
                let drawn = [0, u64::MAX / 3, u64::MAX].map(|random| transfer.draw(random) as u64);
                assert!(drawn.iter().all(|n| (u64::from(transfer.least)..=u64::from(transfer.most)).contains(n)));
            }
        }
    }
}
