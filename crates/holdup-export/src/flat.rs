//! FlatBuffers, as much of them as Arrow's metadata need. As the format's own builder does, it writes from the end to the begin:
//! what is referred to is there first, and offsets are counted from the end.

/// Where an object begins, counted from the end of the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offset(u32);

/// A buffer that is being written. Its bytes stand in the order of the file, those that were written last first.
pub(crate) struct Builder {
    /// The bytes in reverse, so that growing at the begin is growing at the end.
    reversed: Vec<u8>,
}

/// The fields of a table, by their number.
pub(crate) struct Fields {
    set: Vec<(u16, Field)>,
}

enum Field {
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Offset(Offset),
}

impl Fields {
    pub(crate) fn byte(&mut self, number: u16, value: u8) {
        self.set.push((number, Field::Byte(value)));
    }

    pub(crate) fn short(&mut self, number: u16, value: i16) {
        self.set.push((number, Field::Short(value)));
    }

    pub(crate) fn int(&mut self, number: u16, value: i32) {
        self.set.push((number, Field::Int(value)));
    }

    pub(crate) fn long(&mut self, number: u16, value: i64) {
        self.set.push((number, Field::Long(value)));
    }

    pub(crate) fn offset(&mut self, number: u16, value: Offset) {
        self.set.push((number, Field::Offset(value)));
    }
}

impl Field {
    fn size(&self) -> usize {
        match self {
            Field::Byte(_) => 1,
            Field::Short(_) => 2,
            Field::Int(_) | Field::Offset(_) => 4,
            Field::Long(_) => 8,
        }
    }
}

impl Builder {
    pub(crate) fn new() -> Self {
        Builder { reversed: Vec::new() }
    }

    fn here(&self) -> Offset {
        Offset(self.reversed.len() as u32)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    /// Room, so that what is `size` bytes long ends up at a multiple of `align` from the end.
    fn align(&mut self, size: usize, align: usize) {
        let padded = (self.reversed.len() + size).next_multiple_of(align) - size;
        self.reversed.resize(padded, 0);
    }

    /// A reference to an object that was written before.
    fn reference(&mut self, to: Offset) {
        self.align(4, 4);
        let distance = self.reversed.len() as u32 + 4 - to.0;
        self.put(&distance.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) -> Offset {
        self.align(text.len() + 1, 4);
        self.put(&[0]);
        self.put(text.as_bytes());
        self.put(&(text.len() as u32).to_le_bytes());
        self.here()
    }

    /// A vector of references.
    pub(crate) fn offsets(&mut self, all: &[Offset]) -> Offset {
        self.align(all.len() * 4, 4);
        all.iter().rev().for_each(|to| self.reference(*to));
        self.put(&(all.len() as u32).to_le_bytes());
        self.here()
    }

    /// A vector of structures, whose numbers have up to eight bytes.
    pub(crate) fn structs(&mut self, bytes: &[u8], count: usize) -> Offset {
        self.align(bytes.len(), 8);
        self.put(bytes);
        self.put(&(count as u32).to_le_bytes());
        self.here()
    }

    /// A table; fields stand in it with the largest first, so that each is aligned.
    pub(crate) fn table(&mut self, fill: impl FnOnce(&mut Fields)) -> Offset {
        let mut fields = Fields { set: Vec::new() };
        fill(&mut fields);
        fields.set.sort_by_key(|(number, field)| (field.size(), *number));
        let end = self.reversed.len();
        let mut places: Vec<(u16, usize)> = Vec::new();
        for (number, field) in &fields.set {
            let size = field.size();
            self.align(size, size);
            match field {
                Field::Byte(value) => self.put(&value.to_le_bytes()),
                Field::Short(value) => self.put(&value.to_le_bytes()),
                Field::Int(value) => self.put(&value.to_le_bytes()),
                Field::Long(value) => self.put(&value.to_le_bytes()),
                Field::Offset(to) => self.reference(*to),
            }
            places.push((*number, self.reversed.len()));
        }
        // The table begins with the distance to the list of its fields, which stands before it.
        self.align(4, 4);
        let count = places.iter().map(|(number, _)| usize::from(*number) + 1).max().unwrap_or(0);
        let list = 4 + 2 * count;
        self.put(&(list as i32).to_le_bytes());
        let table = self.here();
        let mut entries = vec![0_u16; count];
        for (number, place) in places {
            entries[usize::from(number)] = (table.0 as usize - place) as u16;
        }
        entries.iter().rev().for_each(|entry| self.put(&entry.to_le_bytes()));
        self.put(&((table.0 as usize - end) as u16).to_le_bytes());
        self.put(&(list as u16).to_le_bytes());
        table
    }

    /// The buffer, which begins with the place of its root and has a length that is a multiple of 8.
    pub(crate) fn finish(mut self, root: Offset) -> Vec<u8> {
        self.align(4, 8);
        self.reference(root);
        self.reversed.reverse();
        self.reversed
    }
}
