//! The record of a list: for each pod its sandboxes and containers, packed.
//!
//! A node may carry tens of thousands of dead containers for a long time, so a [`Pod`] has one text that all its ids and
//! names are cut from, and one slice of fixed-size items: two allocations, whatever the number of containers. Items are
//! sorted by id, so that an item is found by bisection and two observations are compared like two sorted files.

use std::cmp::Ordering;
use std::fmt;

use crate::marks::Digest;

/// Which of the two lists an item stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `ListPodSandbox`.
    Sandbox,
    /// `ListContainers`.
    Container,
}

/// A state as PLEG sees it. `CREATED` and `UNKNOWN` containers are both unknown: no conclusion may be drawn from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It runs: a ready sandbox, a running container.
    Running,
    /// It has ended: a sandbox that is not ready, an exited container.
    Exited,
    /// It exists.
    Unknown,
    /// It is not in the list.
    Absent,
}

impl Seen {
    /// Return the meaning of a state number of the CRI.
    pub fn of(kind: Kind, state: u8) -> Seen {
        match (kind, state) {
            (Kind::Sandbox, 0) | (Kind::Container, 1) => Seen::Running,
            (Kind::Sandbox, _) | (Kind::Container, 2) => Seen::Exited,
            (Kind::Container, _) => Seen::Unknown,
        }
    }
}

/// The kind of an event of one sandbox or container, numbered as on the Python side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It runs now.
    Started = 0,
    /// It does not run any more.
    Died = 1,
    /// It is gone.
    Removed = 2,
    /// Something about it changed that allows no conclusion.
    Changed = 3,
}

/// The events of one transition, in order (upstream: generateEvents).
pub fn events_of(old: Seen, new: Seen) -> &'static [EventKind] {
    if old == new {
        return &[];
    }
    match (old, new) {
        (_, Seen::Running) => &[EventKind::Started],
        (_, Seen::Exited) => &[EventKind::Died],
        (_, Seen::Unknown) => &[EventKind::Changed],
        (Seen::Exited, Seen::Absent) => &[EventKind::Removed],
        (_, Seen::Absent) => &[EventKind::Died, EventKind::Removed],
    }
}

/// A string of a reply, checked to be UTF-8 and kept as bytes: it is compared with known ones thirty thousand times for
/// each time that it is read, and the check for plain ASCII costs a fifth of making a `str`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// Take bytes for text, if they are.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<Text<'a>> {
        (bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()).then_some(Text(bytes))
    }

    /// The sort key where there are many: its first eight bytes as a number, so that few are looked at in full.
    pub fn key(self) -> (u64, Text<'a>) {
        let first = self.0.iter().chain(std::iter::repeat(&0)).take(8);
        (first.fold(0, |sum, byte| sum << 8 | u64::from(*byte)), self)
    }

    /// The same as a string.
    pub fn str(self) -> &'a str {
        std::str::from_utf8(self.0).expect("it was checked when it was read")
    }

    /// Whether there is nothing in it.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Text(text.as_bytes())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.str().fmt(f)
    }
}

/// Everything that is kept of one sandbox or container; two are equal when nothing that is kept differs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Facts<'a> {
    /// The runtime's id.
    pub id: Text<'a>,
    /// The container's own name; empty for a sandbox.
    pub name: Text<'a>,
    /// The id of the container's sandbox; empty for a sandbox.
    pub sandbox_id: Text<'a>,
    /// Which sandbox of the pod, or which container of that name, this is.
    pub attempt: u32,
    /// The CRI's state number, one that exists.
    pub state: u8,
    /// When it was created, in nanoseconds since the epoch.
    pub created_at: i64,
}

impl Facts<'_> {
    /// Newest first, then by id. The attempt counts before the clock, which may have been set back meanwhile: what is
    /// the last of its name decides whether another is started.
    pub fn newest_first(&self, other: &Self) -> Ordering {
        (other.attempt.cmp(&self.attempt))
            .then_with(|| other.created_at.cmp(&self.created_at))
            .then_with(|| self.id.cmp(&other.id))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Span {
    at: u32,
    length: u32,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    digest: Digest,
    created_at: i64,
    id: Span,
    name: Span,
    sandbox_id: Span,
    attempt: u32,
    state: u8,
}

/// One pod as the runtime has it.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    text: Box<[u8]>,
    uid: Span,
    name: Span,
    namespace: Span,
    /// Sandboxes by id, then containers by id.
    items: Box<[Item]>,
    sandboxes: u32,
}

/// The name and namespace of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodName<'a> {
    /// Its name; empty while it is unknown.
    pub name: Text<'a>,
    /// Its namespace.
    pub namespace: Text<'a>,
}

impl Pod {
    /// Pack a pod. None when its text exceeds what 32 bits can point into.
    pub fn pack(
        uid: Text<'_>,
        called: PodName<'_>,
        mut sandboxes: Vec<(Facts<'_>, Digest)>,
        mut containers: Vec<(Facts<'_>, Digest)>,
    ) -> Option<Pod> {
        sandboxes.sort_unstable_by_key(|(facts, _)| facts.id);
        containers.sort_unstable_by_key(|(facts, _)| facts.id);
        let both = || sandboxes.iter().chain(&containers);
        let named: usize = both().map(|(facts, _)| facts.id.0.len() + facts.name.0.len()).sum();
        let mut text = Vec::with_capacity(uid.0.len() + called.name.0.len() + called.namespace.0.len() + named);
        let uid = push(&mut text, uid)?;
        let name = push(&mut text, called.name)?;
        let namespace = push(&mut text, called.namespace)?;
        let mut items: Vec<Item> = Vec::with_capacity(sandboxes.len() + containers.len());
        for (facts, digest) in both() {
            let id = push(&mut text, facts.id)?;
            let sandbox_id = match sandboxes.binary_search_by_key(&facts.sandbox_id, |(sandbox, _)| sandbox.id) {
                Ok(place) if place < items.len() => items[place].id,
                _ => push(&mut text, facts.sandbox_id)?,
            };
            items.push(Item {
                digest: *digest,
                created_at: facts.created_at,
                id,
                name: push(&mut text, facts.name)?,
                sandbox_id,
                attempt: facts.attempt,
                state: facts.state,
            });
        }
        let sandboxes = u32::try_from(sandboxes.len()).ok()?;
        let (text, items) = (text.into_boxed_slice(), items.into_boxed_slice());
        Some(Pod { text, uid, name, namespace, items, sandboxes })
    }

    /// Its UID.
    #[inline]
    pub fn uid(&self) -> Text<'_> {
        self.cut(self.uid)
    }

    /// Name and namespace.
    pub fn called(&self) -> PodName<'_> {
        PodName { name: self.cut(self.name), namespace: self.cut(self.namespace) }
    }

    /// Whether nothing of the pod is left.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Its sandboxes or its containers, by id.
    pub fn list(&self, kind: Kind) -> impl Iterator<Item = Facts<'_>> {
        self.of(kind).iter().map(|item| self.facts(item))
    }

    /// The same, each with its digest.
    pub fn with_digests(&self, kind: Kind) -> impl Iterator<Item = (Facts<'_>, Digest)> {
        self.of(kind).iter().map(|item| (self.facts(item), item.digest))
    }

    /// The digests of all its items.
    pub fn digests(&self) -> impl Iterator<Item = Digest> + '_ {
        self.items.iter().map(|item| item.digest)
    }

    /// Its sandboxes or its containers, newest first.
    pub fn newest_first(&self, kind: Kind) -> Vec<Facts<'_>> {
        let mut found: Vec<_> = self.list(kind).collect();
        found.sort_unstable_by(Facts::newest_first);
        found
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.text.len() + std::mem::size_of_val(&*self.items)
    }

    fn of(&self, kind: Kind) -> &[Item] {
        let (sandboxes, containers) = self.items.split_at(self.sandboxes as usize);
        match kind {
            Kind::Sandbox => sandboxes,
            Kind::Container => containers,
        }
    }

    fn facts(&self, item: &Item) -> Facts<'_> {
        Facts {
            id: self.cut(item.id),
            name: self.cut(item.name),
            sandbox_id: self.cut(item.sandbox_id),
            attempt: item.attempt,
            state: item.state,
            created_at: item.created_at,
        }
    }

    #[inline]
    fn cut(&self, span: Span) -> Text<'_> {
        Text(&self.text[span.at as usize..(span.at + span.length) as usize])
    }
}

fn push(text: &mut Vec<u8>, part: Text<'_>) -> Option<Span> {
    let at = u32::try_from(text.len()).ok()?;
    u32::try_from(text.len() + part.0.len()).ok()?;
    text.extend_from_slice(part.0);
    Some(Span { at, length: u32::try_from(part.0.len()).ok()? })
}
