//! What is read.

use super::super::{MOST_DURATION_NS, Options, Repeat, Size};
use super::{RICH, flowop, read, within};
use proptest::prelude::*;
use std::fmt::Write as _;

#[test]
fn a_rich_profile_is_read() {
    let profile = read(RICH).unwrap();
    let mut text = format!("{:?}\n", profile.name);
    for group in &profile.groups {
        writeln!(text, "{}: group {:?} {} processes={}", group.line, group.name, group.strands, group.processes)
            .unwrap();
        for t in &group.transactions {
            writeln!(text, "  {}: {:?} rate={:?}", t.line, t.repeat, t.rate_per_s).unwrap();
            for f in &t.flowops {
                writeln!(text, "    {}: {:?} {}", f.line, f.kind, what_differs(&f.options)).unwrap();
            }
        }
    }
    for note in &profile.notes {
        writeln!(text, "{note:?}").unwrap();
    }
    insta::assert_snapshot!(text);
}

/// The options that are not as they are by default.
fn what_differs(options: &Options) -> String {
    let (options, default) = (format!("{options:#?}"), format!("{:#?}", Options::default()));
    let lines = options.lines().filter(|line| !default.lines().any(|l| l == *line));
    lines.map(str::trim).collect::<String>().replace(",)", ")").replace(',', " ")
}

#[test]
fn lax_spelling_is_read_as_uperf_reads_it() {
    let strict = read(&within("<flowop type=\"write\" options=\"size=64k count=2\"/>")).unwrap();
    let check = |inside: &str| {
        let mut lax = read(&within(inside)).unwrap_or_else(|e| panic!("{inside}: {e}"));
        lax.notes.clear();
        assert_eq!(lax, strict, "{inside}");
    };
    check("<FLOWOP TYPE=\"Write\" OPTIONS=\"SIZE=64K Count=2\"/>");
    check("< flowop type = \"write\" options = \"size=64k count=2\" / >".replace("/ >", "/>").as_str());
    check("<flowop type='write' options='size=64k\tcount=2'></flowop>");
    check("<flowop type=write options=\"size=65536 count=2\">");
    check("<flowop options=\"count=2   size=$big\" type=\"write\"/>");
    check("<flowop type=\"write\" options=\"$opts\"/>");
    check("<flowop type=\"write\"options=\"size=0.0625m count=2\"/>");
    check("<!-- <!DOCTYPE x> & &amp; \" --><flowop type=\"write\" options=\"size=64kb count=2\"/><?any thing?>");
    check("<flowop type=\"write\" options=\"size=64k count=2\"/></transaction></ transaction ><!-->");
    let with_mark = format!("\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n{}", within("<flowop type=nop/>"));
    assert_eq!(read(&with_mark).unwrap().flowops().count(), 2);
}

#[test]
fn values_have_uperfs_units() {
    let size =
        |text: &str| read(&flowop(&format!("size={text}"))).unwrap().groups[0].transactions[1].flowops[0].options.size;
    for (text, bytes) in [
        ("1", 1),
        ("8k", 8192),
        ("8K", 8192),
        ("1m", 1 << 20),
        ("1g", 1 << 30),
        (".5k", 512),
        ("1.5k", 1536),
        ("0.3k", 307),
        ("0008", 8),
        ("64b", 64),
    ] {
        assert_eq!(size(text), Some(Size::Fixed(bytes)), "{text}");
    }
    assert_eq!(size("rand(1,8k)"), Some(Size::Random { least: 1, most: 8192 }));
    assert_eq!(size("RAND(4k,4k)"), Some(Size::Random { least: 4096, most: 4096 }));
    let time = |text: &str| {
        let read = read(&within(&format!("<flowop type=\"think\" options=\"duration={text}\"/>"))).unwrap();
        read.groups[0].transactions[1].flowops[0].options.duration_ns.unwrap()
    };
    for (text, ns) in [
        ("30", 30_000_000_000),
        ("30s", 30_000_000_000),
        ("100ms", 100_000_000),
        ("100m", 100_000_000),
        ("5us", 5_000),
        ("5u", 5_000),
        ("7ns", 7),
        ("1.5s", 1_500_000_000),
        ("0.25us", 250),
        ("86400", MOST_DURATION_NS),
        ("$time", 2_500_000_000),
    ] {
        assert_eq!(time(text), ns, "{text}");
    }
}

#[test]
fn what_has_no_effect_is_noted() {
    let notes = |inside: &str| {
        let notes = read(&within(inside)).unwrap_or_else(|e| panic!("{e}")).notes;
        notes.into_iter().map(|n| format!("{}: {}", n.line, n.text)).collect::<Vec<_>>().join("\n")
    };
    let with = |options: &str| notes(&format!("<flowop type=\"write\" options=\"size=8k {options}\"/>"));
    assert_eq!(with("rsize=16k"), "");
    assert_eq!(with("rsize=8k"), "3: rsize 8192 has no effect, as in uperf: it is not above size 8192");
    assert_eq!(with("size=4k"), "3: option \"size\" stands twice: the last one counts");
    assert_eq!(with("duration=1s"), "3: duration of a write has no effect, as in uperf: only of a think it has");
    assert_eq!(with("timeout=5m"), "3: time \"5m\" is in milliseconds, as in uperf");
    for option in ["localhost=me", "batch_size=4", "stack=rack", "bblog=4"] {
        assert!(with(option).contains("has no effect"), "{option}");
    }
    assert_eq!(notes("</transaction>"), "4: </transaction> closes nothing");
    assert_eq!(notes("</transaction><transaction rate=5>"), "3: rate has no effect without a duration, as in uperf");
    assert_eq!(
        notes("</transaction><transaction iterations=5 duration=1><flowop type=think>"),
        "3: iterations have no effect beside a duration, as in uperf\n3: think says no duration: it takes no time"
    );
}

/// A profile of random values as text, with what it must be read as.
fn profiles() -> impl Strategy<Value = (String, u64, u64, u64)> {
    let spelled = (1..=MOST_DURATION_NS / 1_000_000, prop::sample::select(vec!["\t", " ", "\n", "\r\n  "]));
    (spelled, 1..=1_u64 << 30, 0..=i32::MAX as u64).prop_map(|((ms, blank), size, count)| {
        let mut text = String::new();
        write!(text, "<profile{blank}name={blank}\"x\"><group{blank}nthreads=\"1\"><transaction>").unwrap();
        write!(text, "<flowop type=\"connect\" options=\"remotehost=h{blank}protocol=tcp\"/></transaction>").unwrap();
        write!(text, "<transaction duration=\"{ms}ms\"><flowop{blank}type=\"write\" options=\"").unwrap();
        write!(text, "{blank}size={size}{blank}count={count}{blank}\"/></transaction></group></profile{blank}>")
            .unwrap();
        (text, ms, size, count)
    })
}

proptest! {
    #[test]
    fn values_come_back((text, ms, size, count) in profiles()) {
        let profile = read(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let transaction = &profile.groups[0].transactions[1];
        prop_assert_eq!(transaction.repeat, Repeat::Duration(ms * 1_000_000));
        let options = &transaction.flowops[0].options;
        prop_assert_eq!((options.size, options.count), (Some(Size::Fixed(size)), count));
        let newlines = text.matches('\n').count() as u32;
        prop_assert!(profile.flowops().all(|f| (1..=newlines + 1).contains(&f.line)));
    }

    #[test]
    fn a_cut_profile_is_refused(cut in 0..RICH.trim_end().len()) {
        let text = String::from_utf8_lossy(&RICH.as_bytes()[..cut]).into_owned();
        let errors = read(&text).expect_err("its end is missing");
        let lines = text.lines().count() as u32 + 1;
        prop_assert!(errors.faults.iter().all(|f| f.line <= lines));
    }
}
