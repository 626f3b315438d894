//! Walking protobuf bytes: fields borrowed from the reply, every length checked.
//!
//! Lists ([`crate::decode`]) and statuses ([`crate::statuses`]) are read with it. Fields of no interest are skipped
//! without looking inside.

use crate::error::{Fault, Malformed};
use crate::record::Text;

/// The value of a field.
pub(crate) enum Value<'a> {
    /// A variable-length integer.
    Number(u64),
    /// A string, bytes or a message, and where in the reply it begins.
    Bytes(&'a [u8], usize),
    /// A fixed-width number, which no message read here has.
    Skipped,
}

/// An entry of a map. Its value is checked only when its key is of interest, and `end` is where the value ends.
pub(crate) struct Pair<'a> {
    pub(crate) key: &'a [u8],
    held: Option<Value<'a>>,
    end: usize,
}

impl<'a> Pair<'a> {
    /// Return its value, as a string; empty if there is none.
    #[inline]
    pub(crate) fn text(self) -> Result<Text<'a>, Fault> {
        match self.held {
            None => Ok(Text::default()),
            Some(value) => text_of(value, self.end),
        }
    }
}

/// A value that is a string. `end` is where its field ends.
#[inline]
fn text_of(value: Value<'_>, end: usize) -> Result<Text<'_>, Fault> {
    match value {
        Value::Bytes(bytes, start) => Text::read(bytes).ok_or(Fault { offset: start, problem: Malformed::Utf8 }),
        _ => Err(Fault { offset: end, problem: Malformed::WireType }),
    }
}

/// Goes through the fields of one message. `base` is where in the reply the message begins.
pub(crate) struct Walker<'a> {
    bytes: &'a [u8],
    at: usize,
    pub(crate) base: usize,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: usize) -> Self {
        Walker { bytes, at: 0, base }
    }

    /// How many bytes of the message have been read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn fail<T>(&self, problem: Malformed) -> Result<T, Fault> {
        Err(Fault { offset: self.base + self.at, problem })
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Fault> {
        match self.bytes[self.at..] {
            [byte @ ..0x80, ..] => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            [low, high @ ..0x80, ..] => {
                self.at += 2;
                Ok(u64::from(high) << 7 | u64::from(low & 0x7f))
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
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Fault> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 && number < (1 << 29) => number,
            _ => return self.fail(Malformed::FieldNumber),
        };
        // Asked one by one, the likeliest first: a processor guesses these right, but not a jump into a table.
        let kind = tag & 7;
        let value = if kind == 2 {
            let length = self.varint()?;
            let start = self.base + self.at;
            Value::Bytes(self.take(length)?, start)
        } else if kind == 0 {
            Value::Number(self.varint()?)
        } else if kind == 1 {
            self.take(8)?;
            Value::Skipped
        } else if kind == 5 {
            self.take(4)?;
            Value::Skipped
        } else {
            return self.fail(Malformed::WireType);
        };
        Ok(Some((number, value)))
    }

    pub(crate) fn message(&self, value: Value<'a>) -> Result<Walker<'a>, Fault> {
        match value {
            Value::Bytes(bytes, start) => Ok(Walker::new(bytes, start)),
            _ => self.fail(Malformed::WireType),
        }
    }

    pub(crate) fn text(&self, value: Value<'a>) -> Result<&'a str, Fault> {
        self.raw_text(value).map(Text::str)
    }

    /// The same without making a string of it: for callers that read thousands and need few.
    #[inline]
    pub(crate) fn raw_text(&self, value: Value<'a>) -> Result<Text<'a>, Fault> {
        text_of(value, self.base + self.at)
    }

    pub(crate) fn number(&self, value: &Value<'a>) -> Result<u64, Fault> {
        match value {
            Value::Number(number) => Ok(*number),
            _ => self.fail(Malformed::WireType),
        }
    }

    /// Return this message as an entry of a map.
    #[inline]
    pub(crate) fn pair(&mut self) -> Result<Pair<'a>, Fault> {
        match self.usual_pair() {
            Some(pair) => Ok(pair),
            None => self.any_pair(),
        }
    }

    /// An entry as every encoder writes it, key then value and nothing else, both shorter than 128 bytes; None for any
    /// other. Says of those what [`Walker::any_pair`] says, in a third of the time.
    #[inline]
    fn usual_pair(&self) -> Option<Pair<'a>> {
        let (&[0x0a, length @ 0..=0x7f], rest) = self.bytes.split_first_chunk()? else { return None };
        let (key, rest) = rest.split_at_checked(usize::from(length))?;
        let (&[0x12, length @ 0..=0x7f], value) = rest.split_first_chunk()? else { return None };
        let start = self.base + self.bytes.len() - value.len();
        let end = start + value.len();
        (value.len() == usize::from(length)).then_some(Pair { key, held: Some(Value::Bytes(value, start)), end })
    }

    /// An entry with its fields in any order and number. Unknown fields are skipped and the entry counts, as in Go. The
    /// protobuf library of Python, which decodes statuses, leaves out an entry with such a field, and the digests of
    /// statuses do as it does. No runtime writes one.
    fn any_pair(&mut self) -> Result<Pair<'a>, Fault> {
        let mut pair = Pair { key: b"", held: None, end: 0 };
        while let Some((number, value)) = self.next()? {
            match (number, &value) {
                (1, Value::Bytes(bytes, _)) => pair.key = bytes,
                (1, _) => return self.fail(Malformed::WireType),
                (2, _) => (pair.held, pair.end) = (Some(value), self.base + self.at),
                _ => {}
            }
        }
        Ok(pair)
    }
}
