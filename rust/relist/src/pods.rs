//! Every pod of the node by its UID.
//!
//! UIDs are hashed by SipHash under a random key, as in Rust's own maps, so no peer can choose UIDs that collide. A
//! hash is kept with every item of a pod in [`crate::marks`], which is how the pod of an item that is gone is found.

use std::hash::{BuildHasher, RandomState};

use hashbrown::hash_table::{self, HashTable};

use crate::record::{Pod, Text};

/// The facts known of one pod.
#[derive(Debug, Default)]
pub struct Entry {
    /// The newest observation.
    pub now: Pod,
    /// The record events are counted from; only while that gives any. Boxed, since most pods have none.
    pub before: Option<Box<Pod>>,
}

/// Where a UID is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash(u64);

/// Owns the entries of all pods.
#[derive(Debug, Default)]
pub struct Pods {
    table: HashTable<Entry>,
    secret: RandomState,
}

impl Pods {
    /// Where to look for a UID.
    #[inline]
    pub fn hash(&self, uid: Text<'_>) -> Hash {
        Hash(self.secret.hash_one(uid))
    }

    /// The pods that are looked for in these places, each once.
    pub fn at(&self, places: impl Iterator<Item = Hash>) -> impl Iterator<Item = &Entry> {
        let mut places: Vec<Hash> = places.collect();
        places.sort_unstable();
        places.dedup();
        let in_place = move |at: Hash| self.table.iter_hash(at.0).filter(move |entry| self.hash(entry.now.uid()) == at);
        places.into_iter().flat_map(in_place)
    }

    /// The pod of that UID.
    pub fn get(&self, uid: Text<'_>) -> Option<&Entry> {
        self.table.find(self.hash(uid).0, |entry| entry.now.uid() == uid)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, uid: Text<'_>) -> Option<&mut Entry> {
        self.table.find_mut(self.hash(uid).0, |entry| entry.now.uid() == uid)
    }

    /// Put a new observation in the place of the one before it, an empty one if there is none. `keep` gets that and
    /// the entry, and says whether the entry stays.
    pub fn put(&mut self, at: Hash, pod: Pod, keep: impl FnOnce(Pod, &mut Entry) -> bool) {
        let same = |entry: &Entry| entry.now.uid() == pod.uid();
        let (old, mut place) = match self.table.entry(at.0, same, |entry| self.secret.hash_one(entry.now.uid())) {
            hash_table::Entry::Occupied(mut place) => (std::mem::replace(&mut place.get_mut().now, pod), place),
            hash_table::Entry::Vacant(place) => (Pod::default(), place.insert(Entry { now: pod, before: None })),
        };
        if !keep(old, place.get_mut()) {
            place.remove();
        }
    }

    /// Forget the pod of that UID.
    pub fn remove(&mut self, uid: Text<'_>) {
        if let Ok(found) = self.table.find_entry(self.hash(uid).0, |entry| entry.now.uid() == uid) {
            found.remove();
        }
    }

    /// Every pod, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.table.iter()
    }

    /// Bytes on the heap, not counting what the allocator adds.
    pub fn heap_bytes(&self) -> usize {
        let pods = self.table.iter().map(|Entry { now, before }| {
            now.heap_bytes() + before.as_ref().map_or(0, |before| std::mem::size_of::<Pod>() + before.heap_bytes())
        });
        self.table.allocation_size() + pods.sum::<usize>()
    }
}
