//! A file of pcapng made from frames.

/// A file of pcapng that is being made (draft-ietf-opsawg-pcapng): a section is begun, interfaces are described, then frames.
#[derive(Debug, Clone, Default)]
pub struct PcapNg {
    bytes: Vec<u8>,
    is_big_endian: bool,
    /// Of each interface of the section: how many units a second has, and what is added to its times, s.
    interfaces: Vec<(u64, i64)>,
}

impl PcapNg {
    /// A file with one section, least significant byte first.
    pub fn new() -> Self {
        let mut made = PcapNg::default();
        made.section(false);
        made
    }

    /// Begins a section; interfaces are described anew.
    pub fn section(&mut self, is_big_endian: bool) {
        self.is_big_endian = is_big_endian;
        self.interfaces.clear();
        let mut body = self.order32(0x1a2b_3c4d).to_vec();
        body.extend(self.order16(1));
        body.extend(self.order16(0));
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body);
    }

    /// Describes an interface with times in microseconds, and returns its number.
    pub fn interface(&mut self, link: u32) -> u32 {
        self.interface_with(link, 0, None, None)
    }

    /// Describes an interface: its link layer, the length at which it cuts (0: none), `if_tsresol` as it stands in the file,
    /// and `if_tsoffset` in seconds. Returns its number.
    pub fn interface_with(&mut self, link: u32, snap_bytes: u32, resolution: Option<u8>, offset_s: Option<i64>) -> u32 {
        let mut body = self.order16(link as u16).to_vec();
        body.extend(self.order16(0));
        body.extend(self.order32(snap_bytes));
        let mut options = Vec::new();
        if let Some(resolution) = resolution {
            self.option(&mut options, 9, &[resolution]);
        }
        if let Some(offset_s) = offset_s {
            let bytes = if self.is_big_endian { offset_s.to_be_bytes() } else { offset_s.to_le_bytes() };
            self.option(&mut options, 14, &bytes);
        }
        if !options.is_empty() {
            self.option(&mut options, 0, &[]);
        }
        body.extend(options);
        self.block(1, &body);
        let units = match resolution {
            None => 1_000_000,
            Some(power) if power & 0x80 != 0 => 1 << (power & 0x7f),
            Some(power) => 10_u64.pow(power.into()),
        };
        self.interfaces.push((units, offset_s.unwrap_or(0)));
        self.interfaces.len() as u32 - 1
    }

    /// Adds a frame that an interface captured at a time, ns since the epoch, as an enhanced packet.
    pub fn frame(&mut self, interface: u32, at_ns: i64, frame: &[u8]) {
        self.cut_frame(interface, at_ns, frame, frame.len() as u32, &[]);
    }

    /// Adds what was captured of a frame as an enhanced packet: how long it was on the wire, and options as they are.
    ///
    /// # Panics
    /// When there is no such interface.
    pub fn cut_frame(&mut self, interface: u32, at_ns: i64, captured: &[u8], wire_bytes: u32, options: &[u8]) {
        let at = self.units(interface, at_ns);
        let mut body = Vec::new();
        for number in [interface, (at >> 32) as u32, at as u32, captured.len() as u32, wire_bytes] {
            body.extend(self.order32(number));
        }
        body.extend(captured);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(options);
        self.block(6, &body);
    }

    /// Adds a frame as a packet block of old, which says how many frames were dropped before it.
    ///
    /// # Panics
    /// When there is no such interface.
    pub fn old_frame(&mut self, interface: u32, at_ns: i64, frame: &[u8]) {
        let at = self.units(interface, at_ns);
        let mut body = self.order16(interface as u16).to_vec();
        body.extend(self.order16(0xffff));
        for number in [(at >> 32) as u32, at as u32, frame.len() as u32, frame.len() as u32] {
            body.extend(self.order32(number));
        }
        body.extend(frame);
        self.block(2, &body);
    }

    /// Adds what was captured of a frame of the first interface as a simple packet, which has no time.
    pub fn simple_frame(&mut self, captured: &[u8], wire_bytes: u32) {
        let mut body = self.order32(wire_bytes).to_vec();
        body.extend(captured);
        self.block(3, &body);
    }

    /// Adds a block of any type; its body is filled up to words.
    pub fn block(&mut self, kind: u32, body: &[u8]) {
        let length = self.order32(12 + body.len().next_multiple_of(4) as u32);
        self.bytes.extend(self.order32(kind));
        self.bytes.extend(length);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend(length);
    }

    /// The file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A time in the units of an interface.
    fn units(&self, interface: u32, at_ns: i64) -> u64 {
        let (units, offset_s) = self.interfaces[interface as usize];
        let since_ns = i128::from(at_ns) - i128::from(offset_s) * 1_000_000_000;
        (since_ns * i128::from(units) / 1_000_000_000) as u64
    }

    fn option(&self, options: &mut Vec<u8>, code: u16, value: &[u8]) {
        options.extend(self.order16(code));
        options.extend(self.order16(value.len() as u16));
        options.extend(value);
        options.resize(options.len().next_multiple_of(4), 0);
    }

    fn order32(&self, number: u32) -> [u8; 4] {
        if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn order16(&self, number: u16) -> [u8; 2] {
        if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }
}
