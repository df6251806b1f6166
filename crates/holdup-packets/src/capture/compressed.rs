//! Captures that are packed by gzip or zstd, told by how they begin.

use flate2::bufread::MultiGzDecoder;
use holdup_model::Problem;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::error::Error;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

/// How much of a packed source is read at once, bytes.
const PACKED_BYTES: usize = 64 << 10;

/// A source, unpacked where it is packed.
pub(super) struct Unpacked<'a> {
    source: Box<dyn Read + Send + 'a>,
    /// Whether a packed source broke off. One that is being written does, and what was unpacked before is whole.
    pub(super) is_cut: bool,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.source.read(into) {
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                Ok(0)
            }
            read => read,
        }
    }
}

/// Unpacks a source where it is packed.
///
/// # Errors
/// When the source cannot be read, or is packed by something else.
pub(super) fn unpacked<'a>(mut source: impl Read + Send + 'a) -> Result<Unpacked<'a>, Problem> {
    let mut begin = Vec::with_capacity(4);
    source.by_ref().take(4).read_to_end(&mut begin).map_err(|e| {
        Problem::host("capture", e.to_string()).hint("give a file that can be read, or - for standard input")
    })?;
    let kind = begin.clone();
    let whole = Cursor::new(begin).chain(source);
    let refused = |by: &str, with: &str| {
        Problem::usage("capture", format!("it is packed by {by}, which is not read"))
            .hint(format!("unpack it on the way: {with} -dc FILE | holdup packets -"))
    };
    let source: Box<dyn Read + Send + 'a> = match kind.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(BufReader::with_capacity(PACKED_BYTES, whole))),
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            let whole = BufReader::with_capacity(PACKED_BYTES, whole);
            Box::new(Zstd { whole, decoder: FrameDecoder::new(), is_in_frame: false })
        }
        [0x04, 0x22, 0x4d, 0x18] => return Err(refused("lz4", "lz4")),
        [0xfd, b'7', b'z', b'X'] => return Err(refused("xz", "xz")),
        [b'B', b'Z', b'h', _] => return Err(refused("bzip2", "bzip2")),
        _ => Box::new(whole),
    };
    Ok(Unpacked { source, is_cut: false })
}

/// Frames of zstd one after another, skippable ones among them. Each is checked against its checksum.
struct Zstd<R> {
    whole: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_in_frame {
                let read = self.read_frame(into)?;
                if read > 0 || into.is_empty() {
                    return Ok(read);
                }
                self.is_in_frame = false;
            }
            if self.whole.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.decoder.init(&mut self.whole) {
                Ok(()) => self.is_in_frame = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.whole.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(e) => return Err(of_zstd(e)),
            }
        }
    }
}

impl<R: BufRead> Zstd<R> {
    /// Bytes of the frame, none at its end.
    fn read_frame(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Zstd { whole, decoder, .. } = self;
        while decoder.can_collect() == 0 && !decoder.is_finished() {
            decoder.decode_blocks(&mut *whole, BlockDecodingStrategy::UptoBlocks(1)).map_err(of_zstd)?;
        }
        let read = decoder.read(into)?;
        if read == 0
            && let (Some(said), Some(is)) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum())
            && said != is
        {
            return Err(io::Error::new(ErrorKind::InvalidData, "zstd: the checksum of the data does not fit"));
        }
        Ok(read)
    }
}

/// An error of the decoder of zstd, as the end of the source where that is behind it.
fn of_zstd(error: FrameDecoderError) -> io::Error {
    let mut reason: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(inner) = reason {
        if inner.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::UnexpectedEof) {
            return ErrorKind::UnexpectedEof.into();
        }
        reason = inner.source();
    }
    io::Error::new(ErrorKind::InvalidData, format!("zstd: {error}"))
}
