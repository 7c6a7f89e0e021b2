//! Volume identifiers of the site's cartridges.

use base::Vid;

use super::TapeIndex;

/// `A00000` in base 36, digits before letters.
const FIRST: u64 = 10 * 36u64.pow(5);
const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

pub(super) fn vid(tape: TapeIndex) -> Vid {
    let mut left = FIRST + u64::from(tape.0);
    let mut text = [b'0'; 6];
    for character in text.iter_mut().rev() {
        *character = DIGITS[(left % 36) as usize];
        left /= 36;
    }
    assert!(left == 0, "a site has at most 1,572,120,576 cartridges");
    std::str::from_utf8(&text).ok().and_then(|text| Vid::new(text).ok()).expect("base 36 makes a VID")
}

pub(super) fn index_of(vid: Vid) -> Option<TapeIndex> {
    let number = u64::from_str_radix(vid.as_str(), 36).ok()?;
    number.checked_sub(FIRST).and_then(|index| u32::try_from(index).ok()).map(TapeIndex)
}
