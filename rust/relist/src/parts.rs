//! Lists that came in parts: one list of them again, and the pods to ask for parts by.
//!
//! A list that exceeds one message is asked for piece by piece, so something may stand in two pieces. This is found out
//! by the ids alone; a chunk is rewritten only where something is left out of it, and nothing is decoded. One chunk at
//! a time, so that no other part waits for the whole.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::decode::{walk, ITEMS_MAX};
use crate::error::{DecodeError, Fault, Problem};
use crate::record::{Kind, Text};
use crate::wire::Walker;

/// Owns the ids that were met so far, the last part first. An id that occurs twice in one part stays so: the reader of
/// the list refuses it.
#[derive(Debug)]
pub struct Joiner {
    kind: Kind,
    /// In parts that came later.
    later: HashSet<String>,
    /// In the part at hand.
    here: HashSet<String>,
    items: usize,
}

impl Joiner {
    /// For one list of this kind.
    pub fn new(kind: Kind) -> Self {
        Joiner { kind, later: HashSet::new(), here: HashSet::new(), items: 0 }
    }

    /// Start the part before: ids that are added from now on belong to it.
    pub fn begin_part(&mut self) {
        self.later.extend(self.here.drain());
    }

    /// The chunk without what stands in later parts. `number` is told with an error.
    pub fn add<'a>(&mut self, chunk: &'a [u8], number: usize) -> Result<Cow<'a, [u8]>, DecodeError> {
        let kind = self.kind;
        let located = |fault: Fault| fault.located(kind, number);
        let mut walker = Walker::new(chunk, 0);
        let mut kept: Vec<&[u8]> = Vec::new(); // stretches between what is left out
        let (mut begin, mut at) = (0, 0);
        while let Some((field, value)) = walker.next().map_err(located)? {
            let end = walker.position();
            if field == 1 {
                let item = walker.message(value).map_err(located)?;
                let (offset, id) = (item.base, id(item).map_err(located)?);
                self.items += 1;
                if self.items > ITEMS_MAX {
                    return Err(DecodeError { list: kind, chunk: number, offset, problem: Problem::TooMany });
                }
                if self.later.contains(id.str()) {
                    kept.push(&chunk[begin..at]);
                    begin = end;
                } else {
                    self.here.insert(id.str().to_owned());
                }
            }
            at = end;
        }
        if begin == 0 {
            return Ok(Cow::Borrowed(chunk));
        }
        kept.push(&chunk[begin..]);
        Ok(Cow::Owned(kept.concat()))
    }
}

/// Field 1 of sandboxes and containers alike; the last, where it stands twice.
fn id(mut item: Walker<'_>) -> Result<Text<'_>, Fault> {
    let mut id = Text::default();
    while let Some((field, value)) = item.next()? {
        if field == 1 {
            id = item.raw_text(value)?;
        }
    }
    Ok(id)
}

/// The UIDs of the pods that have a sandbox in the chunk, by namespace.
pub fn pods_of(chunk: &[u8]) -> Result<BTreeMap<Text<'_>, BTreeSet<Text<'_>>>, DecodeError> {
    let mut found: BTreeMap<Text<'_>, BTreeSet<Text<'_>>> = BTreeMap::new();
    walk(Kind::Sandbox, &[chunk], |view| {
        if !view.uid.is_empty() {
            found.entry(view.pod.namespace).or_default().insert(view.uid);
        }
        Ok(())
    })?;
    Ok(found)
}
