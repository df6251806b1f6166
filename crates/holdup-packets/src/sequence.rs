//! Comparison of sequence numbers, which wrap (RFC 9293, 3.4).
//!
//! Two numbers exactly 2^31 apart are each after the other, as in Wireshark.

#[inline]
pub(crate) fn is_after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

#[inline]
pub(crate) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[inline]
pub(crate) fn is_from(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) <= 0
}

#[inline]
pub(crate) fn is_up_to(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) <= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_continues_across_the_wrap() {
        assert!(is_after(3, u32::MAX - 3) && is_before(u32::MAX - 3, 3));
        assert!(is_from(7, 7) && is_up_to(7, 7) && !is_after(7, 7) && !is_before(7, 7));
        assert!(is_after(1 << 31, 0) && is_after(0, 1 << 31));
    }
}
