//! What would have been captured of a run, here and there, and how badly.

use crate::dice::Dice;
use crate::made::layers;
use crate::namespaces::relay::Passed;

/// A capture of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// At a side, all of it.
    Whole(usize),
    /// At a side, what one side sent.
    OneWay { at: usize, from: usize },
    /// At a side, without the first third.
    FromTheMiddle(usize),
    /// At a side, where the capture missed one in twenty.
    Missing(usize),
    /// At a side, where one in twenty stands behind the one that came within half a millisecond after it, with a time of its
    /// own, as captures of several queues have it.
    Swapped(usize),
}

/// All that are made of a run.
pub(crate) const VIEWS: [View; 9] = [
    View::Whole(0),
    View::Whole(1),
    View::OneWay { at: 0, from: 0 },
    View::OneWay { at: 0, from: 1 },
    View::OneWay { at: 1, from: 0 },
    View::FromTheMiddle(0),
    View::FromTheMiddle(1),
    View::Missing(0),
    View::Swapped(1),
];

/// A packet where it was captured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captured<'a> {
    pub(crate) at_ns: i64,
    pub(crate) passed: &'a Passed,
    /// Which of all that passed it is.
    pub(crate) number: usize,
}

/// What was captured of a run, in order.
pub(crate) fn captured(run: &[Passed], view: View) -> Vec<Captured<'_>> {
    let mut dice = Dice::new(7);
    match view {
        View::Whole(at) => at_side(run, at),
        View::OneWay { at, from } => at_side(run, at).into_iter().filter(|c| c.passed.from == from).collect(),
        View::FromTheMiddle(at) => {
            let mut all = at_side(run, at);
            all.drain(..all.len() / 3);
            all
        }
        View::Missing(at) => at_side(run, at).into_iter().filter(|_| !dice.chance(5)).collect(),
        View::Swapped(at) => {
            let mut all = at_side(run, at);
            for i in 1..all.len() {
                let (first_ns, second_ns) = (all[i - 1].at_ns, all[i].at_ns);
                if second_ns - first_ns < 500_000 && dice.chance(5) {
                    all.swap(i - 1, i);
                    (all[i - 1].at_ns, all[i].at_ns) = (first_ns, second_ns);
                }
            }
            all
        }
    }
}

fn at_side(run: &[Passed], at: usize) -> Vec<Captured<'_>> {
    let mut all: Vec<Captured<'_>> = Vec::new();
    for (number, passed) in run.iter().enumerate() {
        let times: &[i64] = if passed.from == at { std::slice::from_ref(&passed.sent_ns) } else { &passed.came_ns };
        all.extend(times.iter().map(|at_ns| Captured { at_ns: *at_ns, passed, number }));
    }
    all.sort_by_key(|captured| captured.at_ns);
    all
}

/// An Ethernet frame whose addresses encode run and view, so that one capture can hold many.
pub(crate) fn frame(packet: &[u8], run: u8, view: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let places = if packet[0] >> 4 == 6 { [8, 24] } else { [12, 16] };
    for place in places {
        packet[place + 1] = run;
        packet[place + 2] = view;
    }
    layers::ethernet(layers::ether_type(&packet), &packet)
}
