//! Programs whose stacks are known, whole, stripped and damaged.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests, without libtest")]

mod recording;

use holdup_model::stacks::{Frame, FrameKind};
use holdup_model::{MemoryBudget, StackProfile};
use holdup_stacks::{KernelSymbols, Mapping, Module, Registers, Sample, Symbolizer};
use holdup_testkit::ignore;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};
use proptest::prelude::*;
use recording::{ARM64, HERE, Platform, Recording, compile, record, sources, space};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// A compiled program, and what it wrote.
struct Compiled {
    folder: tempfile::TempDir,
    recording: Recording,
}

impl Compiled {
    fn new(options: &[&str]) -> Option<Self> {
        Self::on(&HERE, options)
    }

    fn on(platform: &Platform, options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("known");
        let options = [&["-O1", "-fno-omit-frame-pointer", "-Wl,--build-id"], options].concat();
        compile(platform, &sources().join("known.c"), &program, &options)?;
        Some(Compiled { recording: record(platform, &program)?, folder })
    }

    fn program(&self) -> std::path::PathBuf {
        self.folder.path().join("known")
    }
}

/// Each sample of the program as (functions with their kinds, whether its outermost function was reached).
fn stacks(known: &Compiled, file: impl FnMut(&str) -> Option<Vec<u8>>) -> Vec<(Vec<(String, FrameKind)>, bool)> {
    let each = |sample: &recording::StackSample, file: &mut dyn FnMut(&str) -> Option<Vec<u8>>| {
        let mut symbolizer = Symbolizer::new();
        let space = space(&known.recording.maps, &mut symbolizer, file);
        let task = symbolizer.task("known", None);
        let registers = Some(sample.registers);
        let is_complete = symbolizer.add_sample(&Sample {
            task,
            space: Some(space),
            registers,
            stack: &sample.stack,
            kernel: &[],
            weight: 7,
        });
        let profile = symbolizer.profile(&KernelSymbols::default(), "on_cpu", "samples", 1);
        assert_eq!(profile.stacks.len(), 1);
        assert_eq!((profile.stacks[0].weight, profile.truncated), (7, if is_complete { 0 } else { 7 }));
        (frames(&profile), is_complete)
    };
    let mut file = file;
    known.recording.samples.iter().map(|sample| each(sample, &mut file)).collect()
}

fn frames(profile: &StackProfile) -> Vec<(String, FrameKind)> {
    let frame = |index: &u32| {
        let frame = &profile.frames[*index as usize];
        (frame.function.clone(), frame.kind)
    };
    profile.stacks[0].frames.iter().map(frame).collect()
}

/// The functions from main on.
fn from_main(stack: &[(String, FrameKind)]) -> Vec<&str> {
    let main = stack.iter().position(|(name, _)| name == "main").unwrap_or(stack.len());
    stack[main..].iter().map(|(name, _)| name.as_str()).collect()
}

fn on_disk(path: &str) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

fn compiled<T>(known: Option<T>) -> T {
    known.unwrap_or_else(|| ignore("there is no C compiler"))
}

fn a_recursion_with_an_inlined_function_a_signal_and_an_aligned_stack_are_followed_exactly() {
    for options in [&["-g"][..], &["-g", "-fomit-frame-pointer"], &["-g", "-gz=zlib"], &["-g", "-no-pie"]] {
        let known = compiled(Compiled::new(options));
        let stacks = stacks(&known, on_disk);
        assert!(stacks.iter().all(|(_, is_complete)| *is_complete), "{options:?} {stacks:?}");
        let recursion = ["main", "recurse", "recurse", "recurse", "recurse", "put_inline", "innermost"];
        assert_eq!(from_main(&stacks[0].0), recursion, "{options:?}");
        let kinds: Vec<_> = stacks[0].0.iter().filter(|(_, kind)| *kind == FrameKind::Inlined).collect();
        assert_eq!(kinds, [&("put_inline".to_owned(), FrameKind::Inlined)]);
        assert_eq!(from_main(&stacks[1].0), ["main", "aligned", "recurse", "put_inline", "innermost"], "{options:?}");
        let signal = from_main(&stacks[2].0);
        assert_eq!((&signal[..2], signal[2].contains("kill")), (&["main", "interrupted"][..], true), "{signal:?}");
        assert_eq!(&signal[signal.len() - 2..], ["handler", "innermost"], "{options:?}");
    }
}

fn programs_for_arm64_are_followed_by_their_entries_also_where_return_addresses_are_signed() {
    for options in [&["-static", "-g"][..], &["-static", "-g", "-fomit-frame-pointer", "-mbranch-protection=standard"]]
    {
        let known = Compiled::on(&ARM64, options);
        let known = known.unwrap_or_else(|| ignore("there is no aarch64-linux-gnu-gcc, or no qemu-aarch64"));
        let with_return = |path: &str| if path == "/return-of-signals" { return_of_signals() } else { on_disk(path) };
        let stacks = stacks(&known, with_return);
        let recursion = ["main", "recurse", "recurse", "recurse", "recurse", "put_inline", "innermost"];
        assert_eq!((from_main(&stacks[0].0), stacks[0].1), (recursion.to_vec(), true), "{options:?}");
        let aligned = ["main", "aligned", "recurse", "put_inline", "innermost"];
        assert_eq!((from_main(&stacks[1].0), stacks[1].1), (aligned.to_vec(), true), "{options:?}");
        // This CPU has SVE, so that its state is in the frame too.
        let signal = from_main(&stacks[2].0);
        assert_eq!((&signal[..2], stacks[2].1), (&["main", "interrupted"][..], true), "{options:?} {signal:?}");
        assert_eq!(&signal[signal.len() - 3..], ["__kernel_rt_sigreturn", "handler", "innermost"], "{options:?}");
        // Nothing is guessed where that function is not known.
        let stacks = self::stacks(&known, on_disk);
        let signal: Vec<&str> = stacks[2].0.iter().rev().take(2).map(|(name, _)| name.as_str()).collect();
        assert_eq!((signal, stacks[2].1), (vec!["innermost", "handler"], false), "{options:?}");
    }
}

/// What the vDSO says of the function that a handler returns to, which has no unwind information (arch/arm64/kernel/vdso/sigreturn.S).
fn return_of_signals() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, library) = (folder.path().join("return.s"), folder.path().join("return.so"));
    let text = ".global __kernel_rt_sigreturn\n.set __kernel_rt_sigreturn, 0\n";
    std::fs::write(&source, text).expect("a file");
    compile(&ARM64, &source, &library, &["-shared", "-nostdlib"])?;
    std::fs::read(&library).ok()
}

fn a_segment_of_code_that_begins_inside_a_page_is_unwound_from_where_it_is_mapped() {
    // This linker puts the end of one segment and the begin of the next into one page of the file.
    if Command::new("ld.lld").arg("--version").output().is_err() {
        ignore("there is no ld.lld");
    }
    let known = compiled(Compiled::new(&["-g", "-fomit-frame-pointer", "-fuse-ld=lld"]));
    let stacks = stacks(&known, on_disk);
    assert!(stacks.iter().all(|(_, is_complete)| *is_complete), "{stacks:?}");
    let recursion = ["main", "recurse", "recurse", "recurse", "recurse", "put_inline", "innermost"];
    assert_eq!(from_main(&stacks[0].0), recursion);
}

fn a_stripped_program_keeps_what_the_dynamic_linker_needs_and_names_nothing_by_its_neighbour() {
    let known = compiled(Compiled::new(&["-rdynamic"]));
    let program = known.program();
    let whole = Module::parse("known", &std::fs::read(&program).expect("it is there")).expect("an ELF file");
    let (stripped, debug) = (known.folder.path().join("stripped"), known.folder.path().join("debug"));
    let run = |tool: &str, arguments: &[&Path]| {
        let status = Command::new(tool).args(arguments).status().expect("binutils come with a compiler");
        assert!(status.success());
    };
    run("objcopy", &[Path::new("--only-keep-debug"), &program, &debug]);
    run("strip", &[Path::new("-o"), &stripped, &program]);
    let read = |path: &str| on_disk(if path.ends_with("/known") { stripped.to_str()? } else { path });
    let stacks = stacks(&known, read);
    let recursion = from_main(&stacks[0].0);
    assert_eq!(&recursion[..5], ["main", "recurse", "recurse", "recurse", "recurse"]);
    assert!(recursion.len() == 6 && recursion[5].starts_with("[known+0x"), "{recursion:?}");
    assert!(stacks.iter().all(|(_, is_complete)| *is_complete), "{stacks:?}");
    // A debug file of the same build gives the name back; one of another build is refused.
    let mut module = Module::parse("known", &std::fs::read(&stripped).expect("made")).expect("an ELF file");
    assert_eq!(module.build_id(), whole.build_id());
    module.add_debug_file(&std::fs::read(&debug).expect("made")).expect("the same build");
    let other = compiled(Compiled::new(&["-DOTHER=1", "-O2"]));
    let why = module.add_debug_file(&std::fs::read(other.program()).expect("made")).expect_err("another build");
    assert!(why.starts_with("debug information of known: it belongs to build "), "{why}");
}

fn a_stack_that_is_cut_is_followed_to_its_end_and_counts_as_truncated() {
    let known = compiled(Compiled::new(&["-g"]));
    let mut symbolizer = Symbolizer::new();
    let space = space(&known.recording.maps, &mut symbolizer, on_disk);
    let task = symbolizer.task("known", Some("command"));
    let sample = &known.recording.samples[0];
    let whole = Sample {
        task,
        space: Some(space),
        registers: Some(sample.registers),
        stack: &sample.stack,
        kernel: &[],
        weight: 1,
    };
    let mut lengths = std::collections::BTreeSet::new();
    for cut in 0..sample.stack.len().min(2048) {
        symbolizer.add_sample(&Sample { stack: &sample.stack[..cut], ..whole });
    }
    let profile = symbolizer.profile(&KernelSymbols::default(), "on_cpu", "samples", 1);
    let mut cut_off = 0;
    for stack in &profile.stacks {
        let names: Vec<&str> = stack.frames.iter().map(|f| profile.frames[*f as usize].function.as_str()).collect();
        lengths.insert(names.len());
        assert_eq!(names.last(), Some(&"innermost"));
        if names[0] == "[unknown]" {
            cut_off += stack.weight;
        }
    }
    assert_eq!(cut_off, profile.truncated);
    assert!(lengths.len() > 4 && profile.truncated > 0, "{lengths:?}");
}

fn kernel_and_user_parts_are_one_stack() {
    let kernel = KernelSymbols::parse("ffffffff81000000 T entry\nffffffff81001000 T fault\nffffffff81002000 T end\n");
    let mut symbolizer = Symbolizer::new();
    let task = symbolizer.task("kworker/0:1", None);
    let addresses = [0xffff_ffff_8100_1010, 0xffff_ffff_8100_0020, 0x1234];
    let sample = Sample { task, space: None, registers: None, stack: &[], kernel: &addresses, weight: 2 };
    assert!(symbolizer.add_sample(&sample));
    assert!(symbolizer.add_sample(&Sample { weight: 3, ..sample }));
    let profile = symbolizer.profile(&kernel, "off_cpu", "ns", 0);
    let names: Vec<String> = frames(&profile).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["[unknown]", "entry", "fault"], "what lies outside of the kernel is none of its functions");
    assert_eq!((profile.stacks.len(), profile.stacks[0].weight, profile.truncated), (1, 5, 0));
    // Unknown mappings: the whole user part is one unknown function.
    let registers = Some(Registers { ip: 1, sp: 1, bp: 1, lr: None });
    assert!(!symbolizer.add_sample(&Sample { registers, ..sample }));
    assert_eq!(symbolizer.profile(&kernel, "on_cpu", "samples", 1).truncated, 2);
}

fn stacks_of_one_function_are_apart_by_what_they_waited_for() {
    let kernel = KernelSymbols::parse("ffffffff81000000 T entry\nffffffff81002000 T end\n");
    let mut symbolizer = Symbolizer::new();
    for (weight, event) in [(2, Some("Lock:transactionid")), (3, None), (4, Some("IO:WALSync"))] {
        let task = symbolizer.separate_task("postgres", Some("server"));
        let addresses = [0xffff_ffff_8100_0020];
        symbolizer.add_sample(&Sample { task, space: None, registers: None, stack: &[], kernel: &addresses, weight });
        if let Some(event) = event {
            symbolizer.set_root(task, Frame { function: event.to_owned(), module: None, kind: FrameKind::User });
        }
    }
    let profile = symbolizer.profile(&kernel, "off_cpu", "ns", 0);
    let name = |frame: &u32| profile.frames[*frame as usize].function.as_str();
    let stacks: Vec<(u64, Vec<&str>)> =
        profile.stacks.iter().map(|stack| (stack.weight, stack.frames.iter().map(name).collect())).collect();
    let expected = [(4, vec!["IO:WALSync", "entry"]), (3, vec!["entry"]), (2, vec!["Lock:transactionid", "entry"])];
    assert_eq!(stacks, expected);
}

/// The known program's file, or this test's own where there is no compiler.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let own = || std::fs::read(std::env::current_exe().expect("it runs")).expect("it is there");
    Compiled::new(&["-g"]).map_or_else(own, |known| std::fs::read(known.program()).expect("it is there"))
});

/// Uses every part of a module with a garbage stack.
fn exercise(file: &[u8], registers: Registers, stack: &[u8], offset: u64) {
    let mut symbolizer = Symbolizer::new();
    let Ok(module) = Module::parse("damaged", file) else { return };
    let module = symbolizer.add_module(module);
    let (start, end) = (0x40_0000, 0x40_0000 + file.len() as u64);
    let Some(space) = symbolizer.add_space(&[Mapping { start, end, offset, module }]) else { return };
    let task = symbolizer.task("damaged", None);
    for ip in [registers.ip, start, start + registers.ip % (end - start).max(1)] {
        let registers = Some(Registers { ip, ..registers });
        symbolizer.add_sample(&Sample { task, space: Some(space), registers, stack, kernel: &[ip], weight: 1 });
    }
    let profile = symbolizer.profile(&KernelSymbols::default(), "on_cpu", "samples", 1);
    let sum: u64 = profile.stacks.iter().map(|stack| stack.weight).sum();
    assert_eq!(sum, 3, "every sample is in the profile");
}

fn a_table_of_unwind_entries_that_names_too_late_a_beginning_is_left_out() {
    let elf = ElfFile64::<LittleEndian>::parse(FILE.as_slice()).expect("an ELF file");
    let range = |name| elf.section_by_name(name).and_then(|section| section.file_range()).expect("it has one");
    let ((table, _), (text, length)) = (range(".eh_frame_hdr"), range(".text"));
    let mut file = FILE.clone();
    // The beginning of .eh_frame, as a distance from here.
    file[table as usize + 4..][..4].copy_from_slice(&i32::MAX.to_le_bytes());
    for at in (text..text + length).step_by(8) {
        exercise(&file, Registers { ip: 0x40_0000 + at, sp: 0x7000_0000, bp: 0, lr: None }, &[0; 256], 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    fn a_damaged_file_gives_a_reason_or_other_stacks_but_no_panic(
        cut in 0.0..1.0_f64,
        flips in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 0..40),
        words in prop::collection::vec(any::<u64>(), 0..64),
        (ip, sp, bp, lr) in any::<(u64, u64, u64, Option<u64>)>(),
    ) {
        let mut file = FILE.clone();
        for (at, value) in flips {
            let at = (at * file.len() as f64) as usize;
            file[at] = value;
        }
        if cut < 0.5 {
            file.truncate((cut * 2.0 * file.len() as f64) as usize);
        }
        let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        exercise(&file, Registers { ip, sp, bp, lr }, &stack, 0);
    }

    fn garbage_on_the_stack_never_leads_out_of_known_code(
        words in prop::collection::vec((any::<bool>(), any::<u64>()), 0..128),
        at in 0.0..1.0_f64,
        sp in 0x7000_0000_0000_u64..0x7fff_0000_0000,
    ) {
        let inside = |word: u64| 0x40_0000 + word % FILE.len() as u64;
        let words = words.iter().map(|(is_code, word)| if *is_code { inside(*word) } else { sp + word % 1024 });
        let stack: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let ip = 0x40_0000 + (at * FILE.len() as f64) as u64;
        exercise(&FILE, Registers { ip, sp, bp: sp + 16, lr: None }, &stack, 0);
    }

    fn of_mappings_that_overlap_the_later_one_counts(
        ranges in prop::collection::vec((0_u64..64, 1_u64..16, any::<bool>()), 0..12),
    ) {
        let mut symbolizer = Symbolizer::new();
        let known = symbolizer.add_module(Module::parse("known", &FILE).expect("an ELF file"));
        let mappings: Vec<Mapping> = ranges.iter().enumerate().map(|(i, (start, length, is_known))| {
            // The offset shows which mapping it was, and where in it.
            Mapping { start: start << 12, end: (start + length) << 12, offset: (i as u64) << 32, module: known.filter(|_| *is_known) }
        }).collect();
        let space = symbolizer.add_space(&mappings).expect("there is room");
        let kept = symbolizer.mappings(space);
        for page in 0..80_u64 {
            let at = page << 12;
            let find = |list: &[Mapping]| list.iter().rev().find(|m| m.start <= at && at < m.end)
                .filter(|m| m.module.is_some()).map(|m| m.offset + (at - m.start));
            prop_assert_eq!(find(&mappings), find(kept));
        }
        prop_assert!(kept.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}

fn a_module_keeps_no_more_than_the_memory_that_there_is_for_all() {
    let whole = Module::parse("known", &FILE).expect("an ELF file");
    let budget = MemoryBudget::new(4096);
    let module = Module::parse_within("known", &FILE, &budget).expect("an ELF file");
    assert!(module.bytes() <= 4096 && whole.bytes() > 4096, "{} of {} bytes", module.bytes(), whole.bytes());
    let second = Module::parse_within("known", &FILE, &budget).expect("an ELF file");
    assert!(module.bytes() + second.bytes() <= 4096);
    let all = MemoryBudget::new(whole.bytes() * 20);
    assert_eq!(Module::parse_within("known", &FILE, &all).expect("an ELF file").bytes(), whole.bytes());
}

holdup_testkit::tests!(
    a_module_keeps_no_more_than_the_memory_that_there_is_for_all,
    a_recursion_with_an_inlined_function_a_signal_and_an_aligned_stack_are_followed_exactly,
    programs_for_arm64_are_followed_by_their_entries_also_where_return_addresses_are_signed,
    a_segment_of_code_that_begins_inside_a_page_is_unwound_from_where_it_is_mapped,
    a_stripped_program_keeps_what_the_dynamic_linker_needs_and_names_nothing_by_its_neighbour,
    a_stack_that_is_cut_is_followed_to_its_end_and_counts_as_truncated,
    kernel_and_user_parts_are_one_stack,
    stacks_of_one_function_are_apart_by_what_they_waited_for,
    a_damaged_file_gives_a_reason_or_other_stacks_but_no_panic,
    a_table_of_unwind_entries_that_names_too_late_a_beginning_is_left_out,
    garbage_on_the_stack_never_leads_out_of_known_code,
    of_mappings_that_overlap_the_later_one_counts
);
holdup_testkit::main!();
