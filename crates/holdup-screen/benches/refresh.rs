//! The CPU time of one refresh of the screen: a window goes into memory, the last ones are explained and compared with those before
//! them, every list is made, and a frame is drawn.
//!
//!     cargo bench -p holdup-screen --bench refresh
//!
//! The windows are made up, in the shape and size of those of a PostgreSQL server under pgbench with root's collectors. With a bundle that
//! `r` wrote (`-- watch-1.holdup`) they are its own.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints what it measured")]

#[path = "../tests/windows/mod.rs"]
mod windows;

use holdup_live::Memory;
use holdup_model::{BundleData, Trial};
use holdup_screen::{KeyCode, State, draw};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::time::{ClockId, clock_gettime};

/// Windows before the first refresh that counts: those that a sentence is of, and that it is compared with.
const BEFORE: usize = 130;
const REFRESHES: usize = 20;
const SIZES: [(u16, u16); 2] = [(80, 24), (200, 60)];

fn cpu_ms() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

/// Times of its parts, ms of CPU time: memory and what it says; the sentence and what changed; each list drawn, the slowest.
fn refresh(memory: &mut Memory, state: &mut State, trial: Trial, (width, height): (u16, u16)) -> [f64; 3] {
    let area = Rect::new(0, 0, width, height);
    let begun = cpu_ms();
    drop(memory.push(trial));
    let pushed = cpu_ms();
    state.window(memory);
    let explained = cpu_ms();
    let frames = ('1'..='9').map(|list| {
        state.key(KeyCode::Char(list));
        let begun = cpu_ms();
        draw(state, area, &mut Buffer::empty(area));
        cpu_ms() - begun
    });
    [pushed - begun, explained - pushed, frames.fold(0.0, f64::max)]
}

fn row(what: &str, watch: &BundleData, trials: &[Trial], size: (u16, u16)) {
    let mut memory = Memory::new(64 << 20);
    memory.begin(watch.clone());
    let mut state = State::new(true);
    state.begin("the PostgreSQL server with postmaster 42", Vec::new());
    let mut times: Vec<[f64; 3]> = Vec::new();
    for at in 0..BEFORE {
        drop(memory.push(windows::at(&trials[at % trials.len()], at)));
    }
    for at in BEFORE..BEFORE + REFRESHES {
        times.push(refresh(&mut memory, &mut state, windows::at(&trials[at % trials.len()], at), size));
    }
    let median = |of: &dyn Fn(&[f64; 3]) -> f64| {
        let mut sorted: Vec<f64> = times.iter().map(of).collect();
        sorted.sort_by(f64::total_cmp);
        (sorted[sorted.len() / 2], sorted[sorted.len() - 1])
    };
    let (all, most) = median(&|t| t.iter().sum());
    let [pushed, explained, drawn] = [0, 1, 2].map(|part| median(&|t| t[part]).0);
    let bytes = memory.bytes() / memory.windows().len();
    println!(
        "| {what} | {} by {} | {all:.1} | {most:.1} | {pushed:.1} | {explained:.1} | {drawn:.1} | {} |",
        size.0,
        size.1,
        bytes / 1024
    );
}

fn main() {
    println!(
        "| windows | screen | median, ms of CPU time | most | into memory | sentence | slowest list | KiB of a window |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    let given = std::env::args().skip(1).find(|arg| arg.ends_with(".holdup"));
    for size in SIZES {
        if let Some(path) = &given {
            let data = holdup_bundle::read(path.as_ref()).unwrap();
            let watch = BundleData { trials: Vec::new(), ..data.clone() };
            row(path, &watch, &data.trials, size);
            continue;
        }
        for tasks in [100, 10_000] {
            let trials: Vec<Trial> = (0..16).map(|n| windows::large(n, tasks)).collect();
            row(&format!("{tasks} tasks"), &windows::watch(), &trials, size);
        }
    }
}
