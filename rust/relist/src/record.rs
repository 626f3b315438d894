//! What is kept of a list: for each pod its sandboxes and containers, packed.
//!
//! A node may carry tens of thousands of dead containers for a long time, so a [`Pod`] has one text that all its ids and
//! names are cut from, and one slice of fixed-size items: two allocations, whatever the number of containers. Items are
//! sorted by id, so that an item is found by bisection and two observations are compared like two sorted files.

use std::cmp::Ordering;

/// Which of the two lists an item stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `ListPodSandbox`.
    Sandbox,
    /// `ListContainers`.
    Container,
}

/// A state as PLEG sees it. `CREATED` and `UNKNOWN` containers are both unknown: nobody may conclude anything.
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
    /// What a state number of the CRI means.
    pub fn of(kind: Kind, state: u8) -> Seen {
        match (kind, state) {
            (Kind::Sandbox, 0) | (Kind::Container, 1) => Seen::Running,
            (Kind::Sandbox, _) | (Kind::Container, 2) => Seen::Exited,
            (Kind::Container, _) => Seen::Unknown,
        }
    }
}

/// What happened to one sandbox or container, numbered as on the Python side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It runs now.
    Started = 0,
    /// It does not run any more.
    Died = 1,
    /// It is gone.
    Removed = 2,
    /// Something about it changed that nobody may conclude anything from.
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

/// Everything that is kept of one sandbox or container; two are equal when nothing that is kept differs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts<'a> {
    /// The runtime's id.
    pub id: &'a str,
    /// The container's own name; empty for a sandbox.
    pub name: &'a str,
    /// The id of the container's sandbox; empty for a sandbox.
    pub sandbox_id: &'a str,
    /// Which sandbox of the pod, or which container of that name, this is.
    pub attempt: u32,
    /// The CRI's state number, one that exists.
    pub state: u8,
    /// When it was created, in nanoseconds since the epoch.
    pub created_at: i64,
}

impl Facts<'_> {
    /// Newest first, then by id.
    pub fn newest_first(&self, other: &Self) -> Ordering {
        other.created_at.cmp(&self.created_at).then_with(|| self.id.cmp(other.id))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Span {
    at: u32,
    length: u32,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    created_at: i64,
    id: Span,
    name: Span,
    sandbox_id: Span,
    attempt: u32,
    /// The last pass that found this item unchanged.
    pass: u32,
    state: u8,
}

/// One pod as the runtime has it.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    text: Box<str>,
    name: Span,
    namespace: Span,
    /// Sandboxes by id, then containers by id.
    items: Box<[Item]>,
    sandboxes: u32,
    /// The last pass that found an item unchanged, and how many it found so.
    pass: u32,
    met: u32,
}

/// The name and namespace of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodName<'a> {
    /// Its name; empty while nobody has told it.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
}

impl Pod {
    /// Pack a pod. None when its text exceeds what 32 bits can point into.
    pub fn pack(called: PodName<'_>, mut sandboxes: Vec<Facts<'_>>, mut containers: Vec<Facts<'_>>) -> Option<Pod> {
        sandboxes.sort_unstable_by_key(|facts| facts.id);
        containers.sort_unstable_by_key(|facts| facts.id);
        let mut text = String::new();
        let name = push(&mut text, called.name)?;
        let namespace = push(&mut text, called.namespace)?;
        let mut items: Vec<Item> = Vec::with_capacity(sandboxes.len() + containers.len());
        for facts in sandboxes.iter().chain(&containers) {
            let id = push(&mut text, facts.id)?;
            let sandbox_id = match sandboxes.binary_search_by_key(&facts.sandbox_id, |sandbox| sandbox.id) {
                Ok(place) if place < items.len() => items[place].id,
                _ => push(&mut text, facts.sandbox_id)?,
            };
            items.push(Item {
                created_at: facts.created_at,
                id,
                name: push(&mut text, facts.name)?,
                sandbox_id,
                attempt: facts.attempt,
                pass: 0,
                state: facts.state,
            });
        }
        let sandboxes = u32::try_from(sandboxes.len()).ok()?;
        let (text, items) = (text.into_boxed_str(), items.into_boxed_slice());
        Some(Pod { text, name, namespace, items, sandboxes, pass: 0, met: 0 })
    }

    /// Name and namespace.
    pub fn called(&self) -> PodName<'_> {
        PodName { name: self.cut(self.name), namespace: self.cut(self.namespace) }
    }

    /// Whether nothing of the pod is left.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many sandboxes and containers it has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Its sandboxes or its containers, by id.
    pub fn list(&self, kind: Kind) -> impl Iterator<Item = Facts<'_>> {
        self.of(kind).iter().map(|item| self.facts(item))
    }

    /// Its sandboxes or its containers, newest first.
    pub fn newest_first(&self, kind: Kind) -> Vec<Facts<'_>> {
        let mut found: Vec<_> = self.list(kind).collect();
        found.sort_unstable_by(Facts::newest_first);
        found
    }

    /// Find the item of that id and compare it with what a list says now. An equal one is marked as seen in `pass`.
    pub fn meet(&mut self, kind: Kind, seen: &Facts<'_>, pass: u32) -> Met {
        let Ok(place) = self.of(kind).binary_search_by(|item| self.cut(item.id).cmp(seen.id)) else {
            return Met::New;
        };
        let place = match kind {
            Kind::Sandbox => place,
            Kind::Container => place + self.sandboxes as usize,
        };
        if self.items[place].pass == pass {
            Met::Twice
        } else if self.facts(&self.items[place]) == *seen {
            self.items[place].pass = pass;
            self.met = if self.pass == pass { self.met + 1 } else { 1 };
            self.pass = pass;
            Met::Same
        } else {
            Met::New
        }
    }

    /// The items that were found unchanged in `pass`.
    pub fn met(&self, kind: Kind, pass: u32) -> impl Iterator<Item = Facts<'_>> {
        self.of(kind).iter().filter(move |item| item.pass == pass).map(|item| self.facts(item))
    }

    /// Whether an item was not found unchanged in `pass`.
    pub fn has_unmet(&self, pass: u32) -> bool {
        let met = if self.pass == pass { self.met as usize } else { 0 };
        met != self.items.len()
    }

    /// Forget in which pass each item was seen, so that passes can be counted from 1 again.
    pub fn forget_passes(&mut self) {
        self.pass = 0;
        self.items.iter_mut().for_each(|item| item.pass = 0);
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
    fn cut(&self, span: Span) -> &str {
        &self.text[span.at as usize..(span.at + span.length) as usize]
    }
}

/// What [`Pod::meet`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// The item is as it was.
    Same,
    /// The item was not there, or something about it differs.
    New,
    /// The item was met before in the same pass.
    Twice,
}

fn push(text: &mut String, part: &str) -> Option<Span> {
    let at = u32::try_from(text.len()).ok()?;
    u32::try_from(text.len() + part.len()).ok()?;
    text.push_str(part);
    Some(Span { at, length: u32::try_from(part.len()).ok()? })
}
