//! What is refused, and where.

use super::super::program::Program;
use super::super::{MOST_FAULTS, MOST_FILE_BYTES, MOST_NOTES, Profile, ProfileErrors};
use super::{environment, flowop, messages, read, within};
use holdup_model::Problem;

/// Each text with the first line of its only fault.
#[test]
fn errors_are_reported_with_their_line() {
    let cases: &[(&str, &str)] = &[
        ("", ": there is no <profile> in it"),
        ("<!-- \n", ":1: <!--: has no `-->`"),
        ("\n<?xml", ":2: <?: has no `?>`"),
        ("\n<profile>\n", ":3: the file ends inside of the <profile> of line 2"),
        ("\n<profile></profile>", ":2: tag <profile>: has no group"),
        ("<profile><group nthreads=1></profile>", ":1: tag </profile>: the last group has no </group>"),
        ("<profile><group nthreads=\"1", ":1: attribute \"nthreads\": its value has no closing \""),
        ("<profile name></profile>", ":1: attribute \"name\": has no value"),
        ("<profile ", ":1: tag <profile: the file ends inside of it"),
        (
            "\n<!DOCTYPE a [<!ENTITY b \"c\">]><profile/>",
            ":2: \"<!DOCTYPE\": document types, entities and the like are refused: nothing is ever expanded",
        ),
        (
            "<![CDATA[x]]>",
            ":1: \"<![CDATA[x]]\": document types, entities and the like are refused: nothing is ever expanded",
        ),
        ("<group nthreads=1></group><profile/>", ":1: tag <group>: stands outside of <profile>"),
        ("<profile/>\n<profile/>", ":2: tag <profile>: there is one before"),
        ("<profile>\n<group></group></profile>", ":2: tag <group>: says neither nthreads nor nprocs"),
        ("<profile>\n<group nthreads=0></group></profile>", ":2: nthreads \"0\": must be above 0"),
        ("<profile>\n<group\nnprocs=10001></group></profile>", ":3: nprocs \"10001\": too large"),
        ("<profile>\n<group nprocs=1 nthreads=1></group></profile>", ":2: tag <group>: has both nthreads and nprocs"),
        (
            "<profile><group nthreads=6k></group>\n<group nthreads=6k></group></profile>",
            ":2: tag <group>: with this one there are 12288 strands",
        ),
        (
            "<profile><group nthreads=1>\n<group nthreads=1></group></profile>",
            ":2: tag <group>: stands inside of another group, which has no </group>",
        ),
        ("<profile><group nthreads=$x></group></profile>", ":1: variable \"$x\": is not set"),
        ("<profile><group nthreads=1></group>x\n y</profile>", ":1: text \"x\\n y\": stands outside of tags"),
    ];
    for (text, expect) in cases {
        assert_eq!(messages(text).lines().next(), Some(*expect), "{text}");
        assert_eq!(read(text).unwrap_err().faults.len(), 1, "{text}");
    }
}

/// Each flowop, on line 3, with the first line of its only fault.
#[test]
fn errors_inside_are_reported_with_their_line() {
    let cases: &[(&str, &str)] = &[
        ("<flowop/>", "tag <flowop>: says no type"),
        ("<flowop type=\"foo\"/>", "flowop \"foo\": there is no such flowop"),
        ("<flowop type=\"nop\" size=\"5\"/>", "attribute \"size\": <flowop> has no such attribute"),
        ("<flowop type=\"nop\" type=\"nop\"/>", "attribute \"type\": stands twice in one tag"),
        ("<flowop type=\"write\"/>", "flowop \"write\": says no size"),
        ("<flowop type=\"sendfile\"/>", "flowop \"sendfile\": says no dir"),
        ("<flowop type=\"connect\" options=\"remotehost=$h\"/>", "flowop \"connect\": says no protocol"),
        ("<flowop type=\"accept\" options=\"protocol=tcp\"/>", "flowop \"accept\": says no remotehost"),
        ("<flowop type=\"read\" options=\"conn=2 size=1\"/>", "flowop \"read\": no connection conn=2 is open here"),
        ("<flowop type=\"nop\" options=\"a&amp;b\"/>", "\"&amp;\": references are refused: nothing is ever expanded"),
        ("<flowop type=\"nop\"/> &#65;", "\"&#65;\": references are refused: nothing is ever expanded"),
        ("<flowop type=\"nop\" / >", "\"/\": does not belong inside of <flowop"),
        ("<flowop type=\"nop\"", "tag <flowop: is not closed by `>`"),
        ("<flow type=\"nop\"/>", "tag \"flow\": there is no such tag"),
        ("<transaction>", "tag <transaction>: stands inside of another one, which has no </transaction>"),
    ];
    for (inside, expect) in cases {
        let text = within(inside);
        let expect = format!(":3: {expect}");
        assert_eq!(messages(&text).lines().next(), Some(expect.as_str()), "{inside}");
        assert_eq!(read(&text).unwrap_err().faults.len(), 1, "{inside}: {}", messages(&text));
    }
}

/// Each option, on line 3, with its fault and hint.
#[test]
fn errors_of_an_option_are_reported() {
    let cases: &[(&str, &str, &str)] = &[
        ("size=0", "must be above 0", ""),
        ("size=-1", "not a number", "for example 64"),
        ("size=1.1g", "too large", "at most 1g (1073741824)"),
        ("size=99999999999999999999", "too large", ""),
        ("size=8x", "its unit is not known", "for example 64"),
        ("size=rand(1,0)", "must be above 0", ""),
        ("size=rand(2,1)", "the first size is above the second", ""),
        ("size=rand(2", "not two sizes in brackets", "size=rand(4k,8k)"),
        ("size", "has no value", "write size=…"),
        ("size=", "has no value", "write size=…"),
        ("sise=1 size=1", "there is no such option", "did you mean `size`?"),
        ("canfial size=1", "there is no such option", "did you mean `canfail`?"),
        ("canfail=1 size=1", "takes no value", "write canfail alone"),
        ("size=1 count=10k", "not a whole number", "digits only"),
        ("size=1 count=2147483648", "too large", "at most 2147483647"),
        ("size=1 repeat=0", "must be above 0", ""),
        ("size=1 conn=0", "must be above 0", ""),
        ("size=1 port=65536", "not a port", "from 1 to 65535"),
        ("size=1 timeout=0", "no time at all", ""),
        ("size=1 timeout=5min", "minutes are no unit of uperf, which would take them for milliseconds", "in seconds"),
        ("size=1 timeout=86401", "too long", "at most 86400s"),
        ("size=1 timeout=x", "not a time", "for example 30"),
        ("size=1 rate=5", "there is no such option", "attribute of the transaction"),
        ("size=1 engine=pkcs11", "belongs to ssl, which holdup does not have", ""),
        ("size=1 sctp_unordered", "belongs to sctp, which holdup does not have", ""),
        ("size=1 protocol=sctp", "holdup has no sctp", "it has tcp, udp, unix"),
        ("size=1 protocol=tpc", "there is no such protocol", "did you mean `tcp`?"),
        ("size=$missing", "is not set", "missing=…"),
        ("size=$BIGGER", "is not set", "bigger=…; like uperf, holdup reads the names of variables in lower case"),
        ("size=$empty", "is empty", "empty=…"),
        ("size=$", "not the name of a variable", "a variable is the whole value"),
        ("size=rand(1,$big)", "a variable can only be the whole value", "name=$variable"),
        ("size=$bad", "not a number", ""),
    ];
    for (options, why, hint) in cases {
        let errors = read(&flowop(options)).expect_err(options);
        let [fault] = errors.faults.as_slice() else { panic!("{options}: {errors}") };
        assert_eq!((fault.line, fault.why.as_str()), (3, *why), "{options}");
        assert!(fault.hint.as_deref().unwrap_or_default().contains(hint), "{options}: {fault:?}");
    }
    assert_eq!(
        messages(&flowop("size=$bad")).lines().next(),
        Some(":3: flowop \"write\", option \"size=$bad (many)\": not a number"),
        "what the variable holds is shown"
    );
    let lines = within("<flowop type=\"write\" options=\"$lines\"/>");
    assert_eq!(messages(&lines).lines().next(), Some(":3: flowop \"write\", option \"size=x\": not a number"));
    let long = messages(&format!("<profile>\n<{} x", "é".repeat(1000)));
    assert!(long.lines().all(|line| line.chars().count() < 120), "{long}");
}

#[test]
fn all_faults_come_in_one_go() {
    let text = "<profile>\n<group nthreads=\"x\">\n<transaction iterations=\"y\" duration=\"z\" rate=\"w\">\n\
                <flowop type=\"foo\" options=\"size=q\n\n bar\"/>\n<flowop type=\"write\" options=\"size=1\"/>\n";
    insta::assert_snapshot!(read(text).unwrap_err());
    let problem = Problem::from(read(text).unwrap_err());
    assert!(problem.to_string().starts_with("p.xml: 8 errors\np.xml:2: nthreads \"x\": not a number\n"), "{problem}");
    let one = Problem::from(read(&flowop("size=0")).unwrap_err());
    assert_eq!(one.to_string(), "p.xml:3: flowop \"write\", option \"size=0\": must be above 0");
}

#[test]
fn of_many_faults_some_are_shown() {
    let errors = read(&flowop(&"x=1 ".repeat(100))).unwrap_err();
    assert_eq!((errors.faults.len(), errors.omitted), (MOST_FAULTS, 80));
    assert!(errors.to_string().ends_with("\nand 80 more"));
}

/// A megabyte of each is read within the time of a test.
#[test]
fn large_files_take_no_long() {
    let full = |start: &str, part: &str, end: &str| {
        let times = (MOST_FILE_BYTES - start.len() - end.len()) / part.len();
        read(&format!("{start}{}{end}", part.repeat(times)))
    };
    let omitted = |read: Result<Profile, ProfileErrors>| read.unwrap_err().omitted;
    let (before, after) = (within("\0").split_once('\0').map(|(a, b)| (a.to_owned(), b.to_owned()))).unwrap();
    assert_eq!(omitted(full("", "<a b/>", "")), 1000 - MOST_FAULTS);
    assert_eq!(omitted(full("<profile ", "a=1 ", ">")), 1000 - MOST_FAULTS);
    assert_eq!(omitted(full(&format!("{before}<flowop type=nop options=\""), "a=1 ", "\"/>")), 1000 - MOST_FAULTS);
    assert_eq!(omitted(full("", "&", "")), 0);
    let many = full(&format!("{before}<flowop type=nop options=\""), "busy ", &format!("\"/>{after}")).unwrap();
    assert_eq!(many.notes.len(), MOST_NOTES);
    let many = full(&before, "<flowop type=nop>", &after).unwrap();
    assert_eq!(Program::of(&many.mirrored().groups[0]).unwrap().phases[1].steps.len(), many.flowops().count() - 1);
}

#[test]
fn what_is_no_text_is_refused() {
    let why = |bytes: &[u8]| Profile::read("p.xml", bytes, &environment).unwrap_err().to_string();
    assert_eq!(why(b"<a>\n\xff"), "p.xml:2: this is no UTF-8\nhint: save it as UTF-8");
    assert_eq!(why(b"<\0p\0"), "p.xml:1: a zero byte: this is no text\nhint: save it as UTF-8");
    let long = vec![b' '; MOST_FILE_BYTES + 1];
    assert_eq!(why(&long), "p.xml: 1048577 bytes are too many for a profile\nhint: at most 1048576");
    assert_eq!(why(&long[1..]), "p.xml: there is no <profile> in it\nhint: a profile of uperf is wanted");
}

#[test]
fn too_much_is_refused() {
    let groups = "<group nthreads=1></group>".repeat(1025);
    assert_eq!(
        messages(&format!("<profile>\n{groups}</profile>")),
        ":2: tag <group>: too many groups\nhint: at most 1024"
    );
    let transactions = "<transaction/>".repeat(101);
    let text = format!("<profile><group nthreads=1>\n{transactions}</group></profile>");
    assert_eq!(messages(&text), ":2: tag <transaction>: too many transactions in its group\nhint: at most 100");
    let text = within("</transaction><transaction duration=1>");
    assert_eq!(messages(&text), ":3: tag <transaction>: has a duration and no flowop");
}

#[test]
fn datagrams_have_their_bounds() {
    let udp = |inside: &str| {
        within(&format!("<flowop type=\"connect\" options=\"conn=1 remotehost=$h protocol=udp\"/>{inside}"))
    };
    assert!(read(&udp("<flowop type=\"write\" options=\"conn=1 size=65507\"/>")).is_ok());
    assert_eq!(
        messages(&udp("<flowop type=\"read\" options=\"conn=1 size=64k\"/>")),
        ":3: flowop \"read\": 65536 bytes do not fit into a datagram\nhint: at most size=65507 with udp"
    );
    let files = messages(&udp("<flowop type=\"sendfile\" options=\"conn=1 dir=/\"/>"));
    assert!(files.starts_with(":3: flowop \"sendfile\": files are not sent over udp"), "{files}");
    assert!(read(&udp("<flowop type=\"write\" options=\"size=64k\"/>")).is_ok(), "the other one is of tcp");
}
