//! A file of pcap made from frames.

/// A file of pcap that is being made (draft-ietf-opsawg-pcap).
#[derive(Debug, Clone)]
pub struct Pcap {
    link: u32,
    snap_bytes: u32,
    is_big_endian: bool,
    has_nanoseconds: bool,
    frames: Vec<u8>,
}

impl Pcap {
    /// A file of one link layer, in microseconds, least significant byte first, that cuts frames at 262,144 bytes.
    pub fn new(link: u32) -> Self {
        Pcap { link, snap_bytes: 262_144, is_big_endian: false, has_nanoseconds: false, frames: Vec::new() }
    }

    /// The same with times in nanoseconds.
    #[must_use]
    pub fn with_nanoseconds(mut self) -> Self {
        self.has_nanoseconds = true;
        self
    }

    /// The same with the most significant byte first.
    #[must_use]
    pub fn big_endian(mut self) -> Self {
        self.is_big_endian = true;
        self
    }

    /// The same, which cuts frames at a length.
    #[must_use]
    pub fn cut_at(mut self, snap_bytes: u32) -> Self {
        self.snap_bytes = snap_bytes;
        self
    }

    /// Adds a frame that was captured at a time, ns since the epoch, which is cut to the unit of the file.
    pub fn frame(&mut self, at_ns: i64, frame: &[u8]) {
        let captured = &frame[..frame.len().min(self.snap_bytes as usize)];
        self.cut_frame(at_ns, captured, frame.len() as u32);
    }

    /// Adds what was captured of a frame, and how long it was on the wire.
    pub fn cut_frame(&mut self, at_ns: i64, captured: &[u8], wire_bytes: u32) {
        let unit_ns = if self.has_nanoseconds { 1 } else { 1000 };
        let (seconds, rest_ns) = (at_ns.div_euclid(1_000_000_000), at_ns.rem_euclid(1_000_000_000));
        for number in [seconds as u32, (rest_ns / unit_ns) as u32, captured.len() as u32, wire_bytes] {
            self.frames.extend(self.order(number));
        }
        self.frames.extend(captured);
    }

    /// The file.
    pub fn into_bytes(self) -> Vec<u8> {
        let magic = if self.has_nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4_u32 };
        // Version 2.4: two numbers of 16 bits.
        let version = if self.is_big_endian { 2 << 16 | 4 } else { 4 << 16 | 2 };
        let head = [magic, version, 0, 0, self.snap_bytes, self.link].map(|number| self.order(number));
        [head.as_flattened(), &self.frames].concat()
    }

    fn order(&self, number: u32) -> [u8; 4] {
        if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }
}
