//! Every sandbox and container that is known, each by one number: seeing that an item is as it was takes one look.
//!
//! The number is a [`Digest`] of all that is kept of the item and of its pod's UID. On a node at rest nothing but this
//! table is read beside the lists, a megabyte or two where the texts are several; they are asked for only when an item
//! is not as it was. [`crate::diff`] calls; it puts in and takes out what the pods have, and nothing else.
//!
//! Two items that differ share a digest with probability 2⁻¹²⁸, and no peer can search for two that do: the hash is
//! SipHash under a key that is drawn for each table and never leaves it. One round a word, as in Rust's own maps: what
//! is known of making its inner states collide without the key takes 2¹⁶⁷ trials. What is hashed begins with its
//! length.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::pods;
use crate::record::{Facts, Kind, Pod, Text};

/// Stands for all that is kept of one item. Comparable within one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest(u64, u64);

/// The result of a look at an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// It is as it was.
    Same,
    /// It was not there, or something about it differs.
    New,
    /// It was met before in the same pass.
    Twice,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    digest: Digest,
    pod: pods::Hash,
    /// The last pass that met the item.
    pass: u32,
}

/// Owns which of the known items the newest pass has met.
#[derive(Debug)]
pub struct Marks {
    table: HashTable<Mark>,
    unkeyed: SipHasher13,
    pass: u32,
    met: usize,
}

impl Default for Marks {
    fn default() -> Self {
        let chance = RandomState::new();
        let unkeyed = SipHasher13::new_with_keys(chance.hash_one(0), chance.hash_one(1));
        Marks { table: HashTable::new(), unkeyed, pass: 0, met: 0 }
    }
}

impl Marks {
    /// The number of an item.
    #[inline]
    pub fn digest(&self, kind: Kind, uid: Text<'_>, facts: &Facts<'_>) -> Digest {
        let mut hasher = self.unkeyed;
        (kind, uid, facts).hash(&mut hasher);
        let hash = hasher.finish128();
        Digest(hash.h1, hash.h2)
    }

    /// From here on no item has been met.
    pub fn start(&mut self) {
        if self.pass == u32::MAX {
            self.pass = 0;
            self.table.iter_mut().for_each(|mark| mark.pass = 0);
        }
        self.pass += 1;
        self.met = 0;
    }

    /// Look for the item, and mark it if it is known.
    #[inline]
    pub fn meet(&mut self, digest: Digest) -> Met {
        match self.table.find_mut(digest.0, |mark| mark.digest == digest) {
            None => Met::New,
            Some(mark) if mark.pass == self.pass => Met::Twice,
            Some(mark) => {
                mark.pass = self.pass;
                self.met += 1;
                Met::Same
            }
        }
    }

    /// Whether that item has been met.
    pub fn is_met(&self, digest: Digest) -> bool {
        self.table.find(digest.0, |mark| mark.digest == digest).is_some_and(|mark| mark.pass == self.pass)
    }

    /// Where to look for the pods that have an item which has not been met, some of them more than once.
    pub fn unmet(&self) -> impl Iterator<Item = pods::Hash> + '_ {
        let any = self.met < self.table.len();
        let marks = any.then(|| self.table.iter());
        marks.into_iter().flatten().filter(|mark| mark.pass != self.pass).map(|mark| mark.pod)
    }

    /// So many items are going to be put in the place of those that have not been met: make room for them at once.
    pub fn reserve(&mut self, items: usize) {
        let more = (self.met + items).saturating_sub(self.table.len());
        self.table.reserve(more, |mark| mark.digest.0);
    }

    /// Know the items of a pod, which is looked for there.
    pub fn insert(&mut self, at: pods::Hash, pod: &Pod) {
        for digest in pod.digests() {
            self.table.insert_unique(digest.0, Mark { digest, pod: at, pass: 0 }, |mark| mark.digest.0);
        }
    }

    /// Know them no more.
    pub fn remove(&mut self, pod: &Pod) {
        for digest in pod.digests() {
            if let Ok(found) = self.table.find_entry(digest.0, |mark| mark.digest == digest) {
                found.remove();
            }
        }
    }

    /// Bytes on the heap, not counting what the allocator adds.
    pub fn heap_bytes(&self) -> usize {
        self.table.allocation_size()
    }
}
