use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// What holds for every structure of fixed fields: what is read is written back bit for bit where the
/// structure has fields and zero elsewhere, fewer bytes are refused, and anything is read or refused without
/// a panic.
pub(crate) fn packed<T: Packed + PartialEq + fmt::Debug>() {
    let usage = T::usage();
    let used = |bytes: &[u8]| bytes.iter().zip(&usage).map(|(b, u)| b & u).collect::<Vec<_>>();
    let read = std::cell::Cell::new(0);
    TestRunner::deterministic()
        .run(&(prop::collection::vec(any::<u8>(), T::LENGTH), 0..T::LENGTH), |(bytes, cut)| {
            if let Ok(value) = T::decode(&bytes) {
                read.set(read.get() + 1);
                prop_assert_eq!(value.encode(), used(&bytes), "{:?}", &value);
                prop_assert_eq!(T::decode(&value.encode()), Ok(value));
            }
            match T::decode(bytes.get(..cut).unwrap_or_default()) {
                Ok(_) => prop_assert!(cut >= T::LENGTH_MIN),
                Err(error) => prop_assert!(error.at <= T::LENGTH && error.structure == T::NAME),
            }
            Ok(())
        })
        .unwrap();
    let blank = T::default().encode();
    assert_eq!(T::decode(&blank).map(|value| value.encode()), Ok(blank), "{}", T::NAME);
    assert!(read.get() > 0, "{}: no bytes were read", T::NAME);
}

/// What holds for every list: whatever `round` (which reads, writes and reads again) is given, it does not
/// panic; nor with what is near to these valid encodings.
pub(crate) fn any_bytes(samples: &[Vec<u8>], round: impl Fn(&[u8])) {
    for sample in samples {
        for end in 0..=sample.len() {
            round(&sample[..end]);
        }
        let mut near = sample.clone();
        for at in 0..sample.len() {
            for mask in [0x01, 0x02, 0x08, 0x80, 0xff] {
                near[at] ^= mask;
                round(&near);
                near[at] ^= mask;
            }
        }
    }
    TestRunner::deterministic()
        .run(&prop::collection::vec(any::<u8>(), 0..96), |bytes| {
            round(&bytes);
            Ok(())
        })
        .unwrap();
}

/// Reads hexadecimal digits.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn texts_are_printable_and_fit() {
    assert_eq!(Text::<8>::new("KIST").unwrap().0, *b"KIST    ");
    assert_eq!(Text::<4>::new("KIST2"), None);
    assert_eq!(Text::<4>::new("é"), None);
    assert_eq!(Text(*b"A\x01B\0").trimmed(), "A?B");
}

#[test]
fn signed_numbers_are_cut_only_if_they_fit() {
    for (value, fits) in [(-1, true), (-(1 << 23), true), ((1 << 23) - 1, true), (1 << 23, false)] {
        let mut bytes = [0; 3];
        let mut given = value;
        let mut layout = Layout::encoder("test", &mut bytes);
        layout.signed(0, 3, &mut given);
        assert_eq!(layout.finish().is_ok(), fits, "{value}");
        let mut back = 0;
        let mut layout = Layout::decoder("test", &bytes);
        layout.signed(0, 3, &mut back);
        assert_eq!(back == value, fits, "{value} came back as {back}");
    }
}

#[test]
fn a_fault_says_where() {
    let mut reader = Reader::new("test", &[0, 1, 2]);
    reader.u16().unwrap();
    let error = reader.u32().unwrap_err();
    assert_eq!(error.to_string(), "test, byte 2: 3 bytes are there, 6 are needed");
}

#[test]
#[should_panic(expected = "does not fit")]
fn a_length_that_does_not_fit_is_a_mistake() {
    set_length(&mut [0; 2], 0, 2, 65_536);
}
