//! Times, sizes and shares as people read them. `chart.js` of the timeline writes them in the same way.

/// Three digits and a unit: `1.82 s`, `18.0 ms`, `38.1 µs`; minutes and hours from two minutes on.
pub fn time(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if ns >= 7_200_000_000_000 {
        return format!("{:.1} h", seconds / 3600.0);
    }
    if ns >= 120_000_000_000 {
        return format!("{:.1} min", seconds / 60.0);
    }
    let (value, unit) = match ns {
        0 => return "0".to_owned(),
        1..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (seconds, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// `24.0 MiB`, `512 B`.
pub fn bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

/// `24 MiB`, `24.0 MiB (25165825 B)`, `512 B`: to the last byte, for sizes that are held against each other.
pub fn exact_bytes(count: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    // The largest of which it is a small multiple.
    let fits =
        |(unit, _): &&(u64, &str)| count.is_multiple_of(*unit) && (1..10_000).contains(&(count / unit));
    match units.iter().find(fits) {
        Some((unit, name)) => format!("{} {name}", count / unit),
        None if count < 1024 => bytes(count),
        None => format!("{} ({count} B)", bytes(count)),
    }
}

/// `87.4 %`.
pub fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A number with about three digits that count, and two behind the point at least where it is below ten.
pub fn three_digits(value: f64) -> String {
    let digits = match value {
        100.0.. => 0,
        10.0.. => 1,
        0.1.. => 2,
        // As many zeros behind the point as there are, and two digits after them.
        0.000_01.. => 1 + (-value.log10()).ceil() as usize,
        _ => 2,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_short() {
        let times = [0, 999, 1_000, 38_100, 18_000_000, 1_824_000_000, 59_000_000_000, 150_000_000_000];
        assert_eq!(
            times.map(time),
            ["0", "999 ns", "1.00 µs", "38.1 µs", "18.0 ms", "1.82 s", "59.0 s", "2.5 min"]
        );
        assert_eq!([0, 1023, 1024, 25_198_592].map(bytes), ["0 B", "1023 B", "1.00 KiB", "24.0 MiB"]);
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(share(0.8739), "87.4 %");
        let numbers = [0.0, 0.00352, 0.041, 0.467, 3.876, 41.31, 9993.4].map(three_digits);
        assert_eq!(numbers, ["0.00", "0.0035", "0.041", "0.47", "3.88", "41.3", "9993"]);
    }

    #[test]
    fn exact_sizes_leave_no_byte_out() {
        for (count, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_025, "1.00 KiB (1025 B)"),
            (3 << 30, "3 GiB"),
            ((3 << 30) + 1, "3.00 GiB (3221225473 B)"),
            (1_536 << 20, "1536 MiB"),
            (20_001 << 10, "19.5 MiB (20481024 B)"),
        ] {
            assert_eq!(exact_bytes(count), text);
        }
    }
}
