//! Durations of ISO 8601, as clients of the grid send them: `PT1H`, `P1DT12H`, `P2W`.

use base::Duration;

/// Longest text that is read.
const TEXT_BYTES_MAX: usize = 64;
const DAY: u64 = 24 * 3600;

/// The duration that a text is; `None`: it is none. A year counts as 365 days, a month as 30. The smallest
/// unit may have a fraction, which counts to the second. What is too long to count is as long as can be.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let rest = text.strip_prefix('P').filter(|_| text.len() <= TEXT_BYTES_MAX)?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let mut sum = Sum { seconds: 0, is_over: false };
    sum.add(date, &[('Y', 365 * DAY), ('M', 30 * DAY), ('W', 7 * DAY), ('D', DAY)])?;
    sum.add(time, &[('H', 3600), ('M', 60), ('S', 1)])?;
    Some(Duration::from_secs(sum.seconds))
}

struct Sum {
    seconds: u64,
    /// A fraction was read: nothing comes behind it.
    is_over: bool,
}

impl Sum {
    /// Adds numbers, each with one of these units behind it, which come in this order.
    fn add(&mut self, text: &str, units: &[(char, u64)]) -> Option<()> {
        let (mut rest, mut units) = (text, units.iter());
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ','))?;
            let (number, behind) = rest.split_at_checked(end)?;
            let mut behind_unit = behind.chars();
            let unit = behind_unit.next()?;
            rest = behind_unit.as_str();
            let (_, seconds) = units.find(|(known, _)| *known == unit)?;
            self.add_one(number, *seconds)?;
        }
        Some(())
    }

    fn add_one(&mut self, number: &str, unit: u64) -> Option<()> {
        if self.is_over {
            return None;
        }
        let (whole, fraction) = match number.split_once(['.', ',']) {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (number, None),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || fraction.is_some_and(|fraction| !digits(fraction)) {
            return None;
        }
        let whole: u64 = whole.parse().unwrap_or(u64::MAX);
        self.seconds = self.seconds.saturating_add(whole.saturating_mul(unit));
        if let Some(fraction) = fraction {
            self.is_over = true;
            // Nine digits of it are more than seconds of any unit need.
            let digits = fraction.get(..9).unwrap_or(fraction);
            let number: u64 = digits.parse().ok()?;
            let of = 10_u64.pow(u32::try_from(digits.len()).ok()?);
            let part = u128::from(unit) * u128::from(number) / u128::from(of);
            self.seconds = self.seconds.saturating_add(u64::try_from(part).ok()?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read() {
        for (text, seconds) in [
            ("PT1H", 3_600),
            ("PT0S", 0),
            ("P1D", DAY),
            ("P2W", 14 * DAY),
            ("P1DT12H30M5S", DAY + 45_005),
            ("P1Y2M3D", 428 * DAY),
            ("PT36H", 129_600),
            ("PT0.5H", 1_800),
            ("PT1,25M", 75),
            ("PT1.9S", 1),
            ("PT99999999999999999999S", u64::MAX),
            ("P99999999999999999Y", u64::MAX),
        ] {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        let long = format!("PT{}S", "1".repeat(100));
        let none = [
            "", "P", "PT", "P1DT", "T1H", "1H", "PT1", "PT1X", "P1H", "PT1D", "PT1H1H", "PT1M1H", "-PT1H",
            "PT-1H", "PT+1H", "PT 1H", "PT1H ", "pt1h", "PTH", "PT.5H", "PT1.H", "PT1.5H3M", "PT1.2.3S",
            "P1.5DT1H", "PT٣H", "3600", &long,
        ];
        for text in none {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "-?P?[0-9.,YMWDTHSé ]{0,40}") {
            let _ = parse(&text);
        }
    }
}
