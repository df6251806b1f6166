//! Channels: messages between tasks, in the order in which they were sent.

use super::{Then, World};
use crate::program::{Channel, Inside, Op};
use crate::seen::Left;
use std::collections::VecDeque;

/// A channel.
#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    /// The most messages in it.
    most: usize,
    /// Who sent each, and its tag.
    messages: VecDeque<(u32, u8)>,
    /// Who waits for one.
    readers: VecDeque<u32>,
    /// Who waits for room.
    writers: VecDeque<u32>,
}

impl Buffer {
    pub(super) fn new(most: u32) -> Self {
        Buffer {
            most: most.max(1) as usize,
            messages: VecDeque::new(),
            readers: VecDeque::new(),
            writers: VecDeque::new(),
        }
    }
}

impl World {
    fn channel_of(&self, task: u32, channel: Channel) -> usize {
        let t = &self.tasks[task as usize];
        let id = match channel {
            Channel::Of(id) => id,
            Channel::Mine => t.inbox,
            Channel::Peer => t.peer,
            Channel::Sender => self.tasks[t.sender as usize].inbox,
        };
        id as usize
    }

    /// Who sent the last message that a task received.
    pub(crate) fn sender_of(&self, task: u32) -> Option<u32> {
        Some(self.tasks[task as usize].sender).filter(|sender| *sender != u32::MAX)
    }

    /// The task is in send(): the message goes in, or it waits for room.
    pub(crate) fn sends(&mut self, cpu: u32, task: u32) {
        let Op::Send { to, tag } = self.code[self.tasks[task as usize].pc as usize - 1] else {
            return self.return_to_user(cpu, task);
        };
        let id = self.channel_of(task, to);
        let channel = &mut self.channels[id];
        if channel.messages.len() >= channel.most {
            channel.writers.push_back(task);
            return self.blocks(cpu, task, Then::Sends);
        }
        channel.messages.push_back((task, tag));
        let Some(reader) = channel.readers.pop_front() else { return self.return_to_user(cpu, task) };
        self.wake(reader, Some(cpu));
        let ns = self.machine.costs.wake_ns;
        self.begin(cpu, task, World::kernel(ns, Inside::On, Then::ToUser));
    }

    /// The task is in recv(): a message comes out, or it waits for one.
    pub(crate) fn receives(&mut self, cpu: u32, task: u32) {
        let Op::Receive(from) = self.code[self.tasks[task as usize].pc as usize - 1] else {
            return self.return_to_user(cpu, task);
        };
        let id = self.channel_of(task, from);
        let channel = &mut self.channels[id];
        let Some((sender, tag)) = channel.messages.pop_front() else {
            channel.readers.push_back(task);
            return self.blocks(cpu, task, Then::Receives);
        };
        let t = &mut self.tasks[task as usize];
        (t.sender, t.tag) = (sender, tag);
        let Some(writer) = channel.writers.pop_front() else { return self.return_to_user(cpu, task) };
        self.wake(writer, Some(cpu));
        let ns = self.machine.costs.wake_ns;
        self.begin(cpu, task, World::kernel(ns, Inside::On, Then::ToUser));
    }

    /// The task waits in the kernel; when it is awake, it looks again.
    pub(crate) fn blocks(&mut self, cpu: u32, task: u32, then: Then) {
        self.tasks[task as usize].segment = World::kernel(0, Inside::On, then);
        self.schedule(cpu, Left::Waits);
    }
}
