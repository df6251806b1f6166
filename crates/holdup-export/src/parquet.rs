//! A table as a Parquet file: one group of rows, a page for each column, plain encoding, uncompressed. The footer is Thrift's
//! compact protocol (parquet.thrift of apache/parquet-format). Why it is not the `parquet` crate stands in `arrow.rs`.

use crate::arrow::bits;
use holdup_model::Table;
use holdup_model::table::{Column, ValueKind, Values};

const MAGIC: &[u8; 4] = b"PAR1";
/// `Encoding`
const PLAIN: i64 = 0;
const RLE: i64 = 3;

/// The table as a file.
pub fn parquet(table: &Table) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let mut chunks = Vec::new();
    // A table without rows has no group of them, and so no pages.
    for column in table.columns.iter().filter(|_| table.rows > 0) {
        let begin = out.len();
        let page = page(column);
        let mut header = Thrift::default();
        header.int(1, 0); // PageType.DATA_PAGE
        header.int(2, page.len() as i64);
        header.int(3, page.len() as i64);
        header.structure(5, |data| {
            data.int(1, table.rows as i64);
            data.int(2, PLAIN);
            data.int(3, RLE);
            data.int(4, RLE);
        });
        out.extend(header.finish());
        out.extend(page);
        chunks.push((begin, out.len() - begin));
    }
    let footer = footer(table, &chunks);
    out.extend_from_slice(&footer);
    out.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    out.extend_from_slice(MAGIC);
    out
}

/// Which values are there, where some may be missing; then those that are.
fn page(column: &Column) -> Vec<u8> {
    let mut out = match &column.values {
        _ if !column.kind.is_nullable => Vec::new(),
        Values::Integer(all) => levels(all),
        Values::Float(all) => levels(all),
        Values::Text(all) => levels(all),
        Values::Boolean(all) => levels(all),
    };
    match &column.values {
        Values::Integer(all) => out.extend(all.iter().flatten().flat_map(|v| v.to_le_bytes())),
        Values::Float(all) => out.extend(all.iter().flatten().flat_map(|v| v.to_le_bytes())),
        Values::Boolean(all) => out.extend(bits(all.iter().flatten().copied())),
        Values::Text(all) => {
            for text in all.iter().flatten() {
                out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
    out
}

/// Definition levels of one bit: one run of packed groups of eight, behind its length.
fn levels<T>(values: &[Option<T>]) -> Vec<u8> {
    let packed = bits(values.iter().map(Option::is_some));
    let mut run = Vec::new();
    varint(&mut run, (packed.len() as u64) << 1 | 1);
    run.extend(packed);
    let mut out = (run.len() as u32).to_le_bytes().to_vec();
    out.extend(run);
    out
}

/// `Type`
fn physical(kind: ValueKind) -> i64 {
    match kind {
        ValueKind::Boolean => 0,
        ValueKind::Integer => 2,
        ValueKind::Float => 5,
        ValueKind::Text => 6,
    }
}

/// `FileMetaData`
fn footer(table: &Table, chunks: &[(usize, usize)]) -> Vec<u8> {
    let mut file = Thrift::default();
    file.int(1, 1);
    file.structures(2, table.columns.len() + 1, |at, element| match at.checked_sub(1).map(|at| &table.columns[at]) {
        None => {
            element.text(4, "table");
            element.int(5, table.columns.len() as i64);
        }
        Some(column) => {
            element.int(1, physical(column.kind.kind));
            element.int(3, i64::from(column.kind.is_nullable)); // FieldRepetitionType: REQUIRED, OPTIONAL
            element.text(4, &column.kind.name);
            if column.kind.kind == ValueKind::Text {
                element.int(6, 0); // ConvertedType.UTF8
                element.structure(10, |logical| logical.structure(1, |_| {})); // LogicalType.STRING
            }
        }
    });
    file.long(3, table.rows as i64);
    let groups = usize::from(!chunks.is_empty());
    file.structures(4, groups, |_, group| {
        group.structures(1, chunks.len(), |at, chunk| {
            let (begin, bytes) = chunks[at];
            chunk.long(2, begin as i64);
            chunk.structure(3, |meta| {
                meta.int(1, physical(table.columns[at].kind.kind));
                meta.ints(2, &[PLAIN, RLE]);
                meta.texts(3, &[&table.columns[at].kind.name]);
                meta.int(4, 0); // CompressionCodec.UNCOMPRESSED
                meta.long(5, table.rows as i64);
                meta.long(6, bytes as i64);
                meta.long(7, bytes as i64);
                meta.long(9, begin as i64);
            });
        });
        group.long(2, chunks.iter().map(|(_, bytes)| *bytes as i64).sum());
        group.long(3, table.rows as i64);
    });
    file.text(6, "holdup");
    file.finish()
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A structure in Thrift's compact protocol.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    /// The number of the last field.
    last: u8,
}

/// Types of the compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl Thrift {
    fn field(&mut self, number: u8, kind: u8) {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn zigzag(&mut self, value: i64) {
        varint(&mut self.bytes, (value << 1 ^ value >> 63) as u64);
    }

    fn list(&mut self, count: usize, kind: u8) {
        if count < 15 {
            self.bytes.push((count as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(&mut self.bytes, count as u64);
        }
    }

    fn binary(&mut self, text: &str) {
        varint(&mut self.bytes, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn int(&mut self, number: u8, value: i64) {
        self.field(number, I32);
        self.zigzag(value);
    }

    fn long(&mut self, number: u8, value: i64) {
        self.field(number, I64);
        self.zigzag(value);
    }

    fn text(&mut self, number: u8, text: &str) {
        self.field(number, BINARY);
        self.binary(text);
    }

    fn ints(&mut self, number: u8, values: &[i64]) {
        self.field(number, LIST);
        self.list(values.len(), I32);
        values.iter().for_each(|value| self.zigzag(*value));
    }

    fn texts(&mut self, number: u8, texts: &[&str]) {
        self.field(number, LIST);
        self.list(texts.len(), BINARY);
        texts.iter().for_each(|text| self.binary(text));
    }

    fn structure(&mut self, number: u8, fill: impl FnOnce(&mut Thrift)) {
        self.field(number, STRUCT);
        self.inner(fill);
    }

    fn structures(&mut self, number: u8, count: usize, mut fill: impl FnMut(usize, &mut Thrift)) {
        self.field(number, LIST);
        self.list(count, STRUCT);
        (0..count).for_each(|at| self.inner(|inner| fill(at, inner)));
    }

    fn inner(&mut self, fill: impl FnOnce(&mut Thrift)) {
        let mut inner = Thrift::default();
        fill(&mut inner);
        self.bytes.extend(inner.finish());
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::table::{Cell, ColumnKind};

    #[test]
    fn numbers_are_as_thrift_has_them() {
        let mut thrift = Thrift::default();
        thrift.int(1, -1);
        thrift.long(3, 300);
        thrift.text(4, "a");
        assert_eq!(thrift.finish(), [0x15, 1, 0x26, 0xd8, 4, 0x18, 1, b'a', 0]);
    }

    #[test]
    fn missing_values_are_levels_and_take_no_room() {
        let mut table = Table::new("t", vec![ColumnKind::new("n", ValueKind::Integer, true)]);
        table.push([Cell::Integer(5)]).unwrap();
        table.push([Cell::Missing]).unwrap();
        assert_eq!(page(&table.columns[0]), [2, 0, 0, 0, 3, 1, 5, 0, 0, 0, 0, 0, 0, 0]);
        let file = parquet(&table);
        assert_eq!((&file[..4], &file[file.len() - 4..]), (&MAGIC[..], &MAGIC[..]));
    }
}
