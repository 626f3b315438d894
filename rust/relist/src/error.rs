//! The faults of a reply. The old state is kept whole whenever one of these is returned.
//!
//! The words of [`DecodeError`] reach an operator, who must learn from them which reply of the runtime is broken and
//! where; the Python twin uses the same words, and the tests hold the two together.

use std::borrow::Cow;
use std::fmt;

use crate::record::Kind;

/// The length of an id in an error text.
const ID_CHARS_MAX: usize = 64;

/// Why the lists could not be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// Which of the two lists is broken.
    pub list: Kind,
    /// Which chunk of that list, counted from 0.
    pub chunk: usize,
    /// Where in the chunk the problem begins, in bytes.
    pub offset: usize,
    /// The fault at that place.
    pub problem: Problem,
}

/// The malformation, and its place in a chunk whose number is not known yet. Small, since it is in every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Where in the chunk the problem begins, in bytes.
    pub offset: usize,
    /// The fault at that place.
    pub problem: Malformed,
}

impl Fault {
    /// The same fault, told with the list and the chunk it is in.
    pub fn located(self, list: Kind, chunk: usize) -> DecodeError {
        DecodeError { list, chunk, offset: self.offset, problem: Problem::Malformed(self.problem) }
    }
}

/// Violations of protobuf's format, or of our messages'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes end inside a field.
    Truncated,
    /// A variable-length integer of more than ten bytes.
    Overlong,
    /// A known field with another wire type than it has, or a wire type that cannot be skipped.
    WireType,
    /// Field number 0, or one past the largest.
    FieldNumber,
    /// A string that is not UTF-8.
    Utf8,
    /// A list longer than anyone would write.
    Entries,
}

/// The kinds of problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Bytes that are no such message.
    Malformed(Malformed),
    /// An id that stands twice in one list.
    Duplicate(String),
    /// A pod with more than 4 GiB of ids and names.
    TooLarge,
    /// A list of more items than [`crate::decode::ITEMS_MAX`].
    TooMany,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Truncated => "the reply ends inside a field",
            Malformed::Overlong => "an integer is longer than ten bytes",
            Malformed::WireType => "a field has the wrong wire type",
            Malformed::FieldNumber => "a field number is out of range",
            Malformed::Utf8 => "a string is not UTF-8",
            Malformed::Entries => "a list has more than 131072 entries",
        })
    }
}

/// As many characters of an id as the runtimes' own have, and a sign where there are more: what is told goes to the log,
/// to a condition and to events.
fn shortened(id: &str) -> Cow<'_, str> {
    match id.char_indices().nth(ID_CHARS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &id[..end])),
        None => Cow::Borrowed(id),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Malformed(malformed) => malformed.fmt(f),
            Problem::Duplicate(id) => write!(f, "id {} stands twice in the list", shortened(id)),
            Problem::TooMany => write!(f, "the list has more than {} items", crate::decode::ITEMS_MAX),
            Problem::TooLarge => f.write_str("the ids and names of one pod exceed 4 GiB"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = match self.list {
            Kind::Sandbox => "ListPodSandbox",
            Kind::Container => "ListContainers",
        };
        write!(f, "{list} reply, chunk {}, at byte {}: {}", self.chunk, self.offset, self.problem)
    }
}

impl std::error::Error for DecodeError {}

/// Why a status reply could not be read, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusError {
    /// The kind of object whose status it was to be.
    pub of: Kind,
    /// The fault, and at which byte.
    pub fault: Fault,
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = match self.of {
            Kind::Sandbox => "PodSandboxStatus",
            Kind::Container => "ContainerStatus",
        };
        write!(f, "{method} reply, at byte {}: {}", self.fault.offset, self.fault.problem)
    }
}

impl std::error::Error for StatusError {}
