//! Captured bytes with their length on the wire.

use super::Why;

/// The rest of a frame or datagram.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    /// Of a reassembled datagram fewer than `captured`, but enough for its headers.
    bytes: &'a [u8],
    captured: u32,
    wire: u32,
}

impl<'a> View<'a> {
    /// A frame that was captured longer than it was counts as long as it was captured, as in tshark.
    pub(super) fn new(bytes: &'a [u8], wire: u32) -> Self {
        let captured = bytes.len() as u32;
        View { bytes, captured, wire: wire.max(captured) }
    }

    /// The first bytes of a completely captured datagram.
    pub(super) fn whole(bytes: &'a [u8], length: u32) -> Self {
        View { bytes, captured: length, wire: length }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn wire(self) -> u32 {
        self.wire
    }

    pub(super) fn was_captured(self, bytes: u32) -> bool {
        self.captured >= bytes
    }

    #[cold]
    fn missing(self, end: usize) -> Why {
        if end > self.wire as usize { Why::Malformed } else { Why::Cut }
    }

    pub(super) fn at<const N: usize>(self, at: usize) -> Result<[u8; N], Why> {
        self.bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| self.missing(at + N))
    }

    pub(super) fn byte(self, at: usize) -> Result<u8, Why> {
        self.at(at).map(|[byte]| byte)
    }

    pub(super) fn short(self, at: usize) -> Result<u16, Why> {
        self.at(at).map(u16::from_be_bytes)
    }

    pub(super) fn word(self, at: usize) -> Result<u32, Why> {
        self.at(at).map(u32::from_be_bytes)
    }

    /// The view after `bytes` bytes, which must be captured.
    pub(super) fn skip(self, bytes: usize) -> Result<Self, Why> {
        let length = bytes as u32;
        if length > self.captured {
            return Err(self.missing(bytes));
        }
        let rest = self.bytes.get(bytes..).unwrap_or_default();
        Ok(View { bytes: rest, captured: self.captured - length, wire: self.wire - length })
    }

    pub(super) fn limit(self, bytes: u32) -> Self {
        let kept = self.bytes.len().min(bytes as usize);
        View { bytes: &self.bytes[..kept], captured: self.captured.min(bytes), wire: self.wire.min(bytes) }
    }
}
