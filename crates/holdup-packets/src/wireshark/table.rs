//! Finding a segment's connection.

use super::state::{Connection, Hosts, Key, connection};
use crate::segment::{Address, Endpoint, Segment, Wide};

/// How many connections the table can number: a slot has the number in 24 bits and 8 bits of the hash.
pub(super) const MOST: u32 = (1 << 24) - 2;

/// All connections, by number, and the way from the ends to the number of the latest connection between them.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    all: Vec<Connection>,
    /// The two addresses of connections of IPv6.
    wide: Vec<[Wide; 2]>,
    /// Open addressing with linear probing; 0 is free, else a number plus one, and above it 8 bits of the hash.
    slots: Vec<u32>,
    /// Slots that are taken.
    taken: usize,
    /// The connection that was found last. Most segments follow one of their own connection.
    last: u32,
}

impl Default for Connections {
    fn default() -> Self {
        Connections { all: Vec::new(), wide: Vec::new(), slots: vec![0; 1 << 10], taken: 0, last: 0 }
    }
}

impl Connections {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, number: u32) -> &Connection {
        &self.all[number as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Connection {
        &mut self.all[number as usize]
    }

    /// All, in the order of their numbers.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Connection> {
        self.all.iter()
    }

    /// The latest connection between two ends.
    #[inline]
    pub(super) fn find(&mut self, key: &Key) -> Option<u32> {
        if self.all.get(self.last as usize).is_some_and(|connection| self.is_of(connection, key)) {
            return Some(self.last);
        }
        let number = (self.slots[self.slot(key)] & 0xff_ffff).checked_sub(1)?;
        self.last = number;
        Some(number)
    }

    /// Begins a connection, which from now on is the latest between its ends.
    pub(super) fn begin(&mut self, key: &Key, segment: &Segment) -> u32 {
        if (self.taken + 1) * 8 > self.slots.len() * 7 {
            self.grow();
        }
        let hosts = match key.hosts {
            Hosts::V4(hosts) => hosts,
            Hosts::V6(hosts) => {
                self.wide.push(hosts);
                [self.wide.len() as u32 - 1; 2]
            }
        };
        let number = self.all.len() as u32;
        self.all.push(Connection::new(key, hosts, segment));
        let slot = self.slot(key);
        self.taken += usize::from(self.slots[slot] == 0);
        self.slots[slot] = tag(key.hash()) | (number + 1);
        self.last = number;
        number
    }

    fn hosts(&self, connection: &Connection) -> Hosts {
        if connection.has(connection::IS_WIDE) {
            Hosts::V6(self.wide[connection.hosts[0] as usize])
        } else {
            Hosts::V4(connection.hosts)
        }
    }

    /// The ends of a connection, side 0 first.
    pub(super) fn ends(&self, connection: &Connection) -> [Endpoint; 2] {
        let addresses = match self.hosts(connection) {
            Hosts::V4(hosts) => hosts.map(Address::V4),
            Hosts::V6(hosts) => hosts.map(Address::V6),
        };
        [0, 1].map(|i| Endpoint { address: addresses[i], port: connection.ports[i] })
    }

    /// The slot of two ends: that of their latest connection, or the free one where it belongs.
    #[inline]
    fn slot(&self, key: &Key) -> usize {
        let hash = key.hash();
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return slot;
            }
            if entry & 0xff00_0000 == tag(hash) && self.is_of(&self.all[(entry & 0xff_ffff) as usize - 1], key) {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    #[inline]
    fn is_of(&self, connection: &Connection, key: &Key) -> bool {
        if connection.ports != key.ports {
            return false;
        }
        let is_wide = connection.has(connection::IS_WIDE);
        match key.hosts {
            Hosts::V4(hosts) => !is_wide && connection.hosts == hosts,
            Hosts::V6(hosts) => is_wide && self.wide[connection.hosts[0] as usize] == hosts,
        }
    }

    /// Doubles the slots.
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![0; old.len() * 2];
        let mask = self.slots.len() - 1;
        for entry in old.into_iter().filter(|entry| *entry != 0) {
            let connection = &self.all[(entry & 0xff_ffff) as usize - 1];
            let key = Key { hosts: self.hosts(connection), ports: connection.ports, from: 0 };
            let mut slot = key.hash() as usize & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = entry;
        }
    }
}

/// The bits of the hash that stand in a slot. They are none of those that choose the slot.
#[inline]
fn tag(hash: u64) -> u32 {
    ((hash >> 56) as u32) << 24
}
