//! Times, as people write them.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units with their nanoseconds, those first whose name ends like another's.
const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("s", 1_000_000_000),
];

/// The longest time there is: a hundred years, so that sums of a run stay far from what a `u64` holds.
const LONGEST_NS: u64 = 100 * 366 * 24 * 3_600 * 1_000_000_000;

/// A span of time, in nanoseconds. Written as a number and a unit: `"1.82s"`, `"18ms"`, `"250us"`, `"40ns"`, `"2min"`, `"1h"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// Why a text is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// It runs backwards.
    #[error("\"{0}\" is negative; a time is zero or more")]
    Negative(String),
    /// It is longer than a scenario may be.
    #[error("\"{0}\" is too long; a time is at most a hundred years")]
    TooLong(String),
    /// It is something else.
    #[error("\"{0}\" is no time; write a number and ns, us, ms, s, min or h, as in \"1.82s\"")]
    NotATime(String),
}

impl Time {
    /// A time of so many seconds.
    ///
    /// # Panics
    /// For what is no number of seconds between zero and a hundred years.
    pub fn from_secs_f64(seconds: f64) -> Time {
        let nanoseconds = (seconds * 1e9).round();
        assert!((0.0..=LONGEST_NS as f64).contains(&nanoseconds), "{seconds} is no time in seconds");
        Time(nanoseconds as u64)
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Time, TimeError> {
        let not_a_time = || TimeError::NotATime(text.to_owned());
        let trimmed = text.trim();
        let (number, unit) = UNITS
            .iter()
            .find_map(|(unit, ns)| Some((trimmed.strip_suffix(unit)?.trim_end(), *ns)))
            .ok_or_else(not_a_time)?;
        if let Some(rest) = number.strip_prefix('-') {
            return Err(if nanoseconds(rest, unit).is_some() {
                TimeError::Negative(text.to_owned())
            } else {
                not_a_time()
            });
        }
        match nanoseconds(number, unit).ok_or_else(not_a_time)? {
            Some(ns) if ns <= LONGEST_NS => Ok(Time(ns)),
            _ => Err(TimeError::TooLong(text.to_owned())),
        }
    }
}

/// A decimal number of units in nanoseconds, rounded down; `Some(None)` if it is more than a `u64` holds.
fn nanoseconds(number: &str, unit: u64) -> Option<Option<u64>> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || (part.is_empty() && number.ends_with('.')) {
        return None;
    }
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(unit));
    let (mut fraction, mut scale) = (0_u128, 1_u128);
    for digit in part.bytes().take(18) {
        fraction = fraction * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    // Less than one unit, and so within a `u64`.
    let fraction = (fraction * u128::from(unit) / scale) as u64;
    Some(whole.and_then(|whole| whole.checked_add(fraction)))
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = match self.0 {
            1_000_000_000.. => ("s", 1_000_000_000),
            1_000_000.. => ("ms", 1_000_000),
            1_000.. => ("us", 1_000),
            _ => ("ns", 1),
        };
        let (whole, part) = (self.0 / scale, self.0 % scale);
        if part == 0 {
            return write!(f, "{whole}{unit}");
        }
        let digits = scale.ilog10() as usize;
        let part = format!("{part:0digits$}");
        write!(f, "{whole}.{}{unit}", part.trim_end_matches('0'))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"1.8s\", in quotes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, ns) in [
            ("0s", 0),
            ("1.82s", 1_820_000_000),
            ("18ms", 18_000_000),
            ("0.018s", 18_000_000),
            ("250us", 250_000),
            ("7ns", 7),
            ("2 min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0.000000001s", 1),
            ("1.5ns", 1),
            ("0.333333333333333333333s", 333_333_333),
        ] {
            assert_eq!(text.parse(), Ok(Time(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for ns in [0, 1, 999, 1_000, 1_001, 18_000_000, 1_820_000_000, 61_000_000_007, LONGEST_NS] {
            assert_eq!(Time(ns).to_string().parse(), Ok(Time(ns)), "{}", Time(ns));
        }
        assert_eq!(Time(1_820_000_000).to_string(), "1.82s");
    }

    #[test]
    fn what_is_no_time_is_told_apart() {
        let refused = |text: &str| text.parse::<Time>().expect_err(text);
        for text in ["-1s", "-0.5ms"] {
            assert!(matches!(refused(text), TimeError::Negative(_)), "{text}");
        }
        for text in ["1000000000h", "99999999999999999999s", "200000h0000"] {
            assert!(!matches!(refused(text), TimeError::Negative(_)), "{text}");
        }
        assert!(matches!(refused("99999999999999999999s"), TimeError::TooLong(_)));
        for text in
            ["", "s", "1", "1m", "1,5s", ".5s", "5.s", "NaNs", "infs", "1e3s", "--1s", "1.2.3s", "+1s"]
        {
            assert!(matches!(refused(text), TimeError::NotATime(_)), "{text}");
        }
    }
}
