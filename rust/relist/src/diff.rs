//! The heart: what was known, what is seen now, and which pods differ.
//!
//! Each pod has its newest observation and, while the two tell different states, the older record its events are
//! counted from. A pod's record advances only when its inspection succeeded ([`Relist::advance`]); until then the same
//! events are reported again with every list, so a failed inspection loses nothing.
//!
//! Lists are applied in three steps. The first walks every item and meets it with the one known under the same pod and
//! id, in place; an item that is as it was gets a mark and costs nothing more. The second builds anew the pods that have
//! items which are not as they were, or unmarked ones. Only the third changes anything that counts, and cannot fail.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::decode::{walk, View};
use crate::error::{DecodeError, Problem};
use crate::record::{events_of, EventKind, Facts, Kind, Met, Pod, PodName, Seen};

/// What happened to one sandbox or container of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// What happened.
    pub kind: EventKind,
    /// To which of the two.
    pub of: Kind,
    /// To whom.
    pub id: &'a str,
}

/// A pod that must be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'a> {
    /// The pod's UID.
    pub uid: &'a str,
    /// What it is called.
    pub pod: PodName<'a>,
    /// What happened since the pod's record was last advanced: containers by id, then sandboxes by id.
    pub events: Vec<Event<'a>>,
    /// Every sandbox id now, newest first.
    pub sandboxes: Vec<&'a str>,
    /// Every container id now, newest first.
    pub containers: Vec<&'a str>,
}

/// How many there are, by state.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Pods with a ready sandbox.
    pub running_pods: usize,
    /// Containers by the CRI's state number: created, running, exited, unknown.
    pub containers: [usize; 4],
    /// Sandboxes and containers of the last full lists that belong to no pod: somebody else's.
    pub strays: usize,
}

/// Undecoded replies, each list in any number of chunks.
#[derive(Debug, Clone, Copy)]
pub struct Lists<'a, 'c> {
    /// `ListPodSandboxResponse` messages.
    pub sandboxes: &'c [&'a [u8]],
    /// `ListContainersResponse` messages.
    pub containers: &'c [&'a [u8]],
}

impl<'a, 'c> Lists<'a, 'c> {
    fn both(self) -> [(Kind, &'c [&'a [u8]]); 2] {
        [(Kind::Sandbox, self.sandboxes), (Kind::Container, self.containers)]
    }
}

#[derive(Debug, Default)]
struct Entry {
    now: Pod,
    /// The record events are counted from; only while that gives any. Boxed, since most pods have none.
    before: Option<Box<Pod>>,
}

/// Owns the last observation of every pod on the node.
#[derive(Debug, Default)]
pub struct Relist {
    pods: HashMap<Box<str>, Entry>,
    pass: u32,
    strays: usize,
}

/// What a walk found that is not as it was.
#[derive(Default)]
struct Found<'a> {
    /// By the UID of its pod.
    fresh: Vec<(&'a str, View<'a>)>,
    /// One that came again after it had been marked.
    again: Option<View<'a>>,
    strays: usize,
}

/// Why a pod cannot be built.
enum Trouble {
    Repeated,
    TooLarge,
}

impl Relist {
    /// Apply full lists; the pods that differ from their records, and those in `reinspect`, by UID. On an error nothing
    /// has changed.
    pub fn observe<'s>(
        &'s mut self,
        lists: Lists<'_, '_>,
        reinspect: &'s HashSet<String>,
    ) -> Result<Vec<Change<'s>>, DecodeError> {
        let found = self.meet(lists, None)?;
        let unmet = self.pods.iter().filter(|(_, entry)| entry.now.has_unmet(self.pass)).map(|(uid, _)| &**uid);
        let built = self.build(lists, None, &found, unmet)?;
        self.strays = found.strays;
        for (uid, pod) in built {
            self.replace(uid, pod);
        }
        let differing = self.pods.iter().filter(|(_, entry)| entry.before.is_some()).map(|(uid, _)| &**uid);
        let mut due: Vec<&str> = differing.chain(reinspect.iter().map(String::as_str)).collect();
        due.sort_unstable();
        due.dedup();
        Ok(due.into_iter().map(|uid| self.change(uid)).collect())
    }

    /// Apply lists of one pod. Items of other pods are ignored. With `force` the pod is reported even if it is as its
    /// record. On an error nothing has changed.
    pub fn observe_pod<'s>(
        &'s mut self,
        uid: &'s str,
        lists: Lists<'_, '_>,
        force: bool,
    ) -> Result<Option<Change<'s>>, DecodeError> {
        let found = self.meet(lists, Some(uid))?;
        let unmet = self.pods.get(uid).filter(|entry| entry.now.has_unmet(self.pass)).map(|_| uid);
        for (uid, pod) in self.build(lists, Some(uid), &found, unmet.into_iter())? {
            self.replace(uid, pod);
        }
        let differs = self.pods.get(uid).is_some_and(|entry| entry.before.is_some());
        Ok((force || differs).then(|| self.change(uid)))
    }

    /// The pod was inspected: its newest observation becomes its record.
    pub fn advance(&mut self, uid: &str) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.before = None;
            if entry.now.is_empty() {
                self.pods.remove(uid);
            }
        }
    }

    /// Every pod, by UID.
    pub fn pods(&self) -> Vec<(&str, &Pod)> {
        let mut found: Vec<_> =
            self.pods.iter().filter(|(_, e)| !e.now.is_empty()).map(|(uid, e)| (&**uid, &e.now)).collect();
        found.sort_unstable_by_key(|(uid, _)| *uid);
        found
    }

    /// One pod, or None.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.get(uid).map(|entry| &entry.now).filter(|pod| !pod.is_empty())
    }

    /// How many pods and containers there are.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { strays: self.strays, ..Counts::default() };
        for Entry { now, .. } in self.pods.values() {
            counts.running_pods += usize::from(now.list(Kind::Sandbox).any(|sandbox| sandbox.state == 0));
            for container in now.list(Kind::Container) {
                counts.containers[usize::from(container.state).min(3)] += 1;
            }
        }
        counts
    }

    /// Bytes on the heap, not counting what the allocator adds.
    pub fn heap_bytes(&self) -> usize {
        let mut bytes = self.pods.capacity() * std::mem::size_of::<(Box<str>, Entry)>();
        for (uid, Entry { now, before }) in &self.pods {
            bytes += uid.len()
                + now.heap_bytes()
                + before.as_ref().map_or(0, |before| std::mem::size_of::<Pod>() + before.heap_bytes());
        }
        bytes
    }

    /// The first step: mark what is as it was, return the rest. Nobody sees the marks of a pass that failed.
    fn meet<'a>(&mut self, lists: Lists<'a, '_>, only: Option<&str>) -> Result<Found<'a>, DecodeError> {
        if self.pass == u32::MAX {
            self.pass = 0;
            self.pods.values_mut().for_each(|entry| entry.now.forget_passes());
        }
        self.pass += 1;
        let mut found = Found::default();
        let mut homeless = Vec::new();
        for (kind, chunks) in lists.both() {
            walk(kind, chunks, |view| {
                if view.uid.is_empty() {
                    homeless.push(view);
                } else {
                    self.meet_one(view.uid, view, only, &mut found);
                }
                Ok(())
            })?;
        }
        if !homeless.is_empty() {
            let owners = owners(lists)?;
            for view in homeless {
                match owner(&view, &owners) {
                    "" => found.strays += 1,
                    uid => self.meet_one(uid, view, only, &mut found),
                }
            }
        }
        Ok(found)
    }

    fn meet_one<'a>(&mut self, uid: &'a str, view: View<'a>, only: Option<&str>, found: &mut Found<'a>) {
        if only.is_some_and(|only| only != uid) {
            return;
        }
        let pass = self.pass;
        match self.pods.get_mut(uid).map_or(Met::New, |entry| entry.now.meet(view.kind, &view.facts, pass)) {
            Met::Same => {}
            Met::New => found.fresh.push((uid, view)),
            Met::Twice => found.again = Some(view),
        }
    }

    /// The second step: every pod that is not as it was, from its marked items and the fresh ones.
    fn build<'u>(
        &self,
        lists: Lists<'_, '_>,
        only: Option<&str>,
        found: &Found<'u>,
        unmet: impl Iterator<Item = &'u str>,
    ) -> Result<Vec<(Box<str>, Pod)>, DecodeError> {
        if let Some(view) = &found.again {
            return Err(repeated(lists, only, view));
        }
        let mut fresh: Vec<&(&str, View<'_>)> = found.fresh.iter().collect();
        fresh.sort_by_key(|(uid, _)| *uid); // stable: the views of a pod stay in the order of the lists
        let uids: BTreeSet<&str> = fresh.iter().map(|(uid, _)| *uid).chain(unmet).collect();
        let mut built = Vec::with_capacity(uids.len());
        let mut rest = &fresh[..];
        for uid in uids {
            let (of_pod, others) = rest.split_at(rest.iter().take_while(|(owner, _)| *owner == uid).count());
            rest = others;
            let known = self.pods.get(uid).map(|entry| &entry.now);
            match self.build_one(known, of_pod) {
                Ok(pod) => built.push((uid.into(), pod)),
                Err(Trouble::Repeated) => return Err(repeated(lists, only, &of_pod[0].1)),
                Err(Trouble::TooLarge) => return Err(of_pod[0].1.fail(Problem::TooLarge)),
            }
        }
        Ok(built)
    }

    fn build_one(&self, known: Option<&Pod>, fresh: &[&(&str, View<'_>)]) -> Result<Pod, Trouble> {
        let gather = |kind: Kind| {
            let marked = known.into_iter().flat_map(|pod| pod.met(kind, self.pass));
            let news = fresh.iter().filter(|(_, view)| view.kind == kind).map(|(_, view)| view.facts);
            let mut facts: Vec<Facts<'_>> = marked.chain(news).collect();
            facts.sort_unstable_by_key(|facts| facts.id);
            let repeated = facts.windows(2).any(|pair| pair[0].id == pair[1].id);
            if repeated {
                Err(Trouble::Repeated)
            } else {
                Ok(facts)
            }
        };
        // A UID never changes its name: the first that was told stays.
        let told = fresh.iter().map(|(_, view)| view.pod).find(|pod| !pod.name.is_empty());
        let called = known.map(Pod::called).filter(|pod| !pod.name.is_empty()).or(told).unwrap_or_default();
        Pod::pack(called, gather(Kind::Sandbox)?, gather(Kind::Container)?).ok_or(Trouble::TooLarge)
    }

    /// The third step.
    fn replace(&mut self, uid: Box<str>, pod: Pod) {
        let entry = self.pods.entry(uid.clone()).or_default();
        let old = std::mem::replace(&mut entry.now, pod);
        let before = entry.before.take().unwrap_or_else(|| Box::new(old));
        if compare(&before, &entry.now).next().is_some() {
            entry.before = Some(before);
        } else if entry.now.is_empty() {
            self.pods.remove(&uid); // it came and went between two inspections: nobody knew of it
        }
    }

    fn change<'s>(&'s self, uid: &'s str) -> Change<'s> {
        let Some(Entry { now, before }) = self.pods.get(uid) else {
            let (pod, events, sandboxes, containers) = Default::default();
            return Change { uid, pod, events, sandboxes, containers };
        };
        let ids = |kind| now.newest_first(kind).into_iter().map(|facts| facts.id).collect();
        Change {
            uid,
            pod: now.called(),
            events: before.iter().flat_map(|before| compare(before, now)).collect(),
            sandboxes: ids(Kind::Sandbox),
            containers: ids(Kind::Container),
        }
    }
}

/// The events between two observations of a pod: containers by id, then sandboxes by id.
fn compare<'a>(old: &'a Pod, new: &'a Pod) -> impl Iterator<Item = Event<'a>> {
    [Kind::Container, Kind::Sandbox].into_iter().flat_map(move |of| {
        let (mut olds, mut news) = (old.list(of).peekable(), new.list(of).peekable());
        let seen = move |item: Option<Facts<'a>>| item.map_or(Seen::Absent, |item| Seen::of(of, item.state));
        std::iter::from_fn(move || {
            let id = match (olds.peek(), news.peek()) {
                (Some(old), Some(new)) => old.id.min(new.id),
                (Some(item), None) | (None, Some(item)) => item.id,
                (None, None) => return None,
            };
            let was = seen(olds.next_if(|item| item.id == id));
            Some((id, was, seen(news.next_if(|item| item.id == id))))
        })
        .flat_map(move |(id, was, is)| events_of(was, is).iter().map(move |kind| Event { kind: *kind, of, id }))
    })
}

/// The pod of every sandbox in the lists, by the sandbox's id.
fn owners<'a>(lists: Lists<'a, '_>) -> Result<HashMap<&'a str, &'a str>, DecodeError> {
    let mut owners = HashMap::new();
    walk(Kind::Sandbox, lists.sandboxes, |view| {
        owners.insert(view.facts.id, view.uid);
        Ok(())
    })?;
    Ok(owners)
}

/// The UID of an item's pod: its own word, else its sandbox's; empty for what no kubelet made.
fn owner<'a>(view: &View<'a>, owners: &HashMap<&'a str, &'a str>) -> &'a str {
    match view.kind {
        Kind::Container if view.uid.is_empty() => owners.get(view.facts.sandbox_id).copied().unwrap_or(""),
        _ => view.uid,
    }
}

/// The error of the first item, in the order of the lists, whose id its pod has had already; of `found` if there is none.
fn repeated(lists: Lists<'_, '_>, only: Option<&str>, found: &View<'_>) -> DecodeError {
    let fail = |view: &View<'_>| view.fail(Problem::Duplicate(view.facts.id.to_owned()));
    let search = || {
        let owners = owners(lists)?;
        let mut seen = HashSet::new();
        for (kind, chunks) in lists.both() {
            walk(kind, chunks, |view| match owner(&view, &owners) {
                uid if uid.is_empty() || only.is_some_and(|only| only != uid) => Ok(()),
                uid if seen.insert((kind, uid, view.facts.id)) => Ok(()),
                _ => Err(fail(&view)),
            })?;
        }
        Ok(())
    };
    search().err().unwrap_or_else(|| fail(found))
}
