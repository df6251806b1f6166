//! Records that perf compressed (`perf record -z`): one zstd frame goes through all of them, and has no end.

use super::HEAD;
use crate::bytes::u16_at;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The longest header of a zstd frame (RFC 8878, 3.1.1.1), which comes whole.
const LONGEST_FRAME_HEADER: usize = 18;

/// A last block without bytes: what the frame of perf has not.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

#[derive(Default)]
pub(super) struct Packed {
    decoder: Option<FrameDecoder>,
    /// Bytes of blocks that are not yet whole.
    waiting: Vec<u8>,
    /// Bytes of a record that is not yet whole.
    records: Vec<u8>,
}

impl Packed {
    /// Adds compressed bytes; the whole records that are known by now. The decoder holds back what later blocks may refer to.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        self.waiting.extend_from_slice(bytes);
        self.decode()?;
        Ok(self.whole_records())
    }

    /// The rest, with the number 0 for the place that is not known.
    pub(super) fn finish(mut self) -> Result<(Vec<u8>, u64), String> {
        if !self.waiting.is_empty() {
            return Err("the last compressed record is cut".to_owned());
        }
        self.waiting.extend_from_slice(&LAST_BLOCK);
        self.decode()?;
        Ok((self.records, 0))
    }

    fn decode(&mut self) -> Result<(), String> {
        let damaged = |why: &dyn std::fmt::Display| format!("zstd: {why}");
        let mut at = 0;
        if self.decoder.is_none() {
            if self.waiting.len() < LONGEST_FRAME_HEADER {
                return Ok(());
            }
            let mut source = self.waiting.as_slice();
            let mut decoder = FrameDecoder::new();
            decoder.init(&mut source).map_err(|e| damaged(&e))?;
            at = self.waiting.len() - source.len();
            self.decoder = Some(decoder);
        }
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        while let Some(block) = block(&self.waiting[at..]) {
            let mut source = block;
            decoder.decode_blocks(&mut source, BlockDecodingStrategy::UptoBlocks(1)).map_err(|e| damaged(&e))?;
            at += block.len();
            let ready = decoder.can_collect();
            if ready > 0 {
                decoder.collect_to_writer(&mut self.records).map_err(|e| damaged(&e))?;
            }
        }
        self.waiting.drain(..at);
        Ok(())
    }

    fn whole_records(&mut self) -> Vec<u8> {
        let mut end = 0;
        while let Some(length) = u16_at(&self.records, end + 6).map(usize::from) {
            // Too short a one stops here, and is refused by who reads it.
            if length < HEAD || end + length > self.records.len() {
                break;
            }
            end += length;
        }
        let rest = self.records.split_off(end);
        std::mem::replace(&mut self.records, rest)
    }
}

/// The whole block that bytes begin with (RFC 8878, 3.1.1.2).
fn block(bytes: &[u8]) -> Option<&[u8]> {
    let head = bytes.get(..3)?;
    let head = u32::from(head[0]) | u32::from(head[1]) << 8 | u32::from(head[2]) << 16;
    // One byte that is repeated has the length of what it stands for.
    let length = if head >> 1 & 3 == 1 { 1 } else { (head >> 3) as usize };
    bytes.get(..3 + length)
}
