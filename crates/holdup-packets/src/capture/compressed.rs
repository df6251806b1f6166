//! Captures compressed with gzip or zstd, recognised by their magic numbers. This crate is pure and reads no xz, so it does not
//! share the reader of `holdup-kernels`, and a truncated stream is no error here.

use flate2::bufread::MultiGzDecoder;
use holdup_model::Problem;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::error::Error;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

/// The read buffer of a compressed source.
const PACKED_BYTES: usize = 64 << 10;

/// A decompressed source.
pub(super) struct Unpacked<'a> {
    source: Box<dyn Read + Send + 'a>,
    /// True if the compressed source was truncated, as one that is being written is.
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

/// Decompresses a source, if it is compressed.
///
/// # Errors
/// When the source cannot be read, or has another compression.
pub(super) fn unpacked<'a>(mut source: impl Read + Send + 'a) -> Result<Unpacked<'a>, Problem> {
    let mut begin = Vec::with_capacity(4);
    source.by_ref().take(4).read_to_end(&mut begin).map_err(|e| {
        Problem::host("capture", e.to_string()).hint("give a file that can be read, or - for standard input")
    })?;
    let kind = begin.clone();
    let whole = Cursor::new(begin).chain(source);
    let refused = |by: &str, with: &str| {
        Problem::usage("capture", format!("it is compressed with {by}, which is not supported"))
            .hint(format!("decompress it first: {with} -dc FILE | holdup packets -"))
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

/// Reads several zstd frames, skips skippable ones, and verifies checksums, which `ruzstd` does not.
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
            return Err(io::Error::new(ErrorKind::InvalidData, "zstd: the checksum of the data does not match"));
        }
        Ok(read)
    }
}

/// Maps an error of the decoder to `UnexpectedEof` if the source ended.
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
