//! What is kept of a list: per pod its sandboxes and containers, newest first.

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

/// A sandbox, or a container when `sandbox_id` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The runtime's id.
    pub id: Box<str>,
    /// The container's name; empty for a sandbox.
    pub name: Box<str>,
    /// The id of the container's sandbox; empty for a sandbox.
    pub sandbox_id: Box<str>,
    /// Which sandbox of the pod, or which container of that name, this is.
    pub attempt: u32,
    /// The CRI's state number.
    pub state: u8,
    /// When it was created, in nanoseconds since the epoch.
    pub created_at: i64,
}

/// One pod as the runtime has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// The pod's name.
    pub name: Box<str>,
    /// The pod's namespace.
    pub namespace: Box<str>,
    /// Its sandboxes, newest first.
    pub sandboxes: Vec<Item>,
    /// Its containers, newest first.
    pub containers: Vec<Item>,
}

impl Pod {
    /// Whether nothing of the pod is left.
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// Whether nothing that counts differs: ids, states, attempts. What else a runtime may change is no news.
    pub fn is_same_as(&self, other: &Pod) -> bool {
        let same = |a: &[Item], b: &[Item]| {
            a.len() == b.len()
                && a.iter().all(|x| b.iter().any(|y| x.id == y.id && x.state == y.state && x.attempt == y.attempt))
        };
        same(&self.sandboxes, &other.sandboxes) && same(&self.containers, &other.containers)
    }

    /// Put both lists in their order: newest first, then by id.
    pub fn sort(&mut self) {
        for items in [&mut self.sandboxes, &mut self.containers] {
            items.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.id.cmp(&b.id)));
        }
    }
}

/// The state of a sandbox as PLEG sees it.
pub fn sandbox_seen(state: u8) -> Seen {
    if state == 0 {
        Seen::Running
    } else {
        Seen::Exited
    }
}

/// The state of a container as PLEG sees it.
pub fn container_seen(state: u8) -> Seen {
    match state {
        1 => Seen::Running,
        2 => Seen::Exited,
        _ => Seen::Unknown,
    }
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
