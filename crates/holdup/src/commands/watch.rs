//! `holdup watch`: a live screen of what delays a system.

use crate::cli::{Watched, bytes, check_window, duration};
use crate::design::{Sampling, Staying, collectors};
use crate::{bundles, output, signals};
use holdup_host::{Host, heap};
use holdup_live::{Memory, lists};
use holdup_load::Cancel;
use holdup_model::{Availability, BundleData, Problem};
use holdup_screen::{Act, Input, State, Terminal};
use holdup_watch::{Live, LiveRequest, default_collectors, live};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

/// Windows before `--once` prints its screen: what an interval needs, and one to compare with.
const ONCE: usize = 5;
/// The screen of `--once`.
const COLUMNS: u16 = 80;
const LINES: u16 = 24;

/// Watch a live system on a screen
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "holdup watch [OPTIONS] <--pid <PID,…> | --comm <NAME> | --cgroup <PATH> | --pg <SERVER>>",
    after_long_help = "\
Starts nothing and changes nothing. A server that restarts is watched again.
Without root some collectors are missing; the screen names them. `?` has the
keys; `r` writes a bundle of what is in memory, for holdup explain.

Examples:
  holdup watch --pg auto
  holdup watch --comm nginx --json-lines | jq -r .answer

Exit codes:
  0  ended by the user
  2  wrong command line
  3  there is nothing to be watched"
)]
pub(crate) struct Args {
    #[command(flatten)]
    watched: Watched,
    /// The length of a window
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    window: Duration,
    /// Memory for the windows that are kept
    #[arg(long, value_name = "SIZE", default_value = "64MB", value_parser = bytes)]
    memory: u64,
    /// Run these collectors [default: those that explain]
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    collect: Option<Vec<String>>,
    /// Print one screen after five windows, and end
    #[arg(long, conflicts_with = "json_lines")]
    once: bool,
    /// Print a JSON object for each window
    #[arg(long)]
    json_lines: bool,
    /// The list that is shown first, by its name
    #[arg(long, value_name = "NAME", default_value = "waits", value_parser = list)]
    list: usize,
    /// Collect call stacks of single tasks all the time, not only while they are looked at
    #[arg(long)]
    stacks: bool,
    /// Use no colours
    #[arg(long)]
    no_color: bool,
    #[command(flatten)]
    sampling: Sampling,
    #[command(flatten)]
    live: Staying,
}

/// The number of a list.
fn list(name: &str) -> Result<usize, String> {
    let names: Vec<String> = lists::ALL.iter().map(|list| list.title.to_lowercase().replace(' ', "-")).collect();
    names.iter().position(|known| known == name).ok_or_else(|| format!("the lists are {}", names.join(", ")))
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    heap::share_one();
    check_window(args.window)?;
    let host = Host::real();
    // Before the terminal is taken: nothing to be watched is an error on the screen that the user is on.
    args.watched.find(&host)?.0.subjects(&host).map_err(|why| Problem::host("holdup watch", why))?;
    let ids = match &args.collect {
        Some(given) => collectors(given),
        None => {
            let mut ids = default_collectors(args.watched.has_connection());
            // Only the screen has single tasks.
            ids.extend((!args.json_lines).then(|| "tasks".to_owned()));
            ids
        }
    };
    let has_stacks = AtomicBool::new(args.stacks);
    let cancel = signals::cancel_on_signals()?;
    let (sender, events) = mpsc::channel();
    let maps = super::maps();
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let request = LiveRequest {
                host: &host,
                find: &|| args.watched.find(&host),
                is_patient: false,
                window: args.window,
                collectors: &ids,
                has_stacks: &|| has_stacks.load(Ordering::Relaxed),
                options: args.live.options(&args.sampling),
                maps,
                command: std::env::args().collect(),
                cancel: cancel.clone(),
            };
            let ended = live(&request, &mut |event| {
                // The screen may have ended before.
                let _gone = sender.send(event);
            });
            // Without windows there is nothing to look at.
            cancel.cancel();
            ended
        });
        // A panic here would else wait for the thread that watches.
        let _end = CancelOnDrop(&cancel);
        let mut view = View::new(args);
        let shown = match (args.once, args.json_lines) {
            (true, _) => once(&mut view, &events, &cancel),
            (_, true) => json_lines(&mut view, &events, &cancel),
            _ => screen(&mut view, &events, &cancel, &|wanted| {
                has_stacks.store(wanted || args.stacks, Ordering::Relaxed);
            }),
        };
        cancel.cancel();
        let watched = watching.join().unwrap_or_else(|_| Err(Problem::internal("watching", "a thread panicked")));
        shown.and(watched)
    })?;
    Ok(0)
}

struct CancelOnDrop<'a>(&'a Cancel);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What is in memory, and what is shown of it.
struct View {
    memory: Memory,
    state: State,
}

impl View {
    fn new(args: &Args) -> Self {
        let has_colour = !args.no_color && !args.once && output::terminal(false).color;
        let memory = Memory::new(usize::try_from(args.memory).unwrap_or(usize::MAX));
        let mut state = State::new(has_colour);
        state.choose_list(args.list);
        View { memory, state }
    }

    /// Takes what happened; whether a window ended.
    fn take(&mut self, event: Live) -> bool {
        match event {
            Live::Begin { watched, bundle } => {
                self.state.begin(watched, missing(&bundle));
                self.memory.begin(*bundle);
                false
            }
            Live::Window(trial) => {
                // What it says alone is for exporters.
                let _alone = self.memory.push(*trial);
                self.state.window(&self.memory);
                true
            }
            Live::Gone(why) => {
                self.memory.log(holdup_watch::unix_ns(), format!("not watched: {why}"));
                self.state.gone(why);
                false
            }
        }
    }

    /// Writes a bundle of what is in memory; what is to be said about it.
    fn record(&self) -> String {
        let Some(bundle) = self.memory.last(usize::MAX) else { return "there is nothing to write yet".to_owned() };
        let path = bundles::free_name("watch");
        match holdup_watch::write(&bundle, &path) {
            Ok(()) => format!("wrote {}: holdup explain {}", path.display(), path.display()),
            Err(problem) => format!("{}: {}", problem.what, problem.why),
        }
    }
}

fn missing(watch: &BundleData) -> Vec<String> {
    let unavailable = watch.collectors.iter().filter_map(|state| match &state.availability {
        Availability::Unavailable { reason, .. } => Some(format!("{} ({reason})", state.id)),
        _ => None,
    });
    unavailable.collect()
}

/// The next event; `None` where watching has ended.
fn next(events: &Receiver<Live>, cancel: &Cancel) -> Option<Live> {
    loop {
        match events.recv_timeout(Duration::from_millis(100)) {
            Ok(event) => return Some(event),
            Err(mpsc::RecvTimeoutError::Timeout) if !cancel.is_cancelled() => {}
            Err(_) => return None,
        }
    }
}

fn once(view: &mut View, events: &Receiver<Live>, cancel: &Cancel) -> Result<(), Problem> {
    while let Some(event) = next(events, cancel) {
        if view.take(event) && view.memory.windows().len() >= ONCE {
            return output::data(&holdup_screen::text(&view.state, COLUMNS, LINES));
        }
    }
    Ok(())
}

fn json_lines(view: &mut View, events: &Receiver<Live>, cancel: &Cancel) -> Result<(), Problem> {
    while let Some(event) = next(events, cancel) {
        let line = match &event {
            Live::Gone(why) => Some(json!({"schema": SCHEMA, "gone": why})),
            _ => None,
        };
        let line = if view.take(event) { object(view) } else { line };
        if let Some(line) = line
            && !output::streamed(&line.to_string())?
        {
            return Ok(());
        }
    }
    Ok(())
}

const SCHEMA: &str = "holdup.watch/1";

/// A window as a JSON object: its end, the answer over the last ten, what changed, and the account of the window itself.
fn object(view: &View) -> Option<serde_json::Value> {
    let (now, bar) = (view.state.now()?, view.memory.bars().next_back()?);
    let arm = now.explanation.as_ref();
    let causes: Vec<_> = arm
        .iter()
        .flat_map(|arm| &arm.causes)
        .filter_map(|cause| {
            Some(json!({"cause": cause.id, "verdict": cause.verdict, "share": cause.plain_share?, "of": cause.of}))
        })
        .collect();
    let states: Vec<_> = bar
        .states
        .iter()
        .map(
            |(name, class, s)| json!({"state": name, "class": class, "time_s": s, "tasks": s / bar.length_s.max(1e-9)}),
        )
        .collect();
    Some(json!({
        "schema": SCHEMA,
        "end_unix_ns": bar.end_unix_ns,
        "length_s": bar.length_s,
        "answer": arm.map(|arm| &arm.answer),
        "verdict": arm.map(|arm| arm.verdict),
        "changed": now.changed,
        "causes": causes,
        "states": states,
    }))
}

fn screen(
    view: &mut View,
    events: &Receiver<Live>,
    cancel: &Cancel,
    want_stacks: &dyn Fn(bool),
) -> Result<(), Problem> {
    let mut terminal = Terminal::take()?;
    let mut is_new = true;
    while !cancel.is_cancelled() {
        loop {
            match events.try_recv() {
                Ok(event) => {
                    view.take(event);
                    is_new = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        want_stacks(view.state.wants_stacks());
        if is_new && !terminal.show(&view.state) {
            return Ok(());
        }
        is_new = true;
        match terminal.input(Duration::from_millis(100)) {
            Input::Nothing => is_new = false,
            Input::Resized => {}
            Input::End => return Ok(()),
            Input::Key(key) => match view.state.key(key) {
                Act::None => {}
                Act::Quit => return Ok(()),
                Act::Record => {
                    let said = view.record();
                    view.state.say(said);
                }
            },
        }
    }
    Ok(())
}
