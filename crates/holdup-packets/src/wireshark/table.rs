//! The hash table of connections.

use super::state::{Connection, Ends, Key, both, connection, end_v4};
use crate::segment::{Address, Endpoint, Segment, Wide};

/// A slot has a connection number in 24 bits and 8 bits of the hash.
pub(super) const MOST: u32 = (1 << 24) - 2;

/// Marks an IPv6 connection's index in the table of addresses.
const WIDE: u64 = 1 << 63;

/// All connections by number, and a hash table from endpoints to their latest connection.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    all: Vec<Connection>,
    /// The addresses of IPv6 connections.
    wide: Vec<[Wide; 2]>,
    /// Open addressing with linear probing: 0 is free, else a number plus one, and 8 bits of the hash above it.
    slots: Vec<u32>,
    taken: usize,
    /// The connection found last: most segments follow one of the same connection.
    last: u32,
}

impl Default for Connections {
    fn default() -> Self {
        Connections { all: Vec::new(), wide: Vec::new(), slots: vec![0; 1 << 10], taken: 0, last: 0 }
    }
}

impl Connections {
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

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Connection> {
        self.all.iter()
    }

    /// The latest connection between a segment's endpoints, its number, and whether its side 1 sends.
    #[inline(always)]
    pub(super) fn find_of(&mut self, segment: &Segment) -> Option<(&mut Connection, u32, bool)> {
        let (Address::V4(a), Address::V4(b)) = (segment.from.address, segment.to.address) else {
            return self.find_wide(segment);
        };
        let (a, b) = (end_v4(a, segment.from.port), end_v4(b, segment.to.port));
        let (high, low) = (a.max(b), a.min(b));
        let is_of = |connection: &Connection| connection.ends[0] == high && connection.ends[1] == low;
        if self.all.get(self.last as usize).is_some_and(is_of) {
            return Some((&mut self.all[self.last as usize], self.last, a <= b));
        }
        let hash = Ends::V4([high, low]).hash();
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize;
        loop {
            let entry = *self.slots.get(slot & mask)?;
            let number = (entry & 0xff_ffff).checked_sub(1)?;
            if entry & 0xff00_0000 == tag(hash) && is_of(&self.all[number as usize]) {
                self.last = number;
                return Some((&mut self.all[number as usize], number, a <= b));
            }
            slot += 1;
        }
    }

    /// [`Connections::find_of`] for IPv6.
    #[inline(never)]
    fn find_wide(&mut self, segment: &Segment) -> Option<(&mut Connection, u32, bool)> {
        let key = Key::of(segment);
        let number = self.find(&key)?;
        Some((&mut self.all[number as usize], number, key.from == 1))
    }

    pub(super) fn find(&mut self, key: &Key) -> Option<u32> {
        if self.all.get(self.last as usize).is_some_and(|connection| self.is_of(connection, key)) {
            return Some(self.last);
        }
        let number = (self.slots[self.slot(key)] & 0xff_ffff).checked_sub(1)?;
        self.last = number;
        Some(number)
    }

    /// Adds a connection, which becomes the latest between its endpoints.
    pub(super) fn begin(&mut self, key: &Key, segment: &Segment) -> u32 {
        if (self.taken + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let ends = match key.ends {
            Ends::V4(ends) => ends,
            Ends::V6(hosts, ports) => {
                self.wide.push(hosts);
                [both(ports), WIDE | (self.wide.len() as u64 - 1)]
            }
        };
        let number = self.all.len() as u32;
        self.all.push(Connection::new(key, ends, segment));
        let slot = self.slot(key);
        self.taken += usize::from(self.slots[slot] == 0);
        self.slots[slot] = tag(key.ends.hash()) | (number + 1);
        self.last = number;
        number
    }

    fn wide(&self, connection: &Connection) -> [Wide; 2] {
        self.wide[(connection.ends[1] & !WIDE) as usize]
    }

    fn ends_of(&self, connection: &Connection) -> Ends {
        if connection.has(connection::IS_WIDE) {
            let ports = connection.ends[0];
            Ends::V6(self.wide(connection), [(ports >> 16) as u16, ports as u16])
        } else {
            Ends::V4(connection.ends)
        }
    }

    pub(super) fn ends(&self, connection: &Connection) -> [Endpoint; 2] {
        match self.ends_of(connection) {
            Ends::V4(ends) => ends.map(|end| Endpoint { address: Address::V4((end >> 16) as u32), port: end as u16 }),
            Ends::V6(hosts, ports) => [0, 1].map(|i| Endpoint { address: Address::V6(hosts[i]), port: ports[i] }),
        }
    }

    /// The slot of the latest connection between two endpoints, or the free slot for it.
    #[inline]
    fn slot(&self, key: &Key) -> usize {
        let hash = key.ends.hash();
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
        match key.ends {
            Ends::V4(ends) => connection.ends == ends,
            Ends::V6(hosts, ports) => {
                connection.has(connection::IS_WIDE)
                    && connection.ends[0] == both(ports)
                    && self.wide(connection) == hosts
            }
        }
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![0; old.len() * 2];
        let mask = self.slots.len() - 1;
        for entry in old.into_iter().filter(|entry| *entry != 0) {
            let connection = &self.all[(entry & 0xff_ffff) as usize - 1];
            let mut slot = self.ends_of(connection).hash() as usize & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = entry;
        }
    }
}

/// The bits of the hash in a slot, which are not those that choose the slot.
#[inline]
fn tag(hash: u64) -> u32 {
    ((hash >> 56) as u32) << 24
}
