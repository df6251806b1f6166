//! Reading ahead: a thread of its own reads, and unpacks, while the blocks before are gone through.

use super::compressed::Unpacked;
use std::io::{self, ErrorKind, Read as _};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Room before what was read, for the begin of a frame whose other part is in the block before.
pub(super) const ROOM_BYTES: usize = 64 << 10;

/// How many blocks may wait.
const WAITING: usize = 4;

/// What the thread sends.
pub(super) enum Block {
    /// So many bytes, after the room.
    Read(Vec<u8>, usize),
    /// The source has ended, and whether it was cut.
    End(bool),
    Failed(io::Error),
}

/// A source that a thread reads. The thread ends with the source, or when nobody takes its blocks any more.
pub(super) struct Ahead {
    blocks: Receiver<Block>,
    used: Sender<Vec<u8>>,
}

impl Ahead {
    /// Begins to read blocks of so many bytes.
    pub(super) fn begin(source: Unpacked<'static>, block_bytes: usize) -> io::Result<Self> {
        let (send, blocks) = sync_channel(WAITING);
        let (used, free) = channel();
        let read = move || read_on(source, block_bytes, &send, &free);
        thread::Builder::new().name("holdup-read".to_owned()).spawn(read)?;
        Ok(Ahead { blocks, used })
    }

    /// The next block.
    pub(super) fn next(&self) -> Block {
        // A thread that is gone without a word has panicked.
        self.blocks.recv().unwrap_or_else(|_| Block::Failed(io::Error::other("the thread that read it has ended")))
    }

    /// Gives a block back, to be read into again.
    pub(super) fn give_back(&self, block: Vec<u8>) {
        let _nobody_reads_any_more = self.used.send(block);
    }
}

fn read_on(mut source: Unpacked<'static>, block_bytes: usize, to: &SyncSender<Block>, free: &Receiver<Vec<u8>>) {
    loop {
        let mut block = free.try_recv().unwrap_or_default();
        block.resize(ROOM_BYTES + block_bytes, 0);
        let mut length = 0;
        let mut end = None;
        // A block that is half full costs those that take it as much as a full one; but what is there is not held back.
        while length == 0 && end.is_none() {
            match source.read(&mut block[ROOM_BYTES + length..]) {
                Ok(0) => end = Some(Block::End(source.is_cut)),
                Ok(read) => length += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => end = Some(Block::Failed(e)),
            }
        }
        let is_over = end.is_some();
        if to.send(end.unwrap_or(Block::Read(block, length))).is_err() || is_over {
            return;
        }
    }
}
