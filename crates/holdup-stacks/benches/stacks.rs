//! How long samples take to be unwound and named: `cargo bench -p holdup-stacks --bench stacks`. The aim is 1 million
//! samples in 10 s, which is 10 µs each.
#![allow(clippy::print_stderr, reason = "a bench that cannot run here says why")]

#[path = "../tests/recording/mod.rs"]
mod recording;

use divan::counter::ItemsCount;
use holdup_stacks::{KernelSymbols, Sample, SpaceId, Symbolizer};
use recording::{HERE, Recording, compile, record, space};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

fn main() {
    if RECORDED.is_none() {
        eprintln!("ignored, because there is no C compiler");
        return;
    }
    divan::main();
}

/// Functions of the program that is recorded: as many as a transaction of PostgreSQL passes.
const FUNCTIONS: usize = 600;
/// How deep its stacks go at most; those of PostgreSQL under pgbench have 15 to 25 frames.
const DEEPEST: usize = 30;

/// What a program wrote, and the files that it had mapped, by path.
type Recorded = (Recording, BTreeMap<String, Vec<u8>>);

/// A program of many functions that call each other, with frames of several sizes, and the samples that it wrote.
static RECORDED: LazyLock<Option<Recorded>> = LazyLock::new(|| {
    let mut source = "#include \"program.h\"\n#include <alloca.h>\nstatic unsigned seed = 1; static int samples;\n\
                      static unsigned next(void) { seed = seed * 1103515245u + 12345u; return seed >> 8; }\n"
        .to_owned();
    for i in 0..FUNCTIONS {
        let _ = writeln!(source, "void f{i}(int);");
    }
    for i in 0..FUNCTIONS {
        // Each stops here or continues by one of three places, so that return addresses differ too.
        let callee = |turn: usize| (i * 7919 + turn * 104_729 + 13) % FUNCTIONS;
        let size = 16 + (i % 9) * 24;
        let _ = writeln!(
            source,
            "__attribute__((noinline)) void f{i}(int left) {{ volatile char room[{size}]; room[0] = left;\n\
             if (left == 0 || next() % 12 == 0) {{ SAMPLE(); samples++; return; }}\n\
             switch (next() % 3) {{ case 0: f{}(left - 1); break; case 1: f{}(left - 1); break;\n\
             default: f{}(left - 1); }} room[1] = left; }}",
            callee(0),
            callee(1),
            callee(2)
        );
    }
    let _ = writeln!(
        source,
        "int main(void) {{ find_stack(); while (samples < 20000) {{ next(); f{}({DEEPEST}); }} end(); }}",
        FUNCTIONS / 2
    );
    let folder = tempfile::tempdir().expect("a folder");
    let (text, program) = (folder.path().join("many.c"), folder.path().join("many"));
    std::fs::write(&text, source).expect("there is room");
    compile(&HERE, &text, &program, &["-O1", "-fomit-frame-pointer", "-g"])?;
    let recording = record(&HERE, &program)?;
    let paths = recording.maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let files = paths.filter_map(|path| Some((path.to_owned(), std::fs::read(path).ok()?))).collect();
    Some((recording, files))
});

/// A symbolizer that knows the recorded program.
fn ready() -> (Symbolizer, SpaceId, &'static Recording) {
    let (recording, files) = RECORDED.as_ref().expect("main has looked");
    let mut symbolizer = Symbolizer::new();
    let space = space(&recording.maps, &mut symbolizer, |path| files.get(path).cloned());
    (symbolizer, space, recording)
}

fn add_all(symbolizer: &mut Symbolizer, space: SpaceId, recording: &Recording) -> usize {
    let task = symbolizer.task("many", None);
    let whole = recording.samples.iter().filter(|seen| {
        let registers = Some(seen.registers);
        symbolizer.add_sample(&Sample {
            task,
            space: Some(space),
            registers,
            stack: &seen.stack,
            kernel: &[],
            weight: 1,
        })
    });
    whole.count()
}

/// 20,000 samples, all of them followed to their outermost function.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn unwind(bencher: divan::Bencher<'_, '_>) {
    let (mut symbolizer, space, recording) = ready();
    assert_eq!(add_all(&mut symbolizer, space, recording), recording.samples.len());
    bencher
        .counter(ItemsCount::new(recording.samples.len()))
        .bench_local(|| add_all(&mut symbolizer, space, divan::black_box(recording)));
}

/// The same with nothing known before, and with names in the end: what a window of 20,000 samples costs in all.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn unwind_and_name(bencher: divan::Bencher<'_, '_>) {
    let items = ItemsCount::new(ready().2.samples.len());
    bencher.counter(items).with_inputs(ready).bench_local_values(|(mut symbolizer, space, recording)| {
        add_all(&mut symbolizer, space, recording);
        symbolizer.profile(&KernelSymbols::default(), "on_cpu", "samples", 1)
    });
}

/// The parts of it that do not depend on the number of samples: reading a library, and the kernel's symbols.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn read_libc(bencher: divan::Bencher<'_, '_>) {
    let (_, files) = RECORDED.as_ref().expect("main has looked");
    let libc = files.iter().find(|(path, _)| path.contains("libc")).map(|(_, file)| file).expect("it is mapped");
    bencher.bench_local(|| holdup_stacks::Module::parse("libc.so.6", divan::black_box(libc)));
}
