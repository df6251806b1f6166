//! What the server does, and what the engine gets.

use super::super::program::{Action, Call, Program};
use super::super::{FlowopKind, Mode, Profile, Protocol, Repeat, Simple, Size};
use super::{RICH, flowop, read, within};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[test]
fn a_rich_profile_turns_into_programs() {
    let profile = read(RICH).unwrap();
    let programs: Vec<Program> = profile.groups.iter().map(|g| Program::of(g).unwrap()).collect();
    let mut text = String::new();
    for p in programs {
        let sizes = (p.slots, p.buffer_bytes, p.most_open);
        writeln!(text, "{} processes={} slots, bytes, open={sizes:?}", p.strands, p.processes).unwrap();
        p.endpoints.iter().for_each(|e| writeln!(text, "  {e:?}").unwrap());
        p.files.iter().for_each(|f| writeln!(text, "  {f:?}").unwrap());
        for phase in p.phases {
            writeln!(text, "  {:?} rate={:?}", phase.repeat, phase.rate_per_s).unwrap();
            phase.steps.iter().for_each(|s| writeln!(text, "    {s:?}").unwrap());
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_server_end_does_the_opposite() {
    use FlowopKind::*;
    let pairs = [
        (Connect, Accept),
        (Accept, Connect),
        (Disconnect, Disconnect),
        (Read, Write),
        (Write, Read),
        (Recv, Send),
        (Send, Recv),
        (Sendto, Recv),
        (Recvmsg, Sendmsg),
        (Sendmsg, Recvmsg),
        (Sendfile, Read),
        (Sendfilev, Read),
        (Think, Think),
        (Nop, Nop),
    ];
    assert_eq!(pairs.map(|(kind, _)| kind).as_slice(), FlowopKind::ALL.iter().map(|(_, k)| *k).collect::<Vec<_>>());
    for (kind, server) in pairs {
        assert_eq!(kind.mirrored(), server, "{kind:?}");
    }
}

/// The size and the count of the server, for options of a write.
#[test]
fn the_server_end_takes_its_own_size() {
    let check = |kind: &str, options: &str, size: Size, count: u64| {
        let profile = read(&within(&format!("<flowop type=\"{kind}\" options=\"{options}\"/>"))).unwrap();
        let server = profile.mirrored();
        let options = &server.groups[0].transactions[1].flowops[0].options;
        assert_eq!((options.size, options.count), (Some(size), count), "{options:?}");
    };
    check("write", "size=8k", Size::Fixed(8192), 1);
    check("write", "size=8k rsize=128k", Size::Fixed(131_072), 1);
    check("write", "size=8k rsize=16k count=10", Size::Fixed(16_384), 5);
    check("read", "size=8k rsize=40k count=10", Size::Fixed(40_960), 2);
    check("write", "size=8k rsize=4k count=10", Size::Fixed(8192), 10);
    check("write", "size=1k rsize=64k count=2", Size::Fixed(65_536), 0);
    check("write", "size=rand(1,2k) rsize=4k count=2", Size::Random { least: 1, most: 2048 }, 2);
    check("sendfile", "dir=/ size=512", Size::Fixed(65_536), 1);
    check("sendfilev", "dir=/ nfiles=10", Size::Fixed(65_536), 1);
}

#[test]
fn the_server_does_the_opposite_without_a_remote_host() {
    let text = within(
        "<flowop type=connect options=\"conn=1 remotehost=$h2 protocol=udp\"/>\
         <flowop type=write options=\"size=5\"/><flowop type=read options=\"conn=1 size=5\"/><flowop type=think/>",
    );
    let profile = read(&text).unwrap();
    let kinds = |p: &Profile| p.flowops().map(|f| f.kind.name()).collect::<Vec<_>>();
    assert_eq!(kinds(&profile.mirrored()), ["accept", "accept", "read", "write", "think"]);
    assert!(profile.mirrored().flowops().all(|f| f.options.remotehost.is_none()));
    assert!(!profile.mirrored().groups[0].processes);
}

/// A profile as text, made of the simple parameters.
fn shipped(text: &str, values: &[(&str, &str)]) -> Profile {
    let values: BTreeMap<&str, &str> = values.iter().copied().collect();
    let mut profile =
        Profile::read("p.xml", text.as_bytes(), &|name| values.get(name).map(|v| (*v).to_owned())).unwrap();
    assert_eq!(profile.notes, []);
    profile.name = None;
    for group in &mut profile.groups {
        group.line = 0;
        for transaction in &mut group.transactions {
            transaction.line = 0;
            transaction.flowops.iter_mut().for_each(|f| f.line = 0);
        }
    }
    profile
}

#[test]
fn the_simple_profile_is_the_one_of_the_plans() {
    let values = [("conns", "50"), ("duration", "30s"), ("proto", "tcp"), ("h", "peer")];
    let simple = |mode| {
        Profile::simple(&Simple {
            remotehost: "peer",
            connections: 50,
            processes: false,
            protocol: Protocol::Tcp,
            size_bytes: 65_536,
            mode,
            duration_ns: 30_000_000_000,
        })
        .unwrap()
    };
    let read = shipped(include_str!("../../../../../plans/uperf/streams-read.xml"), &values);
    let write = shipped(include_str!("../../../../../plans/uperf/streams-write.xml"), &values);
    assert_eq!(simple(Mode::Read), read);
    assert_eq!(simple(Mode::Write), write);
    let both = simple(Mode::Both);
    assert_eq!(both.groups, [write.groups, read.groups].concat());
    assert_eq!(both.strands(), 100);
}

#[test]
fn the_other_profiles_of_the_plans_are_read() {
    let values = [("conns", "8"), ("iterations", "10k"), ("duration", "1"), ("proto", "tcp"), ("h", "peer")];
    let requests = shipped(include_str!("../../../../../plans/uperf/request-response.xml"), &values);
    assert_eq!(requests.groups[0].transactions[1].repeat, Repeat::Iterations(10_240));
    assert_eq!(Program::of(&requests.groups[0]).unwrap().most_open, Some(1));
    let connects = shipped(include_str!("../../../../../plans/uperf/connect-disconnect.xml"), &values);
    assert_eq!(connects.groups[0].transactions[0].repeat, Repeat::Duration(1_000_000_000));
    assert_eq!(Program::of(&connects.groups[0]).unwrap().most_open, Some(1));
}

#[test]
fn a_simple_profile_has_the_bounds_of_others() {
    let good = Simple {
        remotehost: "peer",
        connections: 1,
        processes: true,
        protocol: Protocol::Udp,
        size_bytes: 65_507,
        mode: Mode::Both,
        duration_ns: 1,
    };
    assert!(Profile::simple(&good).is_ok());
    let check = |simple: Simple<'_>, expect: &str| {
        assert_eq!(Profile::simple(&simple).unwrap_err().to_string(), expect);
    };
    let bounds = "out of bounds\nhint: from 1 to";
    check(Simple { connections: 0, ..good.clone() }, &format!("connections 0: {bounds} 10000"));
    check(Simple { connections: 5_001, ..good.clone() }, &format!("connections 10002: {bounds} 10000"));
    check(Simple { size_bytes: 0, ..good.clone() }, &format!("size 0: {bounds} 65507"));
    check(Simple { size_bytes: 65_508, ..good.clone() }, &format!("size 65508: {bounds} 65507"));
    check(Simple { duration_ns: 0, ..good }, &format!("duration in ns 0: {bounds} 86400000000000"));
}

#[test]
fn open_connections_are_counted_ahead() {
    let most_open = |transactions: &str| {
        let text = transactions.replace("+", "<flowop type=connect options=\"remotehost=h protocol=tcp\"/>");
        let text = text.replace("-", "<flowop type=disconnect/>");
        let text = format!("<profile><group nthreads=1>{text}</group></profile>");
        Program::of(&read(&text).unwrap_or_else(|e| panic!("{e}")).groups[0]).unwrap().most_open
    };
    assert_eq!(most_open("<transaction>+</transaction>"), Some(1));
    assert_eq!(most_open("<transaction>+-+-</transaction>"), Some(1));
    assert_eq!(most_open("<transaction iterations=10>++-</transaction>"), Some(11));
    assert_eq!(
        most_open(
            "<transaction iterations=10>+</transaction><transaction iterations=9>-</transaction><transaction>+</transaction>"
        ),
        Some(10)
    );
    assert_eq!(most_open("<transaction iterations=0>+</transaction>"), Some(0));
    assert_eq!(most_open("<transaction duration=1>+</transaction>"), None);
    assert_eq!(most_open("<transaction duration=1>+-</transaction>"), Some(1));
}

#[test]
fn steps_know_their_protocol() {
    let text = "<profile><group nthreads=1><transaction>\
        <flowop type=connect options=\"remotehost=h protocol=udp non_blocking\"/>\
        <flowop type=write options=\"size=5 repeat=3 timeout=2.7ms non_blocking\"/>\
        <flowop type=connect options=\"remotehost=h protocol=tcp non_blocking\"/>\
        <flowop type=write options=\"size=5 repeat=3 timeout=2ms non_blocking\"/>\
        <flowop type=read options=\"size=rand(5,6) repeat=3 timeout=2ms non_blocking\"/>\
        <flowop type=recv options=\"size=5 timeout=2ms\"/>\
        <flowop type=read options=\"size=5 timeout=900us\"/>\
        </transaction></group></profile>";
    let program = Program::of(&read(text).unwrap().groups[0]).unwrap();
    let transfers: Vec<_> = program.phases[0]
        .steps
        .iter()
        .filter_map(|step| match step.action {
            Action::Send(t) | Action::Receive(t) => {
                Some((t.call, t.least, t.once, t.datagrams, t.timeout_ms, t.non_blocking))
            }
            _ => None,
        })
        .collect();
    let expect = [
        (Call::Plain, 5, false, 3, Some(2), true),
        (Call::Plain, 5, false, 1, None, false),
        (Call::Plain, 6, true, 1, Some(2), false),
        (Call::Socket, 5, false, 1, None, false),
        (Call::Plain, 5, false, 1, None, false),
    ];
    assert_eq!(transfers, expect);
    assert_eq!(program.endpoints.iter().map(|e| e.non_blocking).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn sizes_are_drawn_within_their_bounds() {
    let text = flowop("size=rand(10,13)");
    let program = Program::of(&read(&text).unwrap().groups[0]).unwrap();
    let Action::Send(transfer) = program.phases[1].steps[0].action else { panic!("it sends") };
    let step = u64::MAX / 4 + 1;
    assert_eq!([0, 1, 2, 3].map(|i| transfer.draw(i * step)), [10, 11, 12, 13]);
    assert_eq!(transfer.draw(u64::MAX), 13);
    assert_eq!(transfer.draw(step - 1), 10);
}

proptest! {
    #[test]
    fn twice_mirrored_moves_the_same(options in "(size=[1-9]k?|size=rand\\(1,9k\\)) (count=[0-9]|canfail|timeout=1s)") {
        let profile = read(&flowop(&options)).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let back = profile.mirrored().mirrored();
        let kinds = |p: &Profile| p.flowops().map(|f| (f.kind, f.options.size, f.options.count)).collect::<Vec<_>>();
        prop_assert_eq!(kinds(&back), kinds(&profile));
    }
}
