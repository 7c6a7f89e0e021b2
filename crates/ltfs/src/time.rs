//! LTFS time stamps, `YYYY-MM-DDThh:mm:ss.nnnnnnnnnZ`.

use base::Timestamp;

/// The 30 characters of a time stamp.
pub(crate) fn format(time: Timestamp) -> String {
    let (year, month, day, hour, minute, second, nanos) = time.civil();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// Reads a time stamp. Times that 64 bits of nanoseconds do not reach (before 1677-09-21T00:12:43.145224192Z,
/// after 2262-04-11T23:47:16.854775807Z) become the nearest time that they do, because foreign volumes may
/// hold them. `None` if malformed.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let mut shape = b"dddd-dd-ddTdd:dd:dd.dddddddddZ".iter();
    let fits = |(&have, &want): (&u8, &u8)| if want == b'd' { have.is_ascii_digit() } else { have == want };
    if bytes.len() != 30 || !bytes.iter().zip(&mut shape).all(fits) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u32>().ok();
    let (year, month, day) = (i64::from(number(0, 4)?), number(5, 7)?, number(8, 10)?);
    let (hour, minute, second, nanos) = (number(11, 13)?, number(14, 16)?, number(17, 19)?, number(20, 29)?);
    let in_range =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
    if !in_range {
        return None;
    }
    let fields = (year, month, day, hour, minute, second, nanos);
    if fields < Timestamp(i64::MIN).civil() {
        return Some(Timestamp(i64::MIN));
    }
    if fields > Timestamp(i64::MAX).civil() {
        return Some(Timestamp(i64::MAX));
    }
    Timestamp::from_civil(year, month, day, hour, minute, second, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn malformed_times_are_refused() {
        assert_eq!(parse("2026-11-21T20:29:00.000000001Z"), Some(Timestamp(1_795_292_940_000_000_001)));
        assert_eq!(parse("9999-12-31T23:59:59.999999999Z"), Some(Timestamp(i64::MAX)));
        for bad in [
            "",
            "2026-11-21T20:29:00Z",
            "2026-11-21T20:29:00.000000001",
            "2026-02-30T20:29:00.000000001Z",
            "2026-13-01T20:29:00.000000001Z",
            "2026-11-21T24:29:00.000000001Z",
            "+026-11-21T20:29:00.000000001Z",
            "2026-11-21T20:29:60.000000001Z",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    /// Times in the last months that can be represented were read as the very last one: a file of such a time
    /// changed it when an index was read from tape.
    #[test]
    fn the_first_and_the_last_time_come_back_and_those_beyond_become_them() {
        for nanos in [i64::MIN, i64::MIN + 1, 9_221_187_870_000_000_000, i64::MAX - 1, i64::MAX] {
            assert_eq!(parse(&format(Timestamp(nanos))), Some(Timestamp(nanos)));
        }
        assert_eq!(parse("2262-04-11T23:47:16.854775808Z"), Some(Timestamp(i64::MAX)));
        assert_eq!(parse("1677-09-21T00:12:43.145224191Z"), Some(Timestamp(i64::MIN)));
        assert_eq!(parse("0000-01-01T00:00:00.000000000Z"), Some(Timestamp(i64::MIN)));
    }

    proptest! {
        #[test]
        fn times_round_trip(nanos in any::<i64>()) {
            prop_assert_eq!(parse(&format(Timestamp(nanos))), Some(Timestamp(nanos)));
        }

        #[test]
        fn any_text_is_safe(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
