//! The language of postgresql.conf. What is expected here was held against a server in `holdup-postgres`.
use holdup_host::guc;
use holdup_survey::postgres::conf::{ConfLine, Configuration, Entry, Files, Unread, lines};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Files in memory; an empty text stands for one that may not be read.
struct Tree(BTreeMap<String, Vec<u8>>);

impl Tree {
    fn of(files: &[(&str, &str)]) -> Self {
        Tree(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect())
    }
}

impl Files for Tree {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        match self.0.get(path) {
            Some(text) if text.is_empty() => {
                Err(Unread { is_gone: false, why: format!("cannot read {path}: permission denied") })
            }
            Some(text) => Ok(text.clone()),
            None => Err(Unread { is_gone: true, why: format!("cannot read {path}: no such file or directory") }),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        let below = format!("{path}/");
        let names: Vec<String> = self.0.keys().filter_map(|name| Some(name.strip_prefix(&below)?.to_owned())).collect();
        if names.is_empty() { Err(Unread { is_gone: true, why: format!("cannot list {path}") }) } else { Ok(names) }
    }
}

const MAIN: &str = "/data/postgresql.conf";

fn read(files: &[(&str, &str)]) -> Configuration {
    Configuration::read(&Tree::of(files), MAIN)
}

fn lines_are_read_as_the_scanner_reads_them() {
    let check = |text: &str, expect: Result<Option<(&str, &str)>, &str>| {
        let found = lines(text.as_bytes());
        let found = found.first().map(|line| match line {
            ConfLine::Set { name, value, .. } => Ok((name.as_str(), value.as_str())),
            ConfLine::Wrong { near, .. } => Err(near.as_str()),
        });
        assert_eq!(found.transpose(), expect, "{text:?}");
    };
    check("shared_buffers 1GB", Ok(Some(("shared_buffers", "1GB"))));
    check("Shared_Buffers=1GB# comment", Ok(Some(("shared_buffers", "1GB"))));
    check("shared_buffers = '1 GB' # comment", Ok(Some(("shared_buffers", "1 GB"))));
    check("a = 'quoted ''x'' # not a comment'", Ok(Some(("a", "quoted 'x' # not a comment"))));
    check("a = 'it\\'s \\101\\n'", Ok(Some(("a", "it's A\n"))));
    check("a = '\\000x'", Ok(Some(("a", ""))));
    check("a'b'", Ok(Some(("a", "b"))));
    check("my.setting = on\r", Ok(Some(("my.setting", "on"))));
    check("a = ''", Ok(Some(("a", ""))));
    check("a = -1", Ok(Some(("a", "-1"))));
    check("a = 0x1FkB", Ok(Some(("a", "0x1FkB"))));
    check("a = 1.5e-3", Ok(Some(("a", "1.5e-3"))));
    check("a = C.UTF-8", Ok(Some(("a", "C.UTF-8"))));
    check("é = 1", Ok(Some(("é", "1"))));
    check("  # a = 1", Ok(None));
    check("", Ok(None));
    check("a = 'open", Err("'"));
    check("a = 1.5GB", Err("GB"));
    check("a = b.c", Err("b.c"));
    check("a.b.c = 1", Err("a.b.c"));
    check("a b c", Err("c"));
    check("a =", Err("end of line"));
    check("= 1", Err("="));
    check("1 = a", Err("1"));
    check("a = \"b\"", Err("\""));
    assert_eq!(lines(b"\xff\xfe = '\xff'\n").len(), 1);
    assert_eq!(lines("x y z\n".repeat(500).as_bytes()).len(), 100);
}

fn the_last_one_wins_wherever_it_is_included() {
    let check = |files: &[(&str, &str)], expect: Result<Option<&str>, &str>| {
        let read = read(files);
        let found = read.last("a").map(|found| found.map(|setting| setting.value.as_str()));
        match (found, expect) {
            (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
            (found, expect) => assert_eq!(found, expect, "{files:?}"),
        }
    };
    check(&[(MAIN, "a = 1\nA = 2\n")], Ok(Some("2")));
    check(&[(MAIN, "a = 1\ninclude 'b.conf'\n"), ("/data/b.conf", "a = 2")], Ok(Some("2")));
    check(&[(MAIN, "include 'b.conf'\na = 1\n"), ("/data/b.conf", "a = 2")], Ok(Some("1")));
    check(
        &[(MAIN, "include '../x/b.conf'"), ("/x/b.conf", "include_if_exists 'c.conf'"), ("/x/c.conf", "a = 3")],
        Ok(Some("3")),
    );
    check(&[(MAIN, "a = 1\ninclude_if_exists 'b.conf'\n")], Ok(Some("1")));
    check(
        &[
            (MAIN, "include_dir = 'd'\n"),
            ("/data/d/2.conf", "a = 2"),
            ("/data/d/10.conf", "a = 10"),
            ("/data/d/.9.conf", "a = 9"),
            ("/data/d/9.cnf", "a = 9"),
            ("/data/d/.conf", "a = 9"),
        ],
        Ok(Some("2")),
    );
    check(&[(MAIN, "")], Err("permission denied"));
    check(&[], Err("no such file"));
    check(
        &[(MAIN, "a = 1\ninclude 'b.conf'\n"), ("/data/b.conf", "")],
        Err("/data/b.conf: permission denied (from /data/postgresql.conf:2)"),
    );
    check(&[(MAIN, "a = 1\ninclude_if_exists 'b.conf'\n"), ("/data/b.conf", "")], Err("permission denied"));
    check(&[(MAIN, "a = 1\ninclude 'b.conf'\n")], Err("no such file"));
    check(&[(MAIN, "a = 1\ninclude_dir 'd'\n")], Err("cannot list /data/d"));
    // What cannot be read does not matter when the setting comes after it.
    check(&[(MAIN, "include 'b.conf'\na = 1\n"), ("/data/b.conf", "")], Ok(Some("1")));
    check(&[(MAIN, "b = 1\n")], Ok(None));
}

fn loops_end_and_are_reported() {
    let itself = read(&[(MAIN, "include 'postgresql.conf'\na = 1")]);
    assert_eq!(itself.errors, ["/data/postgresql.conf includes itself (from /data/postgresql.conf:1)"]);
    assert_eq!(itself.entries.len(), 1);
    let pair = read(&[(MAIN, "include 'b.conf'"), ("/data/b.conf", "include 'postgresql.conf'\na = 1")]);
    assert_eq!(pair.errors.len(), 1, "{:?}", pair.errors);
    assert!(pair.errors[0].contains("more than 10 files deep"), "{:?}", pair.errors);
    let all = "include_dir '.'\n".repeat(5);
    let wide = read(&[(MAIN, &all), ("/data/b.conf", &all), ("/data/c.conf", &all), ("/data/d.conf", &all)]);
    let gaps =
        wide.entries.iter().filter(|entry| matches!(entry, Entry::Gap(why) if why.contains("1000 files"))).count();
    assert_eq!(gaps, 1);
    assert_eq!(read(&[(MAIN, "include ''")]).errors.len(), 1);
}

fn errors_are_reported_with_their_line_and_the_rest_is_read() {
    let read = read(&[(MAIN, "a = 1\nb = 'open\nc = 3\n")]);
    assert_eq!(read.errors, ["/data/postgresql.conf:2 has a syntax error near `'`"]);
    assert_eq!(read.last("c").unwrap().unwrap().line, 3);
}

proptest! {
    fn no_bytes_make_it_panic(
        main in proptest::collection::vec(any::<u8>(), 0..400),
        second in "(include|include_dir|include_if_exists|a|[ -~])( = | |)'?[./bd-]{0,8}'?\n?",
    ) {
        let mut tree = Tree::of(&[("/data/b", &second), ("/data/d/x.conf", &second)]);
        let mut text = second.clone().into_bytes();
        text.extend(&main);
        tree.0.insert(MAIN.to_owned(), text);
        let read = Configuration::read(&tree, MAIN);
        for entry in &read.entries {
            if let Entry::Set(setting) = entry {
                prop_assert!(setting.line > 0 && !setting.name.is_empty());
            }
        }
    }

    fn a_quoted_value_comes_back(value in "[^\\\\'\n\0\u{80}-\u{10ffff}]{0,40}", name in "[a-z_][a-z0-9_]{0,10}") {
        let all = lines(format!("{name} = '{value}' # x\n").as_bytes());
        prop_assert_eq!(all, [ConfLine::Set { name, value, line: 1 }]);
    }

    fn numbers_never_panic_and_a_bare_one_is_itself(text in "\\PC{0,12}", number in any::<i32>()) {
        for base in [None, Some(guc::BLOCKS)] {
            let _any = (guc::integer(&text, base), guc::real(&text, base), guc::quantity(&text), guc::boolean(&text));
            prop_assert_eq!(guc::integer(&number.to_string(), base), Ok(number));
        }
    }
}

holdup_testkit::tests!(
    lines_are_read_as_the_scanner_reads_them,
    the_last_one_wins_wherever_it_is_included,
    loops_end_and_are_reported,
    errors_are_reported_with_their_line_and_the_rest_is_read,
    no_bytes_make_it_panic,
    a_quoted_value_comes_back,
    numbers_never_panic_and_a_bare_one_is_itself
);
