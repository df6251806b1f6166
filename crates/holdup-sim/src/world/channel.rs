//! Channels: messages between tasks, in the order in which they were sent.

use super::task::place_of;
use super::{ChannelSpec, Failure, Load, Segment, Then, World};
use crate::program::{Channel, MarkId, Op, Preemption};
use crate::stats::SwitchOut;
use std::collections::VecDeque;

/// A channel. The first of each queue is in one cache line, since mostly there is no second, and the rest elsewhere.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(crate) struct Buffer {
    /// The most messages in it.
    most: u32,
    /// See [`ChannelSpec::refills_at`]; [`NEVER`] for none.
    refills_at: u32,
    /// See [`ChannelSpec::carries`].
    carries: Option<MarkId>,
    /// The only task that receives from it; `u32::MAX` where others may.
    reader: u32,
    /// The sender of each, and its tag.
    messages: First<(u32, u8)>,
    /// Tasks that wait for one.
    readers: First<u32>,
    /// Tasks that wait for room.
    writers: First<u32>,
    rest: Box<Rest>,
}

/// All but the first of each queue.
#[derive(Debug, Clone, Default)]
struct Rest {
    messages: VecDeque<(u32, u8)>,
    readers: VecDeque<u32>,
    writers: VecDeque<u32>,
    /// When the mark that it carries was begun, of each message.
    begun: VecDeque<u64>,
}

/// The channel of a task that has none.
const NO_CHANNEL: u32 = u32::MAX;

/// A channel that wakes one writer for each message that is taken.
const NEVER: u32 = u32::MAX;

/// The first of a queue, and how many come after it.
#[derive(Debug, Clone, Default)]
struct First<T> {
    first: Option<T>,
    more: u32,
}

const NO_TASK: u32 = u32::MAX;

impl<T> First<T> {
    fn len(&self) -> u32 {
        u32::from(self.first.is_some()) + self.more
    }

    fn push(&mut self, rest: &mut VecDeque<T>, item: T) {
        if self.first.is_none() {
            self.first = Some(item);
        } else {
            rest.push_back(item);
            self.more += 1;
        }
    }

    fn pop(&mut self, rest: &mut VecDeque<T>) -> Option<T> {
        let first = self.first.take();
        if self.more > 0 {
            self.first = rest.pop_front();
            self.more -= 1;
        }
        first
    }
}

/// The channels of a load.
pub(super) fn build(load: &Load) -> Vec<Buffer> {
    let mut channels: Vec<Buffer> = load.channels.iter().map(Buffer::new).collect();
    let mut ops = load.programs.iter().flat_map(|program| &program.ops);
    let is_of_others = |op: &Op| matches!(op, Op::Receive(from) | Op::Take { from, .. } if *from != Channel::Mine);
    if ops.any(is_of_others) {
        return channels;
    }
    let mut has_reader = vec![false; channels.len()];
    for (task, inbox) in load.tasks.iter().enumerate().filter_map(|(task, spec)| Some((task, spec.inbox? as usize))) {
        // A channel that does not exist is an error when the task uses it.
        let (Some(has), Some(channel)) = (has_reader.get_mut(inbox), channels.get_mut(inbox)) else { continue };
        let is_first = !std::mem::replace(has, true);
        channel.reader = if is_first { task as u32 } else { NO_TASK };
    }
    channels
}

impl Buffer {
    fn new(spec: &ChannelSpec) -> Self {
        Buffer {
            most: spec.most.max(1),
            refills_at: spec.refills_at.map_or(NEVER, |at| at.min(spec.most.max(1) - 1)),
            carries: spec.carries,
            reader: NO_TASK,
            messages: First::default(),
            readers: First::default(),
            writers: First::default(),
            rest: Box::default(),
        }
    }

    /// The tag of the message that a task is certain to receive: there is one, the task is the only receiver, and no task
    /// waits for room.
    #[inline]
    pub(super) fn tag_for(&self, task: u32) -> Option<u8> {
        let (_, tag) = self.messages.first?;
        // What a message carries is noted when it is taken.
        let is_plain = self.reader == task && self.writers.first.is_none() && self.carries.is_none();
        is_plain.then_some(tag)
    }

    /// The first message leaves.
    pub(super) fn takes(&mut self) -> Option<(u32, u8)> {
        self.messages.pop(&mut self.rest.messages)
    }
}

impl World {
    fn channel_of(&self, task: u32, channel: Channel) -> usize {
        let t = &self.tasks[task as usize];
        let id = match channel {
            Channel::Of(id) => id,
            Channel::OfCpu(first) => first + t.cpu,
            Channel::Mine => t.inbox,
            Channel::Peer => t.peer,
            Channel::Sender => self.tasks.get(t.sender as usize).map_or(NO_CHANNEL, |sender| sender.inbox),
            Channel::SenderPeer => self.tasks.get(t.sender as usize).map_or(NO_CHANNEL, |sender| sender.peer),
        };
        id as usize
    }

    /// The sender of the last message that a task received.
    pub(crate) fn sender_of(&self, task: u32) -> Option<u32> {
        Some(self.tasks[task as usize].sender).filter(|sender| *sender != u32::MAX)
    }

    /// The task is in send(): the message goes in, is lost, or the task waits for room.
    pub(crate) fn sends(&mut self, cpu: u32, task: u32) {
        let t = &self.tasks[task as usize];
        let (to, message, waits) = match self.code[t.pc as usize - 1] {
            Op::Send { to, tag } => (to, (task, tag), true),
            Op::Transmit { to, waits, onward: true, .. } => (to, (t.sender, t.tag), waits),
            Op::Transmit { to, tag, waits, .. } => (to, (task, tag), waits),
            _ => return self.return_to_user(cpu, task),
        };
        let id = self.channel_of(task, to);
        let Some(mut channel) = self.channels.get_mut(id) else { return self.names_no_channel(cpu, task) };
        if channel.messages.len() >= channel.most && channel.reader != NO_TASK {
            // The reader may have taken a message by now, as its lookahead knows.
            let reader = channel.reader;
            let reader_cpu = self.tasks[reader as usize].cpu;
            if self.cpus[reader_cpu as usize].current == reader {
                self.recheck(reader_cpu);
            }
            channel = &mut self.channels[id];
        }
        if channel.messages.len() >= channel.most {
            self.tasks[task as usize].lost = !waits;
            if !waits {
                return self.return_to_user(cpu, task);
            }
            channel.writers.push(&mut channel.rest.writers, task);
            return self.blocks(cpu, task, Then::Sends);
        }
        self.tasks[task as usize].lost = false;
        channel.messages.push(&mut channel.rest.messages, message);
        if let Some(mark) = channel.carries {
            let begun = self.tasks[task as usize].begun[place_of(mark)];
            channel.rest.begun.push_back(begun);
        }
        let Some(reader) = channel.readers.pop(&mut channel.rest.readers) else {
            return self.return_to_user(cpu, task);
        };
        self.wake(reader, Some(cpu));
        self.enter_kernel(cpu, task, self.machine.costs.wake_ns, Then::ToUser);
    }

    /// The task is in recv(): a message comes out, or it waits for one.
    pub(crate) fn receives(&mut self, cpu: u32, task: u32) {
        let (from, work_ns) = match self.code[self.tasks[task as usize].pc as usize - 1] {
            Op::Receive(from) => (from, 0),
            Op::Take { from, work_ns } => (from, u64::from(work_ns)),
            _ => return self.return_to_user(cpu, task),
        };
        let id = self.channel_of(task, from);
        let Some(channel) = self.channels.get_mut(id) else { return self.names_no_channel(cpu, task) };
        let Some((sender, tag)) = channel.takes() else {
            channel.readers.push(&mut channel.rest.readers, task);
            return self.blocks(cpu, task, Then::Receives);
        };
        let t = &mut self.tasks[task as usize];
        (t.sender, t.tag) = (sender, tag);
        if let Some(mark) = channel.carries {
            t.begun[place_of(mark)] = channel.rest.begun.pop_front().unwrap_or_default();
        }
        let woken = if channel.writers.len() > 0 { self.wakes_writers(cpu, id) } else { 0 };
        match woken * self.machine.costs.wake_ns + work_ns {
            0 => self.return_to_user(cpu, task),
            ns => self.enter_kernel(cpu, task, ns, Then::ToUser),
        }
    }

    /// A message was taken while some waited for room: how many of them are woken.
    fn wakes_writers(&mut self, cpu: u32, id: usize) -> u64 {
        let channel = &self.channels[id];
        let most = match channel.refills_at {
            NEVER => 1,
            at if channel.messages.len() <= at => u64::MAX,
            _ => 0,
        };
        let mut woken = 0;
        while woken < most {
            let channel = &mut self.channels[id];
            let Some(writer) = channel.writers.pop(&mut channel.rest.writers) else { break };
            self.wake(writer, Some(cpu));
            woken += 1;
        }
        woken
    }

    /// The task names a channel by way of a task that has none.
    #[cold]
    fn names_no_channel(&mut self, cpu: u32, task: u32) {
        self.fails(Failure::NoChannel { task, pc: self.tasks[task as usize].pc - 1 });
        self.return_to_user(cpu, task);
    }

    /// The task waits in the kernel and tries again when it is awake.
    pub(crate) fn blocks(&mut self, cpu: u32, task: u32, then: Then) {
        self.tasks[task as usize].segment = Segment::kernel(0, Preemption::On, then);
        self.schedule(cpu, SwitchOut::Blocked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_comes_first_leaves_first(ops in proptest::collection::vec(any::<bool>(), 0..60)) {
            let (mut first, mut rest, mut all) = (First::default(), VecDeque::new(), VecDeque::new());
            for (number, comes) in ops.into_iter().enumerate() {
                if comes {
                    first.push(&mut rest, number);
                    all.push_back(number);
                } else {
                    prop_assert_eq!(first.pop(&mut rest), all.pop_front());
                }
                prop_assert_eq!(first.len() as usize, all.len());
            }
        }
    }
}
