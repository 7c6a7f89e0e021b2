//! The value of a piece: its pages, or a map of those that are not zeros and these alone.

use bytes::Bytes;
use drive::PAGE;

/// Bytes of the map before the pages of a piece with holes: a bit for each page, the lowest first.
pub(crate) const MAP_BYTES: usize = 32;
/// The most pages of a piece: so many have a bit in the map, and fit into a value of 1 MiB.
pub(crate) const PAGES_MAX: usize = MAP_BYTES * 8;

/// The pages of a piece of which `kept` are stored. `None` if the value has another form.
pub(crate) fn decode(value: &Bytes, pages: u16, kept: u16) -> Option<Bytes> {
    let (pages, kept) = (usize::from(pages), usize::from(kept));
    if kept == pages {
        return (value.len() == pages * PAGE).then(|| value.clone());
    }
    let (map, mut stored) = value.split_at_checked(MAP_BYTES)?;
    if stored.len() != kept * PAGE || pages > PAGES_MAX {
        return None;
    }
    let mut whole = vec![0; pages * PAGE];
    for (number, page) in whole.chunks_mut(PAGE).enumerate() {
        if map.get(number / 8)? >> (number % 8) & 1 == 1 {
            let (one, rest) = stored.split_at_checked(PAGE)?;
            page.copy_from_slice(one);
            stored = rest;
        }
    }
    stored.is_empty().then(|| Bytes::from(whole))
}

/// The value of a piece, and how many pages are stored.
pub(crate) fn encode(whole: &[u8]) -> (Bytes, u16) {
    let pages = whole.len() / PAGE;
    assert!(pages <= PAGES_MAX && pages * PAGE == whole.len(), "a piece is whole pages, and not too many");
    let mut map = [0u8; MAP_BYTES];
    let mut stored = Vec::new();
    for (number, page) in whole.chunks(PAGE).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            if let Some(byte) = map.get_mut(number / 8) {
                *byte |= 1 << (number % 8);
            }
            stored.extend_from_slice(page);
        }
    }
    let kept = stored.len() / PAGE;
    if kept == pages {
        return (Bytes::copy_from_slice(whole), u16::try_from(kept).unwrap_or(u16::MAX));
    }
    (Bytes::from([map.as_slice(), &stored].concat()), u16::try_from(kept).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_with_holes_come_back() {
        for pages in [1usize, 2, 8, 9, 255, 256] {
            for step in [1, 2, 3, 300] {
                let mut whole = vec![0; pages * PAGE];
                for page in whole.chunks_mut(PAGE).step_by(step).skip(1) {
                    page[PAGE - 1] = 9;
                }
                let (value, kept) = encode(&whole);
                let back = decode(&value, pages as u16, kept).unwrap();
                assert!(back == whole, "{pages} pages, every {step}th");
                if usize::from(kept) < pages {
                    assert_eq!(value.len(), MAP_BYTES + usize::from(kept) * PAGE);
                }
                assert_eq!(decode(&value.slice(1..), pages as u16, kept), None);
            }
        }
    }
}
