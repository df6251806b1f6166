//! A table as an Arrow IPC file (version 5 of the format, uncompressed): magic, the schema, one batch of records, the footer.
//!
//! The `arrow` and `parquet` crates would make the release 1.26 MB larger (measured alone, built for size); what is written here is
//! four types without nesting. The layout is that of Arrow's Columnar.rst, Message.fbs, Schema.fbs and File.fbs; the tests of the
//! Python package read every table back with pyarrow and polars.

use crate::flat::{Builder, Offset};
use holdup_model::Table;
use holdup_model::table::{Column, ValueKind, Values};

const MAGIC: &[u8; 6] = b"ARROW1";
/// `MetadataVersion.V5`.
const VERSION: i16 = 4;
/// Members of the union `MessageHeader`.
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;

/// The table as a file.
pub fn arrow(table: &Table) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.resize(8, 0);
    let message = message(SCHEMA, 0, |builder| schema(builder, table));
    encapsulate(&mut out, &message);
    let batch = Batch::of(table);
    let message = self::message(RECORD_BATCH, batch.body.len(), |builder| batch.header(builder, table.rows));
    let (begin, metadata) = (out.len(), encapsulate(&mut out, &message));
    out.extend_from_slice(&batch.body);
    // The end of the stream that the file holds.
    out.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let mut builder = Builder::new();
    let schema = schema(&mut builder, table);
    let block =
        [(begin as i64).to_le_bytes(), (metadata as i64).to_le_bytes(), (batch.body.len() as i64).to_le_bytes()];
    let batches = builder.structs(&block.concat(), 1);
    let footer = builder.table(|t| {
        t.short(0, VERSION);
        t.offset(1, schema);
        t.offset(3, batches);
    });
    let footer = builder.finish(footer);
    out.extend_from_slice(&footer);
    out.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    out.extend_from_slice(MAGIC);
    out
}

/// A message: its header, and how long the body is that follows it.
fn message(kind: u8, body: usize, header: impl FnOnce(&mut Builder) -> Offset) -> Vec<u8> {
    let mut builder = Builder::new();
    let header = header(&mut builder);
    let root = builder.table(|t| {
        t.long(3, body as i64);
        t.offset(2, header);
        t.short(0, VERSION);
        t.byte(1, kind);
    });
    builder.finish(root)
}

/// Adds a message behind its length; returns how long both are, a multiple of 8.
fn encapsulate(out: &mut Vec<u8>, message: &[u8]) -> usize {
    let padded = message.len().next_multiple_of(8);
    out.extend_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    out.extend_from_slice(&(padded as u32).to_le_bytes());
    out.extend_from_slice(message);
    out.resize(out.len() + padded - message.len(), 0);
    padded + 8
}

fn schema(builder: &mut Builder, table: &Table) -> Offset {
    let fields: Vec<Offset> = table.columns.iter().map(|column| field(builder, column)).collect();
    let fields = builder.offsets(&fields);
    builder.table(|t| t.offset(1, fields))
}

fn field(builder: &mut Builder, column: &Column) -> Offset {
    // Members of the union `Type`, with the tables that describe them.
    let (kind, described) = match column.kind.kind {
        ValueKind::Integer => (
            2,
            builder.table(|t| {
                t.int(0, 64);
                t.byte(1, 1);
            }),
        ),
        // `Precision.DOUBLE`
        ValueKind::Float => (3, builder.table(|t| t.short(0, 2))),
        ValueKind::Text => (5, builder.table(|_| {})),
        ValueKind::Boolean => (6, builder.table(|_| {})),
    };
    let children = builder.offsets(&[]);
    let name = builder.text(&column.kind.name);
    builder.table(|t| {
        t.offset(0, name);
        t.offset(3, described);
        t.offset(5, children);
        t.byte(1, u8::from(column.kind.is_nullable));
        t.byte(2, kind);
    })
}

/// The values of all columns.
struct Batch {
    body: Vec<u8>,
    /// `FieldNode`: length, and how many values are missing.
    nodes: Vec<u8>,
    /// `Buffer`: where it begins in the body, and its length.
    buffers: Vec<u8>,
}

impl Batch {
    fn of(table: &Table) -> Self {
        let mut batch = Batch { body: Vec::new(), nodes: Vec::new(), buffers: Vec::new() };
        for column in &table.columns {
            match &column.values {
                Values::Integer(all) => {
                    batch.begin(all);
                    batch.buffer(all.iter().flat_map(|v| v.unwrap_or(0).to_le_bytes()));
                }
                Values::Float(all) => {
                    batch.begin(all);
                    batch.buffer(all.iter().flat_map(|v| v.unwrap_or(0.0).to_le_bytes()));
                }
                Values::Boolean(all) => {
                    batch.begin(all);
                    batch.buffer(bits(all.iter().map(|v| *v == Some(true))));
                }
                Values::Text(all) => {
                    batch.begin(all);
                    batch.texts(all);
                }
            }
        }
        batch
    }

    /// The node of a column, and the bits that say which of its values are there.
    fn begin<T>(&mut self, values: &[Option<T>]) {
        let missing = values.iter().filter(|v| v.is_none()).count();
        self.nodes.extend((values.len() as i64).to_le_bytes());
        self.nodes.extend((missing as i64).to_le_bytes());
        let there = bits(values.iter().map(Option::is_some));
        // Without a missing value there need be no bits.
        self.buffer(if missing == 0 { Vec::new() } else { there });
    }

    /// The places at which texts end, then the texts.
    fn texts(&mut self, all: &[Option<String>]) {
        let mut end = 0_i32;
        let ends = all.iter().map(|text| {
            end += text.as_ref().map_or(0, |t| t.len() as i32);
            end
        });
        let ends: Vec<u8> = std::iter::once(0).chain(ends).flat_map(i32::to_le_bytes).collect();
        self.buffer(ends);
        self.buffer(all.iter().flatten().flat_map(|text| text.bytes()));
    }

    fn buffer(&mut self, bytes: impl IntoIterator<Item = u8>) {
        let begin = self.body.len();
        self.body.extend(bytes);
        self.buffers.extend((begin as i64).to_le_bytes());
        self.buffers.extend(((self.body.len() - begin) as i64).to_le_bytes());
        self.body.resize(self.body.len().next_multiple_of(8), 0);
    }

    fn header(&self, builder: &mut Builder, rows: usize) -> Offset {
        let nodes = builder.structs(&self.nodes, self.nodes.len() / 16);
        let buffers = builder.structs(&self.buffers, self.buffers.len() / 16);
        builder.table(|t| {
            t.long(0, rows as i64);
            t.offset(1, nodes);
            t.offset(2, buffers);
        })
    }
}

/// Bits in bytes, the lowest first.
pub(crate) fn bits(values: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, value) in values.enumerate() {
        if i % 8 == 0 {
            out.push(0);
        }
        if let (Some(last), true) = (out.last_mut(), value) {
            *last |= 1 << (i % 8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::table::{Cell, ColumnKind};

    #[test]
    fn a_file_is_framed_and_aligned() {
        let columns = vec![
            ColumnKind::new("n", ValueKind::Integer, true),
            ColumnKind::new("t", ValueKind::Text, false),
            ColumnKind::new("b", ValueKind::Boolean, false),
        ];
        let mut table = Table::new("t", columns);
        table.push([Cell::Missing, Cell::Text("ä".to_owned()), Cell::Boolean(true)]).unwrap();
        let file = arrow(&table);
        assert_eq!((&file[..6], &file[file.len() - 6..]), (&MAGIC[..], &MAGIC[..]));
        let footer = u32::from_le_bytes(file[file.len() - 10..file.len() - 6].try_into().unwrap()) as usize;
        assert_eq!((file.len() - 10 - footer) % 8, 0);
        assert_eq!(arrow(&table), file);
    }

    #[test]
    fn bits_fill_a_byte_from_below() {
        assert_eq!(bits([true, false, true].into_iter()), [0b101]);
        assert_eq!(bits((0..9).map(|i| i == 8)), [0, 1]);
    }
}
