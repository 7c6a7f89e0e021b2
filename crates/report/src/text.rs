//! Numbers and words as people read them, and HTML's escapes.

use crate::stats::Estimate;

/// Text for HTML, in content and in attributes. Control characters, which HTML does not allow, are left out.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other if other.is_control() && other != '\n' && other != '\t' => {}
            other => escaped.push(other),
        }
    }
    escaped
}

/// A text of at most so many characters; a longer one loses its middle.
pub fn shorten(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let head = most * 2 / 3;
    let tail = most.saturating_sub(head + 1);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{begin}…{end}")
}

/// A number with three figures at least, and commas between thousands: `0.0123`, `1.51`, `87.0`, `12,345`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.001 => 3,
        _ => 6,
    };
    thousands(value, decimals)
}

/// A whole number with commas.
pub fn whole(value: f64) -> String {
    thousands(value, 0)
}

fn thousands(value: f64, decimals: usize) -> String {
    let plain = format!("{:.*}", decimals, value.abs());
    let (digits, rest) = plain
        .split_once('.')
        .map_or((plain.as_str(), String::new()), |(digits, rest)| (digits, format!(".{rest}")));
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let is_zero = grouped.chars().chain(rest.chars()).all(|c| matches!(c, '0' | '.' | ','));
    let sign = if value < 0.0 && !is_zero { "−" } else { "" };
    format!("{sign}{grouped}{rest}")
}

/// The unit that suits a value's size, and what it is of the base unit.
pub fn scaled(value: f64, unit: &str) -> (f64, &'static str) {
    // From this value on, one of the unit, its name.
    let units: &[(f64, f64, &'static str)] = match unit {
        "s" => &[(0.0, 1.0, "s"), (120.0, 60.0, "min"), (5_400.0, 3_600.0, "h"), (172_800.0, 86_400.0, "d")],
        "MB/s" => &[(0.0, 1.0, "MB/s"), (1e4, 1e3, "GB/s")],
        "bytes" => &[
            (0.0, 1.0, "bytes"),
            (1e3, 1e3, "kB"),
            (1e6, 1e6, "MB"),
            (1e9, 1e9, "GB"),
            (1e12, 1e12, "TB"),
            (1e15, 1e15, "PB"),
            (1e18, 1e18, "EB"),
        ],
        _ => &[(0.0, 1.0, "")],
    };
    let found = units.iter().rev().find(|(least, ..)| value.abs() >= least * 0.9995);
    found.map_or((1.0, ""), |(_, factor, name)| (*factor, *name))
}

/// A value with its unit, in the unit that suits its size: `8.20 h`, `5.20 TB`, `612 MB/s`, `54.0 %`.
pub fn with_unit(value: f64, unit: &str) -> String {
    let (factor, scaled) = scaled(value, unit);
    match unit {
        "s" | "bytes" | "MB/s" if value == 0.0 => {
            format!("0 {}", if unit == "bytes" { "bytes" } else { unit })
        }
        "s" | "bytes" | "MB/s" => format!("{} {scaled}", number(value / factor)),
        "/TB" => number(value),
        "files" | "" if value == value.round() => format!("{}{}", whole(value), spaced(unit)),
        _ => format!("{}{}", number(value), spaced(unit)),
    }
}

fn spaced(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

/// A mean with half the width of its interval, both in one unit: `612 ± 8 MB/s`. No figure is below 0: an
/// interval that would reach there is told by its ends, `58 min (0 to 128)`.
pub fn with_interval(estimate: &Estimate, unit: &str) -> String {
    let Some(half) = estimate.half_width.filter(|half| *half > 0.0) else {
        return with_unit(estimate.mean, unit);
    };
    if estimate.mean >= 0.0 && half > estimate.mean {
        return with_range(estimate.mean, [0.0, estimate.mean + half], unit);
    }
    let (factor, shown) = in_unit_of(estimate.mean, unit);
    let (mean, half) = (estimate.mean / factor, half / factor);
    let decimals = decimals_of(half);
    format!("{} ± {}{}", thousands(mean, decimals), thousands(half, decimals), spaced(shown))
}

/// A mean and the values between which it lies, in one unit: `58 min (51 to 65)`.
pub fn with_range(mean: f64, ends: [f64; 2], unit: &str) -> String {
    let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    if low >= high {
        return with_unit(mean, unit);
    }
    let (factor, shown) = in_unit_of(mean, unit);
    let decimals = decimals_of((high - low) / factor);
    let says = |value: f64| if value == 0.0 { "0".to_owned() } else { thousands(value / factor, decimals) };
    format!("{}{} ({} to {})", says(mean), spaced(shown), says(low), says(high))
}

/// What a value is divided by to be read, and the unit then.
fn in_unit_of(value: f64, unit: &str) -> (f64, &str) {
    let (factor, scaled) = scaled(value, unit);
    match unit {
        "s" | "bytes" | "MB/s" => (factor, scaled),
        "/TB" => (factor, ""),
        other => (factor, other),
    }
}

/// Two figures of a half width say enough, and the mean needs no more places than it.
fn decimals_of(half: f64) -> usize {
    (1.0 - half.log10().floor()).clamp(0.0, 6.0) as usize
}

/// A number as a sentence has it: at most three figures before any places.
pub fn spoken(value: f64) -> String {
    if value.abs() >= 19.95 { whole(value) } else { number(value) }
}

/// Seconds in words: `8.20 h`.
pub fn time(seconds: f64) -> String {
    with_unit(seconds, "s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let shown = [0.0, 0.01234, 1.514, 87.04, 123.6, 12_345.6, -3.0, -0.0, 1e9].map(number);
        assert_eq!(shown, ["0", "0.012", "1.51", "87.0", "124", "12,346", "−3.00", "0", "1,000,000,000"]);
        assert_eq!(number(f64::NAN), "–");
    }

    #[test]
    fn units_suit_the_size() {
        assert_eq!(with_unit(29_520.0, "s"), "8.20 h");
        assert_eq!(with_unit(100.0, "s"), "100 s");
        assert_eq!(with_unit(5.2e12, "bytes"), "5.20 TB");
        assert_eq!(with_unit(612.4, "MB/s"), "612 MB/s");
        assert_eq!(with_unit(25_000.0, "MB/s"), "25.0 GB/s");
        assert_eq!(with_unit(30_000.0, "files"), "30,000 files");
        assert_eq!(with_unit(54.0, "%"), "54.0 %");
        let estimate = Estimate { mean: 7_200.0, half_width: Some(360.0), count: 5 };
        assert_eq!(with_interval(&estimate, "s"), "2.00 ± 0.10 h");
        let wide = Estimate { mean: 3_480.0, half_width: Some(4_200.0), count: 3 };
        assert_eq!(with_interval(&wide, "s"), "58 min (0 to 128)");
        assert_eq!(with_range(3_480.0, [3_900.0, 3_060.0], "s"), "58 min (51 to 65)");
        assert_eq!(with_range(3_600.0, [3_600.0, 3_600.0], "s"), "60.0 min");
    }

    #[test]
    fn everything_is_escaped() {
        assert_eq!(
            escape("<a href=\"x\">&'\u{0}\u{1b}</a>"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;"
        );
        assert_eq!(shorten("abcdefghij", 6), "abcd…j");
        assert_eq!(shorten("ä", 6), "ä");
    }
}
