//! Places in a text file.

use std::fmt;

/// A place in a text file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// The first character of a file.
    pub const START: Position = Position { line: 1, column: 1 };

    /// The place `offset` bytes into `source`, which has a character there.
    pub fn at_offset(source: &str, offset: usize) -> Position {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// The place of `part` in `source`; `part` must be a slice of `source`, else this is its start.
    pub fn of_part(source: &str, part: &str) -> Position {
        let offset = (part.as_ptr() as usize).wrapping_sub(source.as_ptr() as usize);
        if offset <= source.len() { Position::at_offset(source, offset) } else { Position::START }
    }

    /// This place, found in a text that itself begins at `start` of a larger one.
    pub fn within(self, start: Position) -> Position {
        if self.line == 1 {
            Position { line: start.line, column: start.column + self.column - 1 }
        } else {
            Position { line: start.line + self.line - 1, column: self.column }
        }
    }
}

impl From<ron::error::Position> for Position {
    fn from(position: ron::error::Position) -> Position {
        Position { line: position.line, column: position.col }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "first\nsécond (x: 1)\n";

    #[test]
    fn columns_count_characters() {
        let part = &SOURCE[SOURCE.find('(').expect("it is there")..];
        assert_eq!(Position::of_part(SOURCE, part), Position { line: 2, column: 8 });
    }

    #[test]
    fn a_place_in_a_part_is_a_place_in_the_whole() {
        let start = Position { line: 3, column: 5 };
        assert_eq!(Position { line: 1, column: 2 }.within(start), Position { line: 3, column: 6 });
        assert_eq!(Position { line: 2, column: 2 }.within(start), Position { line: 4, column: 2 });
    }
}
