//! What a library or its process says, made fit for a terminal and a log.

/// The most characters of a text that are shown.
const MAX_SHOWN: usize = 1_024;

/// The text without control characters: it can neither paint the terminal nor make lines of its own.
pub(crate) fn without_controls(text: &str) -> String {
    shown(text.chars())
}

/// The same, of bounded length.
pub(crate) fn printable(text: &str) -> String {
    shown(text.chars().take(MAX_SHOWN))
}

fn shown(text: impl Iterator<Item = char>) -> String {
    text.map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_paints_the_terminal() {
        for clean in [without_controls, printable] {
            assert_eq!(clean("a\x1b[2Jb\nc\td"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d");
        }
        assert_eq!(printable(&"x".repeat(5_000)).len(), MAX_SHOWN);
    }
}
