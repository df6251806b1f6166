//! Compressed streams, recognised by their magic numbers.

use super::damaged;
use lzma_rust2::XzReader;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::io::{self, BufRead, BufReader, Read};

/// Memory limit of a decoder, KiB. The highest levels of xz and zstd need 64 and 128 MiB.
const MOST_MEMORY_KIB: u32 = 192 << 10;

/// True if the begin of a stream is that of one that [`decompressed`] decompresses.
pub fn is_compressed(begin: &[u8]) -> bool {
    matches!(begin, [0x1f, 0x8b, ..] | [0xfd, b'7', b'z', b'X', b'Z', 0, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..])
}

/// Decompresses a stream; an uncompressed stream is returned as it is.
///
/// # Errors
/// When the stream cannot be read, or has an unsupported compression.
pub fn decompressed<'a>(from: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut from = BufReader::with_capacity(1 << 16, from);
    // One read may return less than the magic number.
    let mut begin = Vec::new();
    from.by_ref().take(6).read_to_end(&mut begin)?;
    let whole = io::Cursor::new(begin.clone()).chain(from);
    Ok(match begin.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(XzReader::new_mem_limit(whole, true, MOST_MEMORY_KIB)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(Zstd { whole: Some(whole), frame: None }),
        [b'B', b'Z', b'h', ..] => return Err(damaged("it is compressed with bzip2, which holdup does not read")),
        [0x5d, 0, 0, ..] => return Err(damaged("it is compressed with lzma, which holdup does not read")),
        [0x02, 0x21, 0x4c, 0x18, ..] | [0x04, 0x22, 0x4d, 0x18, ..] => {
            return Err(damaged("it is compressed with lz4, which holdup does not read"));
        }
        _ => Box::new(whole),
    })
}

/// Reads several zstd frames and verifies their checksums, which `ruzstd` does not.
struct Zstd<R: Read> {
    whole: Option<R>,
    frame: Option<StreamingDecoder<R, FrameDecoder>>,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(mut whole) = self.whole.take() {
                if whole.fill_buf()?.is_empty() {
                    self.whole = Some(whole);
                    return Ok(0);
                }
                self.frame = Some(StreamingDecoder::new(whole).map_err(|e| damaged(format!("zstd: {e}")))?);
            }
            let Some(frame) = &mut self.frame else { return Ok(0) };
            match frame.read(into)? {
                0 if !into.is_empty() => self.end_frame()?,
                read => return Ok(read),
            }
        }
    }
}

impl<R: BufRead> Zstd<R> {
    fn end_frame(&mut self) -> io::Result<()> {
        if let Some(frame) = self.frame.take() {
            let (whole, decoder) = frame.into_parts();
            if let (Some(said), Some(is)) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum())
                && said != is
            {
                return Err(damaged("zstd: the checksum of the data does not fit"));
            }
            self.whole = Some(whole);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        decompressed(bytes)?.read_to_end(&mut all)?;
        Ok(all)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn each_kind_of_stream_is_decompressed_and_verified() {
        let text = b"text ".repeat(40);
        // Made by `xz` and `zstd` from the same text.
        let xz = include_bytes!("samples/text.xz").as_slice();
        let zstd = include_bytes!("samples/text.zst").as_slice();
        for (name, stream) in [("plain", text.clone()), ("gzip", gzip(&text)), ("xz", xz.into()), ("zstd", zstd.into())]
        {
            assert_eq!(read(&stream).unwrap(), text, "{name}");
            if name != "plain" {
                let twice = [stream.as_slice(), &stream].concat();
                assert_eq!(read(&twice).unwrap().len(), 2 * text.len(), "{name}, two members");
                for cut in 6..stream.len() {
                    assert!(read(&stream[..cut]).is_err(), "{name} cut at {cut}");
                }
                let mut wrong = stream.clone();
                let last = wrong.len() - if name == "xz" { 30 } else { 3 };
                wrong[last] ^= 0x10;
                assert!(read(&wrong).is_err(), "{name} with a wrong byte");
            }
        }
        assert!(read(b"BZh91AY&SY").unwrap_err().to_string().contains("bzip2"));
        assert_eq!(read(b"").unwrap(), b"");
    }
}
