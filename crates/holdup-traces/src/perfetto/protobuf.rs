//! The encoding of protocol buffers (protobuf.dev/programming-guides/encoding), as far as traces have it.

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Bytes(_) => 0,
        }
    }

    /// Numbers below zero take all 64 bits.
    pub(super) fn signed(self) -> i32 {
        self.number() as i64 as i32
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Value::Number(_) => &[],
            Value::Bytes(bytes) => bytes,
        }
    }
}

/// The fields of a message, in their order: number and value, or the place in it that is wrong.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

pub(super) fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { bytes, at: 0 }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), usize>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let begin = self.at;
        let field = self.field().ok_or(begin);
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = varint(self.bytes, &mut self.at)?;
        let number = u32::try_from(tag >> 3).ok()?;
        let value = match tag & 7 {
            0 => Value::Number(varint(self.bytes, &mut self.at)?),
            1 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(self.bytes, &mut self.at)?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Number(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((number, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(bytes)
    }
}

/// A number in pieces of seven bits, byte by byte; `None` where it has no end.
pub(super) fn number<E>(mut byte: impl FnMut() -> Result<u8, E>) -> Result<Option<u64>, E> {
    let mut number = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = byte()?;
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The number at a place, which moves behind it.
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let byte = || {
        let byte = *bytes.get(*at).ok_or(())?;
        *at += 1;
        Ok::<u8, ()>(byte)
    };
    number(byte).ok().flatten()
}

/// Numbers one after the other, as a packed field has them.
pub(super) fn packed(bytes: &[u8]) -> Option<Vec<u64>> {
    let (mut at, mut numbers) = (0, Vec::new());
    while at < bytes.len() {
        numbers.push(varint(bytes, &mut at)?);
    }
    Some(numbers)
}
