//! The pages of docs/scenarios: each is read, its scenarios run, and their timelines are compared.
//!
//! A page has fenced blocks: ```` ```toml machine ```` says on what machine the scenarios after it run,
//! ```` ```text programs ```` is a scenario, and ```` ```text timeline ```` is its timeline. With
//! `HOLDUP_UPDATE_SCENARIOS=1` the timelines of all pages are written anew.

use holdup_scenarios::{self as scenario, Scenario};
use holdup_sim::machine::Machine;
use holdup_sim::world::{Failure, World};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What rewrites the pages.
const UPDATE: &str = "HOLDUP_UPDATE_SCENARIOS";

/// A fenced block: its info string, its text, and where that is in the page.
struct Block {
    info: String,
    text: String,
    place: Range<usize>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (event, place) in Parser::new(page).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                // Its text begins with the line after the fence, where there is any.
                let begin = page[place.clone()].find('\n').map_or(place.end, |at| place.start + at + 1);
                open = Some(Block { info: info.to_string(), text: String::new(), place: begin..begin });
            }
            Event::Text(text) => {
                if let Some(block) = &mut open {
                    block.place.end = place.end;
                    block.text.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

fn line_of(page: &str, at: usize) -> u32 {
    page[..at].matches('\n').count() as u32 + 1
}

/// The page with the timelines that its scenarios have.
fn rendered(name: &str, page: &str) -> Result<String, String> {
    let mut machine: Option<Machine> = None;
    let mut timeline: Option<String> = None;
    let (mut out, mut copied, mut compared) = (String::new(), 0, 0);
    for block in blocks(page) {
        let line = line_of(page, block.place.start);
        match block.info.as_str() {
            "toml machine" => {
                let read = scenario::machine(&format!("of {name} at line {line}"), &block.text);
                machine = Some(read.map_err(|p| p.to_string())?);
            }
            "text programs" => {
                let machine = machine.as_ref().ok_or(format!("{name}, line {line}: there is no machine before it"))?;
                let scenario = Scenario::parse(name, &block.text, line).map_err(|p| p.to_string())?;
                timeline = Some(scenario.timeline(machine).map_err(|p| format!("{name}, line {line}: {p}"))?);
            }
            "text timeline" => {
                let text = timeline.take().ok_or(format!("{name}, line {line}: there are no programs before it"))?;
                out.push_str(&page[copied..block.place.start]);
                out.push_str(&text);
                (copied, compared) = (block.place.end, compared + 1);
            }
            _ => {}
        }
    }
    if timeline.is_some() || compared == 0 {
        return Err(format!("{name}: a scenario has no timeline; write a block `text timeline` with any line in it"));
    }
    out.push_str(&page[copied..]);
    Ok(out)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios")
}

/// The pages with their texts; README.md is the list of them.
fn pages() -> Vec<(String, PathBuf, String)> {
    let mut pages: Vec<_> = fs::read_dir(folder())
        .expect("docs/scenarios is there")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "md") && !path.ends_with("README.md"))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, path.clone(), fs::read_to_string(path).expect("it can be read"))
        })
        .collect();
    pages.sort();
    pages
}

#[test]
fn pages_show_what_happens() {
    let mut wrong = String::new();
    for (name, path, page) in pages() {
        match rendered(&name, &page) {
            Err(why) => wrong.push_str(&format!("{why}\n")),
            Ok(text) if text == page => {}
            Ok(text) if std::env::var_os(UPDATE).is_some() => fs::write(path, text).expect("it can be written"),
            Ok(text) => {
                let differ = page.lines().zip(text.lines()).position(|(a, b)| a != b).unwrap_or(0);
                let (page, text) = (page.lines().nth(differ), text.lines().nth(differ));
                wrong.push_str(&format!("{name}, line {}:\n  page  {page:?}\n  comes {text:?}\n", differ + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}If this is right, run the test with {UPDATE}=1 and read the difference.");
}

#[test]
fn the_list_names_every_page() {
    let list = fs::read_to_string(folder().join("README.md")).expect("there is a list");
    let pages = pages();
    assert!(pages.len() >= 7, "{} pages", pages.len());
    for (name, ..) in pages {
        assert!(list.contains(&format!("]({name})")), "docs/scenarios/README.md does not name {name}");
    }
}

/// What is wrong with these, by place and reason.
#[test]
fn mistakes_are_reported_with_line_and_column() {
    let program = "program p {\n";
    let cases = [
        String::new(),
        "lock a: tas\nlock a: tas".to_owned(),
        "lock a tas".to_owned(),
        "lock a: mutex".to_owned(),
        "lock 1: tas".to_owned(),
        "jump away".to_owned(),
        format!("{program}  compute 5us"),
        format!("{program}  lock a\n}}\ntask p"),
        format!("{program}  compute 5\n}}\ntask p"),
        format!("{program}  compute 5us to 1us\n}}\ntask p"),
        format!("{program}  compute 5us 7\n}}\ntask p"),
        format!("{program}  compute\n}}\ntask p"),
        format!("{program}  think 5us\n}}\ntask p"),
        format!("{program}  jump away\n}}\ntask p"),
        format!("{program}  label a\n  repeat 2 {{\n    jump a\n  }}\n}}\ntask p"),
        format!("{program}  repeat 0 {{\n  }}\n}}\ntask p"),
        format!("{program}program q {{\n}}\n}}\ntask p"),
        format!("{program}  send there\n}}\ntask p"),
        format!("{program}  jump p with chance 101%\n}}\ntask p"),
        format!("{program}}}\ntask q"),
        format!("{program}}}\ntask p, nice 20"),
        format!("{program}}}\ntask p, friendly"),
        format!("{program}}}\n0 tasks p"),
        format!("{program}}}\n9999999999 tasks p"),
        format!("{program}}}\ntask p\nrun 0ms"),
        format!("{program}}}\ntask p\nrun 3601s"),
    ];
    let texts: Vec<String> = cases
        .iter()
        .map(|text| match Scenario::parse("page", text, 10) {
            Err(problem) => format!("{text}\n=> {problem}"),
            Ok(_) => panic!("{text:?} is read"),
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n\n"));
}

#[test]
fn a_machine_is_laid_over_another_one() {
    let wrong = |text: &str| scenario::machine("page", text).expect_err(text).to_string();
    let base = "base = \"server-8\"\n";
    let machine = scenario::machine("page", &format!("{base}[topology]\ncores = 3\n[kernel]\npreempt = \"none\"\n"));
    let machine = machine.expect("it is one");
    assert_eq!((machine.topology.cpus(), machine.kernel.preempt.id), (6, "none"));
    insta::assert_snapshot!(
        [
            wrong("base = \"server-9\""),
            wrong("base = 8"),
            wrong("base = "),
            wrong("[topology]\ncores = 2"),
            wrong(&format!("{base}cpus = 5")),
            wrong(&format!("{base}[topology]\ncores = 0")),
            wrong(&format!("{base}[topology]\ncores = 1000000")),
            wrong(&format!("{base}[topology]\nsmt = 4096\nnodes = 4096")),
            wrong(&format!("{base}\n[kernel]\nversion = \"7.1\"\npreempt = \"none\"")),
            wrong(&format!("{base}topology = 5")),
            wrong(&format!("{base}[factors]\nrseq-slice-length = 1")),
            wrong(&format!("{base}[factors]\ncpu-governor = \"performance\"")),
            wrong(&format!("{base}factors = 5")),
        ]
        .join("\n\n")
    );
}

/// Programs that cannot continue, or cannot begin, with the error of each.
#[test]
fn bad_programs_are_reported_with_the_reason() {
    let machine = scenario::machine("m", "base = \"server-8\"\n[topology]\nsmt = 1\ncores = 2\n").expect("a machine");
    let two = "lock a: ALG\nlock b: ALG\n\
               program p {\n  lock a\n  compute 100us\n  lock b\n  unlock b\n  unlock a\n}\n\
               program q {\n  lock b\n  compute 100us\n  lock a\n  unlock a\n  unlock b\n}\n\
               task p\ntask q\n";
    let one = "lock a: ALG\nprogram p {\n  lock a\n  lock a\n  unlock a\n  unlock a\n}\ntask p\n";
    // A task that can run.
    let other = "program other {\n  forever {\n    sleep 1ms\n  }\n}\ntask other";
    for algorithm in holdup_sim::locks::ids() {
        let run = |text: &str| {
            let text = text.replace("ALG", algorithm) + other;
            let scenario = Scenario::parse("page", &text, 1).expect("it can be read");
            scenario.timeline(&machine).expect("it can begin")
        };
        let (two, one) = (run(two), run(one));
        assert!(two.contains("p waits for b, which q holds; q waits for a, which p holds"), "{algorithm}: {two}");
        assert!(one.contains("p waits for a, which it holds itself"), "{algorithm}: {one}");
    }
    let of = |text: &str| text.to_owned();
    let cases = [
        two.replace("ALG", "tas"),
        one.replace("ALG", "futex-mutex") + other,
        // A task that ended with a lock.
        of(
            "lock a: futex-mutex\nprogram p {\n  lock a\n}\nprogram q {\n  sleep 1ms\n  lock a\n  unlock a\n}\ntask p\ntask q",
        ),
        // All tasks wait for a message, or for room.
        of("channel c: 1 messages\nprogram p {\n  receive c\n}\n2 tasks p"),
        of("channel c: 1 messages\nprogram p {\n  send c\n  send c\n}\ntask p"),
        // A lock whose holder waits for a task that waits for the lock.
        of("lock a: tas\nchannel c: 1 messages\nprogram p {\n  lock a\n  receive c\n  unlock a\n}\n\
            program q {\n  sleep 100us\n  lock a\n  unlock a\n  send c\n}\ntask p\ntask q"),
        // A parent that waits for a child that waits.
        of("channel c: 1 messages\nprogram child {\n  receive c\n}\nprogram p {\n  fork child\n  join\n}\ntask p"),
        // A real-time task that spins for what a task behind it holds.
        of(
            "lock a: tas\nprogram p {\n  lock a\n  compute 10ms\n  unlock a\n}\ntask p, on cpu 0\ntask p, on cpu 0, fifo 5, at 2ms\nrun 50ms",
        ),
        // Nothing takes time.
        of("program p {\n  forever {\n  }\n}\ntask p"),
        of("program p {\n  label a\n  jump a\n}\ntask p"),
        of("program p {\n  repeat 4000000000 {\n  }\n}\ntask p"),
        of("program p {\n  forever {\n    compute 0ns\n  }\n}\ntask p"),
        of("program p {\n  label a\n  jump a with chance 50%\n  jump a\n}\ntask p"),
        // Locks that are not held, or kept.
        of("lock a: tas\nprogram p {\n  compute 1us\n  unlock a\n}\ntask p"),
        of("lock a: tas\nprogram p {\n  jump out with chance 50%\n  lock a\n  label out\n  unlock a\n}\ntask p"),
        of("lock a: lwlock\nprogram p {\n  forever {\n    lock a shared\n  }\n}\ntask p"),
        // What is not there.
        of("program p {\n}\ntask p, on cpu 2"),
        of("channel c: 1 messages\nprogram p {\n  receive mine\n}\ntask p"),
        of("channel c: 1 messages\nprogram p {\n  send sender\n}\ntask p"),
        // A bomb: bounded.
        of("program p {\n  forever {\n    fork p\n  }\n}\ntask p\nrun 20ms"),
        // Long, and nothing is wrong.
        of("program p {\n  forever {\n    sleep 3600s\n  }\n}\n10000 tasks p\nrun 3600s"),
    ];
    let texts: Vec<String> = cases
        .iter()
        .map(|text| {
            let scenario = Scenario::parse("page", text, 1).unwrap_or_else(|problem| panic!("{text}: {problem}"));
            let shown = scenario.timeline(&machine).unwrap_or_else(|problem| format!("refused\n\n{problem}"));
            let last = shown.rsplit("\n\n").next().unwrap_or_default();
            let is_reported = last.starts_with("deadlock") || last.contains("hint") || shown.starts_with("refused");
            format!("{text}\n=> {}", if is_reported { last.trim() } else { "it keeps running" })
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n\n"));
}

#[test]
fn a_time_beyond_the_clock_is_refused_before_it_comes() {
    let machine = scenario::machine("m", "base = \"server-8\"\n").expect("a machine");
    let scenario = Scenario::parse("page", "program p {\n  compute 1s\n}\ntask p", 1).expect("it can be read");
    for asked_ns in [u64::MAX, 1 << 63, (1 << 50) + 1] {
        let mut world = World::new(&machine, &scenario.load, 1);
        world.advance(1_000_000).expect("there is time for that");
        let failure = world.advance(asked_ns).expect_err("there is none for that");
        assert_eq!(failure, Failure::Clock { asked_ns, last_ns: 1 << 50 });
        assert_eq!(world.now_ns(), 1_000_000);
        let text = world.problem(&failure, &scenario.names).to_string();
        assert!(text.contains("the clock of this machine ends at 1125899 s"), "{text}");
    }
}
