//! What can be wrong with a reply. The old state is kept whole whenever one of these is returned.

use std::fmt;

/// Why a reply could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// Where in the chunk the trouble begins, in bytes.
    pub offset: usize,
    /// What was wrong.
    pub problem: Problem,
}

/// The kinds of trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The bytes end inside a field.
    Truncated,
    /// A variable-length integer of more than ten bytes.
    Overlong,
    /// A known field with another wire type than it has, or a wire type that does not exist.
    WireType,
    /// Field number 0, or one past the largest.
    FieldNumber,
    /// A string that is not UTF-8.
    Utf8,
    /// An id that stands twice in one list.
    Duplicate(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.problem {
            Problem::Truncated => "the reply ends inside a field".to_owned(),
            Problem::Overlong => "an integer is longer than ten bytes".to_owned(),
            Problem::WireType => "a field has the wrong wire type".to_owned(),
            Problem::FieldNumber => "a field number is out of range".to_owned(),
            Problem::Utf8 => "a string is not UTF-8".to_owned(),
            Problem::Duplicate(id) => format!("id {id} stands twice in the list"),
        };
        write!(f, "at byte {}: {}", self.offset, what)
    }
}

impl std::error::Error for DecodeError {}
