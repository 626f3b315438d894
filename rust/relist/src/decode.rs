//! Walking protobuf bytes: only the fields the relist needs, borrowed from the reply, every length checked.
//!
//! Sandboxes and containers have the same shape with other field numbers, so one walker reads both by a [`Layout`].
//! Fields of no interest are skipped without looking inside. As protobuf has it, the last of a repeated scalar wins and
//! a message that stands twice is merged. Nothing recurses, and nothing is allocated.

use crate::error::{DecodeError, Fault, Malformed, Problem};
use crate::record::{Facts, Kind, PodName};

/// Where a kind of item has its fields. A number of 0 stands for "has no such field".
struct Layout {
    id: u32,
    sandbox_id: u32,
    metadata: u32,
    state: u32,
    created_at: u32,
    labels: u32,
    meta_uid: u32,
    meta_namespace: u32,
    meta_attempt: u32,
    /// The largest state number that exists, which is also what any other number is taken for.
    state_max: u8,
}

/// `runtime.v1.PodSandbox`.
const SANDBOX: Layout = Layout {
    id: 1,
    sandbox_id: 0,
    metadata: 2,
    state: 3,
    created_at: 4,
    labels: 5,
    meta_uid: 2,
    meta_namespace: 3,
    meta_attempt: 4,
    state_max: 1,
};

/// `runtime.v1.Container`.
const CONTAINER: Layout = Layout {
    id: 1,
    sandbox_id: 2,
    metadata: 3,
    state: 6,
    created_at: 7,
    labels: 8,
    meta_uid: 0,
    meta_namespace: 0,
    meta_attempt: 2,
    state_max: 3,
};

const UID_LABEL: &[u8] = b"io.kubernetes.pod.uid";
const NAME_LABEL: &[u8] = b"io.kubernetes.pod.name";
const NAMESPACE_LABEL: &[u8] = b"io.kubernetes.pod.namespace";

/// One item of a list, borrowed from the reply. Absent strings are empty.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Which list it stands in.
    pub kind: Kind,
    /// The chunk of that list.
    pub chunk: usize,
    /// Where in the chunk the item begins, in bytes.
    pub offset: usize,
    /// What is kept of it.
    pub facts: Facts<'a>,
    /// The UID of its pod, when the item itself tells it: a sandbox's metadata, else its labels; a container's labels.
    pub uid: &'a str,
    /// The pod's name, when the item tells it.
    pub pod: PodName<'a>,
}

impl View<'_> {
    /// A problem with this item, told with its place.
    pub fn fail(&self, problem: Problem) -> DecodeError {
        DecodeError { list: self.kind, chunk: self.chunk, offset: self.offset, problem }
    }
}

/// What is read of an item before it is known what it says of its pod.
#[derive(Default)]
struct Draft<'a> {
    facts: Facts<'a>,
    meta_uid: &'a str,
    meta_namespace: &'a str,
    label_uid: &'a str,
    label_name: &'a str,
    label_namespace: &'a str,
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

    fn fail<T>(&self, problem: Malformed) -> Result<T, Fault> {
        Err(Fault { offset: self.base + self.at, problem })
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Fault> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for index in 0..10 {
            let Some(&byte) = self.bytes.get(self.at + index) else {
                return self.fail(Malformed::Truncated);
            };
            value |= u64::from(byte & 0x7f) << (7 * index).min(63);
            if byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        self.fail(Malformed::Overlong)
    }

    #[inline(always)]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Fault> {
        let left = self.bytes.len() - self.at;
        match usize::try_from(length) {
            Ok(length) if length <= left => {
                let taken = &self.bytes[self.at..self.at + length];
                self.at += length;
                Ok(taken)
            }
            _ => self.fail(Malformed::Truncated),
        }
    }

    /// The next field, or None at the end. A wire type that cannot be skipped is an error.
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Fault> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 && number < (1 << 29) => number,
            _ => return self.fail(Malformed::FieldNumber),
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
            _ => return self.fail(Malformed::WireType),
        };
        Ok(Some((number, value)))
    }

    fn message(&self, value: Value<'a>) -> Result<Walker<'a>, Fault> {
        match value {
            Value::Bytes(bytes, start) => Ok(Walker::new(bytes, start)),
            _ => self.fail(Malformed::WireType),
        }
    }

    fn text(&self, value: Value<'a>) -> Result<&'a str, Fault> {
        match value {
            Value::Bytes(bytes, start) => {
                std::str::from_utf8(bytes).map_err(|_| Fault { offset: start, problem: Malformed::Utf8 })
            }
            _ => self.fail(Malformed::WireType),
        }
    }

    fn number(&self, value: &Value<'a>) -> Result<u64, Fault> {
        match value {
            Value::Number(number) => Ok(*number),
            _ => self.fail(Malformed::WireType),
        }
    }
}

/// Hand every item of a list to `each`. Items are field 1 of every reply, in unary and streamed lists alike.
pub fn walk<'a>(
    kind: Kind,
    chunks: &[&'a [u8]],
    mut each: impl FnMut(View<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    for (chunk, bytes) in chunks.iter().enumerate() {
        let mut walker = Walker::new(bytes, 0);
        let located = |fault: Fault| fault.located(kind, chunk);
        while let Some((number, value)) = walker.next().map_err(located)? {
            if number == 1 {
                let inside = walker.message(value).map_err(located)?;
                let offset = inside.base;
                let draft = match kind {
                    Kind::Sandbox => item(inside, &SANDBOX),
                    Kind::Container => item(inside, &CONTAINER),
                };
                each(view(draft.map_err(located)?, kind, chunk, offset))?;
            }
        }
    }
    Ok(())
}

fn view(draft: Draft<'_>, kind: Kind, chunk: usize, offset: usize) -> View<'_> {
    let mut facts = draft.facts;
    let (mut uid, mut name, mut namespace) = (draft.label_uid, draft.label_name, draft.label_namespace);
    if kind == Kind::Sandbox {
        // A sandbox's metadata names the pod; what it lacks is taken from the labels.
        let metadata_else = |told, label| if str::is_empty(told) { label } else { told };
        uid = metadata_else(draft.meta_uid, uid);
        name = metadata_else(std::mem::take(&mut facts.name), name);
        namespace = metadata_else(draft.meta_namespace, namespace);
    }
    View { kind, chunk, offset, facts, uid, pod: PodName { name, namespace } }
}

#[inline]
fn item<'a>(mut walker: Walker<'a>, layout: &Layout) -> Result<Draft<'a>, Fault> {
    let mut draft = Draft::default();
    while let Some((number, value)) = walker.next()? {
        if number == layout.labels {
            label(walker.message(value)?, &mut draft)?;
        } else if number == layout.id {
            draft.facts.id = walker.text(value)?;
        } else if number == layout.sandbox_id {
            draft.facts.sandbox_id = walker.text(value)?;
        } else if number == layout.metadata {
            metadata(walker.message(value)?, layout, &mut draft)?;
        } else if number == layout.state {
            // An enumeration is an int32 on the wire, whatever the length of its varint.
            let state = walker.number(&value)? as u32;
            draft.facts.state = u8::try_from(state).unwrap_or(u8::MAX).min(layout.state_max);
        } else if number == layout.created_at {
            draft.facts.created_at = walker.number(&value)? as i64;
        }
    }
    Ok(draft)
}

fn metadata<'a>(mut walker: Walker<'a>, layout: &Layout, draft: &mut Draft<'a>) -> Result<(), Fault> {
    while let Some((number, value)) = walker.next()? {
        if number == 1 {
            draft.facts.name = walker.text(value)?;
        } else if number == layout.meta_uid {
            draft.meta_uid = walker.text(value)?;
        } else if number == layout.meta_namespace {
            draft.meta_namespace = walker.text(value)?;
        } else if number == layout.meta_attempt {
            draft.facts.attempt = walker.number(&value)? as u32;
        }
    }
    Ok(())
}

fn label<'a>(mut walker: Walker<'a>, draft: &mut Draft<'a>) -> Result<(), Fault> {
    let (mut key, mut held): (&[u8], Option<Value<'a>>) = (b"", None);
    while let Some((number, value)) = walker.next()? {
        match (number, &value) {
            (1, Value::Bytes(bytes, _)) => key = bytes,
            (1, _) => return walker.fail(Malformed::WireType),
            (2, _) => held = Some(value),
            _ => {}
        }
    }
    let target = match key {
        UID_LABEL => &mut draft.label_uid,
        NAME_LABEL => &mut draft.label_name,
        NAMESPACE_LABEL => &mut draft.label_namespace,
        _ => return Ok(()),
    };
    *target = match held {
        Some(value) => walker.text(value)?,
        None => "",
    };
    Ok(())
}
