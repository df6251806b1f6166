//! Bytes that were captured, and how many there were on the wire.

use super::Why;

/// The rest of a frame, or of a datagram.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    /// What is there. Of a reassembled datagram that is less than what was captured, and enough for all headers.
    bytes: &'a [u8],
    captured: u32,
    wire: u32,
}

impl<'a> View<'a> {
    /// What was captured of so many bytes on the wire. A frame that was captured longer than it was counts as long as it was
    /// captured, as with tshark.
    pub(super) fn new(bytes: &'a [u8], wire: u32) -> Self {
        let captured = bytes.len() as u32;
        View { bytes, captured, wire: wire.max(captured) }
    }

    /// The first bytes of a datagram that was captured whole.
    pub(super) fn whole(bytes: &'a [u8], length: u32) -> Self {
        View { bytes, captured: length, wire: length }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes on the wire.
    pub(super) fn wire(self) -> u32 {
        self.wire
    }

    /// Whether so many bytes were captured.
    pub(super) fn was_captured(self, bytes: u32) -> bool {
        self.captured >= bytes
    }

    /// Why bytes that are not there are not.
    #[cold]
    fn missing(self, end: usize) -> Why {
        if end > self.wire as usize { Why::Malformed } else { Why::Cut }
    }

    /// Bytes at a place.
    pub(super) fn at<const N: usize>(self, at: usize) -> Result<[u8; N], Why> {
        self.bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| self.missing(at + N))
    }

    pub(super) fn byte(self, at: usize) -> Result<u8, Why> {
        self.at(at).map(|[byte]| byte)
    }

    /// A number of 16 bits in network order.
    pub(super) fn short(self, at: usize) -> Result<u16, Why> {
        self.at(at).map(u16::from_be_bytes)
    }

    /// A number of 32 bits in network order.
    pub(super) fn word(self, at: usize) -> Result<u32, Why> {
        self.at(at).map(u32::from_be_bytes)
    }

    /// What follows so many bytes, which must have been captured.
    pub(super) fn skip(self, bytes: usize) -> Result<Self, Why> {
        let length = bytes as u32;
        if length > self.captured {
            return Err(self.missing(bytes));
        }
        let rest = self.bytes.get(bytes..).unwrap_or_default();
        Ok(View { bytes: rest, captured: self.captured - length, wire: self.wire - length })
    }

    /// At most so many bytes.
    pub(super) fn limit(self, bytes: u32) -> Self {
        let kept = self.bytes.len().min(bytes as usize);
        View { bytes: &self.bytes[..kept], captured: self.captured.min(bytes), wire: self.wire.min(bytes) }
    }
}
