//! Timelines as a bundle keeps them: events in columns, as JSON.
//!
//! The members:
//!
//! - `words`: every text once; the others refer to it by place, from 0.
//! - `tasks`: of the tasks, `tid`, `pid` and `name` (a word).
//! - `what`: one letter for each event, in one text: `s` switch, `w` wakeup, `f` fault, `d` stretch, `h` hold.
//! - `after_ns`: for each event, the time since the event before it (the first: since the begin), ns.
//! - `cpu`: for each event, its CPU.
//! - `switches`: for each `s`, `from` and `to` (one more than the task, 0 for the idle task), `left` (a word) and
//!   `section` (one more than the word, 0 for none).
//! - `wakeups`: for each `w`, `task` and `by` (one more than the task, 0 for none).
//! - `faults`: for each `f`, `task`, `length_ns` and `section` (one more than the word, 0 for none).
//! - `stretches`: for each `d`, `task`, `doing` (one letter in one text: `k` kernel, `s` spin, `c` switch, `i` interrupt),
//!   `length_ns` and `lock` (one more than the word, 0 for none). Left out where there is none, as the next two are.
//! - `holds`: for each `h`, `task`, `lock` (a word) and `length_ns`.
//! - `end_ns`: the end.

use crate::deflated::parsed;
use crate::stacks::{Given, MOST_TEXT_BYTES, Words, repeats_too_much, same_length};
use holdup_model::timeline::{TimelineDoing, TimelineEvent, TimelineKind, TimelineTask};
use holdup_model::{MemoryBudget, Timeline};
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
struct Body {
    words: Vec<String>,
    tasks: Tasks,
    what: String,
    after_ns: Vec<i64>,
    cpu: Vec<u32>,
    switches: Switches,
    wakeups: Wakeups,
    faults: Faults,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stretches: Option<Stretches>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holds: Option<Holds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end_ns: Option<u64>,
}

#[derive(Default, Serialize, Deserialize)]
struct Tasks {
    tid: Vec<u32>,
    pid: Vec<u32>,
    name: Vec<u32>,
}

#[derive(Default, Serialize, Deserialize)]
struct Switches {
    from: Vec<u32>,
    to: Vec<u32>,
    left: Vec<u32>,
    section: Vec<u32>,
}

#[derive(Default, Serialize, Deserialize)]
struct Wakeups {
    task: Vec<u32>,
    by: Vec<u32>,
}

#[derive(Default, Serialize, Deserialize)]
struct Faults {
    task: Vec<u32>,
    length_ns: Vec<u64>,
    section: Vec<u32>,
}

#[derive(Default, Serialize, Deserialize)]
struct Stretches {
    task: Vec<u32>,
    doing: String,
    length_ns: Vec<u64>,
    lock: Vec<u32>,
}

#[derive(Default, Serialize, Deserialize)]
struct Holds {
    task: Vec<u32>,
    lock: Vec<u32>,
    length_ns: Vec<u64>,
}

/// Each kind of stretch with its letter.
const DOING: [(u8, TimelineDoing); 4] = [
    (b'k', TimelineDoing::Kernel),
    (b's', TimelineDoing::Spin),
    (b'c', TimelineDoing::Switch),
    (b'i', TimelineDoing::Interrupt),
];

/// The JSON of a timeline, without what has its own columns. The error follows `the timeline`.
pub(crate) fn encode(timeline: &Timeline) -> Result<Vec<u8>, String> {
    let mut words = Words::default();
    let mut body = Body::default();
    for t in &timeline.tasks {
        body.tasks.tid.push(t.tid);
        body.tasks.pid.push(t.pid);
        body.tasks.name.push(words.place(&t.name));
    }
    let known = |task: u32| match timeline.tasks.len() {
        n if (task as usize) < n => Ok(task),
        n => Err(format!("refers to task {task} of {n}")),
    };
    let known_or_none = |task: Option<u32>| task.map_or(Ok(0), |t| known(t).map(|t| t + 1));
    let mut before_ns = 0;
    body.end_ns = timeline.end_ns;
    for event in &timeline.events {
        // Wrapping, so that events out of order come back as they are.
        body.after_ns.push(event.at_ns.wrapping_sub(before_ns) as i64);
        before_ns = event.at_ns;
        body.cpu.push(event.cpu);
        body.what.push(match &event.kind {
            TimelineKind::Switch { from, to, left, section } => {
                body.switches.from.push(known_or_none(*from)?);
                body.switches.to.push(known_or_none(*to)?);
                body.switches.left.push(words.place(left));
                body.switches.section.push(words.place_or_none(section.as_deref()));
                's'
            }
            TimelineKind::Wakeup { task, by } => {
                body.wakeups.task.push(known(*task)?);
                body.wakeups.by.push(known_or_none(*by)?);
                'w'
            }
            TimelineKind::Fault { task, length_ns, section } => {
                body.faults.task.push(known(*task)?);
                body.faults.length_ns.push(*length_ns);
                body.faults.section.push(words.place_or_none(section.as_deref()));
                'f'
            }
            TimelineKind::Stretch { task, doing, length_ns, lock } => {
                let stretches = body.stretches.get_or_insert_default();
                stretches.task.push(known(*task)?);
                stretches.doing.extend(DOING.iter().filter(|(_, d)| d == doing).map(|(letter, _)| char::from(*letter)));
                stretches.length_ns.push(*length_ns);
                stretches.lock.push(words.place_or_none(lock.as_deref()));
                'd'
            }
            TimelineKind::Hold { task, lock, length_ns } => {
                let holds = body.holds.get_or_insert_default();
                holds.task.push(known(*task)?);
                holds.lock.push(words.place(lock));
                holds.length_ns.push(*length_ns);
                'h'
            }
        });
    }
    body.words = words.into_list();
    serde_json::to_vec(&body).map_err(|e| e.to_string())
}

/// Reads the JSON of a timeline: all but what has its own columns, and its events where they are asked for. The error follows `the
/// timeline`.
pub(crate) fn decode(json: &[u8], with_events: bool, budget: &MemoryBudget) -> Result<Timeline, String> {
    let (body, _taken): (Body, _) = parsed(json, budget)?;
    check_lengths(&body)?;
    check_references(&body)?;
    if !with_events {
        return Ok(Timeline { end_ns: body.end_ns, left_out: body.what.len() as u64, ..Timeline::default() });
    }
    budget.take((body.what.len() * size_of::<TimelineEvent>()) as u64).map_err(|e| e.to_string())?;
    let mut given = Given::of(&body.words, budget);
    let tasks = tasks(&body, &mut given)?;
    let known = |task: u32| match tasks.len() {
        n if (task as usize) < n => Ok(task),
        n => Err(format!("refers to task {task} of {n}")),
    };
    let known_or_none = |task: u32| task.checked_sub(1).map(known).transpose();
    let mut events = Vec::with_capacity(body.cpu.len());
    let (stretches, holds) = (body.stretches.unwrap_or_default(), body.holds.unwrap_or_default());
    let (mut switch, mut wakeup, mut fault, mut stretch, mut hold) = (0, 0, 0, 0, 0);
    let mut at_ns = 0_u64;
    for ((what, after_ns), &cpu) in body.what.bytes().zip(&body.after_ns).zip(&body.cpu) {
        at_ns = at_ns.wrapping_add(*after_ns as u64);
        let kind = match what {
            b's' => {
                let (s, i) = (&body.switches, switch);
                switch += 1;
                TimelineKind::Switch {
                    from: known_or_none(s.from[i])?,
                    to: known_or_none(s.to[i])?,
                    left: given.word(s.left[i])?,
                    section: given.word_or_none(s.section[i])?,
                }
            }
            b'w' => {
                let (w, i) = (&body.wakeups, wakeup);
                wakeup += 1;
                TimelineKind::Wakeup { task: known(w.task[i])?, by: known_or_none(w.by[i])? }
            }
            b'd' => {
                let i = stretch;
                stretch += 1;
                let letter = stretches.doing.as_bytes()[i];
                let doing = DOING.iter().find(|(l, _)| *l == letter).map(|(_, doing)| *doing);
                TimelineKind::Stretch {
                    task: known(stretches.task[i])?,
                    doing: doing.ok_or("has a stretch of a kind that does not exist")?,
                    length_ns: stretches.length_ns[i],
                    lock: given.word_or_none(stretches.lock[i])?,
                }
            }
            b'h' => {
                let i = hold;
                hold += 1;
                TimelineKind::Hold {
                    task: known(holds.task[i])?,
                    lock: given.word(holds.lock[i])?,
                    length_ns: holds.length_ns[i],
                }
            }
            _ => {
                let (f, i) = (&body.faults, fault);
                fault += 1;
                TimelineKind::Fault {
                    task: known(f.task[i])?,
                    length_ns: f.length_ns[i],
                    section: given.word_or_none(f.section[i])?,
                }
            }
        };
        events.push(TimelineEvent { at_ns, cpu, kind });
    }
    Ok(Timeline { end_ns: body.end_ns, tasks, events, ..Timeline::default() })
}

fn tasks(body: &Body, given: &mut Given<'_>) -> Result<Vec<TimelineTask>, String> {
    let each = body.tasks.tid.iter().zip(&body.tasks.pid).zip(&body.tasks.name);
    each.map(|((&tid, &pid), &name)| Ok(TimelineTask { tid, pid, name: given.word(name)? })).collect()
}

/// Whether each list is as long as the events say.
fn check_lengths(body: &Body) -> Result<(), String> {
    let count = |letter: u8| body.what.bytes().filter(|b| *b == letter).count();
    let (switches, wakeups, faults) = (count(b's'), count(b'w'), count(b'f'));
    let (stretches, holds) = (count(b'd'), count(b'h'));
    if switches + wakeups + faults + stretches + holds != body.what.len() {
        return Err("has an event of a kind that does not exist".to_owned());
    }
    let none = (Stretches::default(), Holds::default());
    let (d, h) = (body.stretches.as_ref().unwrap_or(&none.0), body.holds.as_ref().unwrap_or(&none.1));
    same_length("stretches", &[stretches, d.task.len(), d.doing.len(), d.length_ns.len(), d.lock.len()])?;
    same_length("holds", &[holds, h.task.len(), h.lock.len(), h.length_ns.len()])?;
    let (t, s, w, f) = (&body.tasks, &body.switches, &body.wakeups, &body.faults);
    same_length("tasks", &[t.tid.len(), t.pid.len(), t.name.len()])?;
    same_length("events", &[body.what.len(), body.after_ns.len(), body.cpu.len()])?;
    same_length("switches", &[switches, s.from.len(), s.to.len(), s.left.len(), s.section.len()])?;
    same_length("wakeups", &[wakeups, w.task.len(), w.by.len()])?;
    same_length("faults", &[faults, f.task.len(), f.length_ns.len(), f.section.len()])
}

/// Refuses references to tasks and words that are not there.
fn check_references(body: &Body) -> Result<(), String> {
    let none = (Stretches::default(), Holds::default());
    let (d, h) = (body.stretches.as_ref().unwrap_or(&none.0), body.holds.as_ref().unwrap_or(&none.1));
    let (t, s, w, f) = (&body.tasks, &body.switches, &body.wakeups, &body.faults);
    let (tasks, words) = (t.tid.len(), body.words.len());
    let beyond = |columns: &[&[u32]], count: usize| {
        columns.iter().flat_map(|column| column.iter()).copied().find(|place| *place as usize >= count)
    };
    // Places of which 0 is none are one more.
    let task = beyond(&[&w.task, &f.task, &d.task, &h.task], tasks);
    let task = task.or_else(|| beyond(&[&s.from, &s.to, &w.by], tasks + 1).map(|task| task - 1));
    let word = beyond(&[&t.name, &s.left, &h.lock], words);
    let word = word.or_else(|| beyond(&[&s.section, &f.section, &d.lock], words + 1).map(|word| word - 1));
    // They are repeated by events that are not asked for as well.
    let texts = [&t.name, &s.left, &h.lock].into_iter().flatten().map(|word| u64::from(*word) + 1);
    let or_none = [&s.section, &f.section, &d.lock].into_iter().flatten().map(|word| u64::from(*word));
    let texts = texts.chain(or_none).filter_map(|word| body.words.get(word.checked_sub(1)? as usize));
    match (task, word) {
        (Some(task), _) => Err(format!("refers to task {task} of {tasks}")),
        (None, Some(word)) => Err(format!("refers to word {word}, which is missing")),
        (None, None) if d.doing.bytes().any(|letter| !DOING.iter().any(|(known, _)| *known == letter)) => {
            Err("has a stretch of a kind that does not exist".to_owned())
        }
        (None, None) if texts.map(String::len).sum::<usize>() > MOST_TEXT_BYTES => Err(repeats_too_much()),
        (None, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(change: impl FnOnce(&mut Body)) -> String {
        let mut body = Body {
            words: vec!["postgres".into(), "sleeping".into()],
            tasks: Tasks { tid: vec![7], pid: vec![7], name: vec![0] },
            what: "swfdh".into(),
            after_ns: vec![1; 5],
            cpu: vec![0; 5],
            switches: Switches { from: vec![0], to: vec![1], left: vec![1], section: vec![0] },
            wakeups: Wakeups { task: vec![0], by: vec![0] },
            faults: Faults { task: vec![0], length_ns: vec![5], section: vec![0] },
            stretches: Some(Stretches { task: vec![0], doing: "k".into(), length_ns: vec![1], lock: vec![0] }),
            holds: Some(Holds { task: vec![0], lock: vec![0], length_ns: vec![1] }),
            end_ns: Some(9),
        };
        change(&mut body);
        let json = serde_json::to_vec(&body).expect("is JSON");
        let read = decode(&json, true, &MemoryBudget::default());
        let without = decode(&json, false, &MemoryBudget::default());
        assert_eq!(read.as_ref().map(Timeline::count), without.as_ref().map(Timeline::count));
        read.map(|timeline| timeline.events.len().to_string()).unwrap_or_else(|e| e)
    }

    #[test]
    fn a_body_that_lies_is_refused_with_its_lie() {
        assert_eq!(said(|_| {}), "5");
        assert_eq!(said(|b| b.what = "swsdh".into()), "has columns of switches that are not of one length");
        assert_eq!(said(|b| b.what = "swxdh".into()), "has an event of a kind that does not exist");
        assert_eq!(said(|b| b.what = "swfhh".into()), "has columns of stretches that are not of one length");
        assert_eq!(said(|b| b.holds = None), "has columns of holds that are not of one length");
        let doing = |b: &mut Body, letter: &str| b.stretches.as_mut().expect("there").doing = letter.to_owned();
        assert_eq!(said(|b| doing(b, "x")), "has a stretch of a kind that does not exist");
        assert_eq!(said(|b| doing(b, "ks")), "has columns of stretches that are not of one length");
        assert_eq!(said(|b| b.what.push('w')), "has columns of events that are not of one length");
        assert_eq!(said(|b| b.tasks.pid.clear()), "has columns of tasks that are not of one length");
        assert_eq!(said(|b| b.faults.section.clear()), "has columns of faults that are not of one length");
        assert_eq!(said(|b| b.switches.to[0] = 2), "refers to task 1 of 1");
        assert_eq!(said(|b| b.wakeups.task[0] = 9), "refers to task 9 of 1");
        assert_eq!(said(|b| b.switches.left[0] = 2), "refers to word 2, which is missing");
        let repeats = |b: &mut Body| {
            (b.words[1], b.what) = ("x".repeat(1 << 20), "s".repeat(129));
            (b.after_ns, b.cpu) = (vec![1; 129], vec![0; 129]);
            let none = vec![0; 129];
            b.switches = Switches { from: none.clone(), to: none.clone(), left: vec![1; 129], section: none };
            (b.wakeups, b.faults, b.stretches, b.holds) = (Wakeups::default(), Faults::default(), None, None);
        };
        assert_eq!(said(repeats), "repeats more than 134217728 bytes of text");
        assert!(
            decode(b"\"", true, &MemoryBudget::default()).expect_err("noise").starts_with("is not the JSON of one (")
        );
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let event = TimelineEvent { at_ns: 0, cpu: 0, kind: TimelineKind::Wakeup { task: 1, by: None } };
        let timeline = Timeline { events: vec![event], ..Timeline::default() };
        assert_eq!(encode(&timeline).expect_err("is refused"), "refers to task 1 of 0");
    }
}
