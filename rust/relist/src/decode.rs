//! Walking protobuf bytes: only the fields the relist needs, borrowed from the reply, every length checked.
//!
//! Sandboxes and containers have the same shape with other field numbers, so one walker reads both by a [`Layout`].
//! Fields of no interest are skipped without looking inside. As protobuf has it, the last of a repeated scalar wins and
//! a message that stands twice is merged.

use crate::error::{DecodeError, Problem};

/// Where a kind of item has its fields. A number of 0 stands for "has no such field".
pub struct Layout {
    id: u32,
    sandbox_id: u32,
    metadata: u32,
    state: u32,
    created_at: u32,
    labels: u32,
    meta_uid: u32,
    meta_namespace: u32,
    meta_attempt: u32,
    states_max: u64,
    state_default: u8,
}

/// `runtime.v1.PodSandbox`.
pub const SANDBOX: Layout = Layout {
    id: 1,
    sandbox_id: 0,
    metadata: 2,
    state: 3,
    created_at: 4,
    labels: 5,
    meta_uid: 2,
    meta_namespace: 3,
    meta_attempt: 4,
    states_max: 1,
    state_default: 1,
};

/// `runtime.v1.Container`.
pub const CONTAINER: Layout = Layout {
    id: 1,
    sandbox_id: 2,
    metadata: 3,
    state: 6,
    created_at: 7,
    labels: 8,
    meta_uid: 0,
    meta_namespace: 0,
    meta_attempt: 2,
    states_max: 3,
    state_default: 3,
};

const UID_LABEL: &[u8] = b"io.kubernetes.pod.uid";
const NAME_LABEL: &[u8] = b"io.kubernetes.pod.name";
const NAMESPACE_LABEL: &[u8] = b"io.kubernetes.pod.namespace";

/// One item of a list, borrowed from the reply. Absent strings are empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct View<'a> {
    /// The runtime's id.
    pub id: &'a str,
    /// A container's sandbox.
    pub sandbox_id: &'a str,
    /// The metadata's name: the pod's for a sandbox, its own for a container.
    pub name: &'a str,
    /// The pod's UID from a sandbox's metadata.
    pub meta_uid: &'a str,
    /// The pod's namespace from a sandbox's metadata.
    pub meta_namespace: &'a str,
    /// The pod's UID from the labels.
    pub label_uid: &'a str,
    /// The pod's name from the labels.
    pub label_name: &'a str,
    /// The pod's namespace from the labels.
    pub label_namespace: &'a str,
    /// The metadata's attempt.
    pub attempt: u32,
    /// The CRI's state number, one that exists.
    pub state: u8,
    /// Nanoseconds since the epoch.
    pub created_at: i64,
    /// Where the item begins in its chunk.
    pub offset: usize,
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8], usize),
    Skipped,
}

struct Walker<'a> {
    bytes: &'a [u8],
    at: usize,
    base: usize,
}

impl<'a> Walker<'a> {
    fn new(bytes: &'a [u8], base: usize) -> Self {
        Walker { bytes, at: 0, base }
    }

    fn fail<T>(&self, problem: Problem) -> Result<T, DecodeError> {
        Err(DecodeError { offset: self.base + self.at, problem })
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for index in 0..10 {
            let Some(&byte) = self.bytes.get(self.at + index) else {
                return self.fail(Problem::Truncated);
            };
            value |= u64::from(byte & 0x7f) << (7 * index).min(63);
            if byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        self.fail(Problem::Overlong)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let left = self.bytes.len() - self.at;
        match usize::try_from(length) {
            Ok(length) if length <= left => {
                let taken = &self.bytes[self.at..self.at + length];
                self.at += length;
                Ok(taken)
            }
            _ => self.fail(Problem::Truncated),
        }
    }

    /// The next field, or None at the end. A wire type that cannot be skipped is an error.
    #[inline]
    fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, DecodeError> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 && number < (1 << 29) => number,
            _ => return self.fail(Problem::FieldNumber),
        };
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Skipped
            }
            2 => {
                let length = self.varint()?;
                let start = self.base + self.at;
                Value::Bytes(self.take(length)?, start)
            }
            5 => {
                self.take(4)?;
                Value::Skipped
            }
            _ => return self.fail(Problem::WireType),
        };
        Ok(Some((number, value)))
    }

    fn message(&self, value: Value<'a>) -> Result<Walker<'a>, DecodeError> {
        match value {
            Value::Bytes(bytes, start) => Ok(Walker::new(bytes, start)),
            _ => self.fail(Problem::WireType),
        }
    }

    fn text(&self, value: Value<'a>) -> Result<&'a str, DecodeError> {
        match value {
            Value::Bytes(bytes, start) => {
                std::str::from_utf8(bytes).map_err(|_| DecodeError { offset: start, problem: Problem::Utf8 })
            }
            _ => self.fail(Problem::WireType),
        }
    }

    fn number(&self, value: &Value<'a>) -> Result<u64, DecodeError> {
        match value {
            Value::Number(number) => Ok(*number),
            _ => self.fail(Problem::WireType),
        }
    }
}

/// Hand every item of one chunk to `each`. The items are field 1 of the reply, in unary and streamed lists alike.
pub fn walk_list<'a>(
    chunk: &'a [u8],
    layout: &Layout,
    mut each: impl FnMut(View<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut walker = Walker::new(chunk, 0);
    while let Some((number, value)) = walker.next()? {
        if number == 1 {
            each(item(walker.message(value)?, layout)?)?;
        }
    }
    Ok(())
}

fn item<'a>(mut walker: Walker<'a>, layout: &Layout) -> Result<View<'a>, DecodeError> {
    let mut view = View { offset: walker.base, ..View::default() };
    while let Some((number, value)) = walker.next()? {
        if number == layout.id {
            view.id = walker.text(value)?;
        } else if number == layout.sandbox_id {
            view.sandbox_id = walker.text(value)?;
        } else if number == layout.metadata {
            metadata(walker.message(value)?, layout, &mut view)?;
        } else if number == layout.state {
            let state = walker.number(&value)?;
            view.state = if state <= layout.states_max { state as u8 } else { layout.state_default };
        } else if number == layout.created_at {
            view.created_at = walker.number(&value)? as i64;
        } else if number == layout.labels {
            label(walker.message(value)?, &mut view)?;
        }
    }
    Ok(view)
}

fn metadata<'a>(mut walker: Walker<'a>, layout: &Layout, view: &mut View<'a>) -> Result<(), DecodeError> {
    while let Some((number, value)) = walker.next()? {
        if number == 1 {
            view.name = walker.text(value)?;
        } else if number == layout.meta_uid {
            view.meta_uid = walker.text(value)?;
        } else if number == layout.meta_namespace {
            view.meta_namespace = walker.text(value)?;
        } else if number == layout.meta_attempt {
            view.attempt = walker.number(&value)? as u32;
        }
    }
    Ok(())
}

fn label<'a>(mut walker: Walker<'a>, view: &mut View<'a>) -> Result<(), DecodeError> {
    let (mut key, mut held): (&[u8], Option<Value<'a>>) = (b"", None);
    while let Some((number, value)) = walker.next()? {
        match (number, &value) {
            (1, Value::Bytes(bytes, _)) => key = bytes,
            (1, _) => return walker.fail(Problem::WireType),
            (2, _) => held = Some(value),
            _ => {}
        }
    }
    let target = match key {
        UID_LABEL => &mut view.label_uid,
        NAME_LABEL => &mut view.label_name,
        NAMESPACE_LABEL => &mut view.label_namespace,
        _ => return Ok(()),
    };
    *target = match held {
        Some(value) => walker.text(value)?,
        None => "",
    };
    Ok(())
}
