//! The heart: what was known, what is seen now, and which pods differ.
//!
//! Each pod has its newest observation and, while the two tell different states, the older record its events are
//! counted from. A pod's record advances only when its inspection succeeded ([`Relist::advance`]); until then the same
//! events are reported again with every list, so a failed inspection loses nothing.
//!
//! Lists are applied in three steps. The first walks every item and asks [`crate::marks`] whether one just like it is
//! known; that one gets a mark and costs nothing more. The second builds again the pods that have items which are not as
//! they were, or unmarked ones. Only the third changes anything that counts, and cannot fail.

use std::collections::{HashMap, HashSet};

use crate::decode::{walk, View};
use crate::error::{DecodeError, Problem};
use crate::marks::{Digest, Marks, Met};
use crate::pods::{Entry, Pods};
use crate::record::{events_of, EventKind, Facts, Kind, Pod, PodName, Seen, Text};

/// An event of one sandbox or container of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The kind of event.
    pub kind: EventKind,
    /// To which of the two.
    pub of: Kind,
    /// The id of the sandbox or container.
    pub id: Text<'a>,
}

/// A pod that must be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'a> {
    /// The pod's UID.
    pub uid: Text<'a>,
    /// The pod's name and namespace.
    pub pod: PodName<'a>,
    /// The events since the pod's record was last advanced: containers by id, then sandboxes by id.
    pub events: Vec<Event<'a>>,
    /// Every sandbox id now, newest first.
    pub sandboxes: Vec<Text<'a>>,
    /// Every container id now, newest first.
    pub containers: Vec<Text<'a>>,
}

/// How many there are, by state.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Pods with a ready sandbox.
    pub running_pods: usize,
    /// Containers by the CRI's state number: created, running, exited, unknown.
    pub containers: [usize; 4],
    /// Sandboxes and containers of the last full lists that belong to no pod: they are owned by other programs.
    pub unmanaged: usize,
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

/// Owns the last observation of every pod on the node.
#[derive(Debug, Default)]
pub struct Relist {
    pods: Pods,
    marks: Marks,
    unmanaged: usize,
    unlabelled: HashSet<String>,
}

/// The items that a walk found changed.
#[derive(Default)]
struct Found<'a> {
    fresh: Vec<Walked<'a>>,
    /// One that came again after it had been marked.
    again: Option<View<'a>>,
    unmanaged: usize,
    /// The pods of items whose labels do not tell them; a pod may stand here more than once.
    unlabelled: Vec<Text<'a>>,
}

/// An item of a list, which tells the UID of its pod.
type Walked<'a> = (View<'a>, Digest);

/// How many items wait for one another. A look at the marks alone is so short that a processor begins the next before
/// memory has answered the last; between two looks a whole item would be walked.
const BATCH: usize = 32;

/// Why a pod cannot be built.
enum Rejection {
    Repeated,
    TooLarge,
}

impl Relist {
    /// Apply full lists. On an error nothing has changed.
    pub fn take(&mut self, lists: Lists<'_, '_>) -> Result<(), DecodeError> {
        let found = self.meet(lists, None)?;
        let built = self.build(lists, None, &found, self.pods.at(self.marks.unmet()))?;
        self.unmanaged = found.unmanaged;
        self.unlabelled = found.unlabelled.iter().map(|uid| uid.str().to_owned()).collect();
        self.marks.reserve(found.fresh.len());
        built.into_iter().for_each(|pod| self.replace(pod));
        Ok(())
    }

    /// The UIDs of the pods that differ from their records, sorted.
    pub fn due(&self) -> Vec<Text<'_>> {
        let differing = self.pods.iter().filter(|entry| entry.before.is_some());
        let mut due: Vec<_> = differing.map(|entry| entry.now.uid()).collect();
        due.sort_by_cached_key(|uid| uid.key());
        due
    }

    /// Whether something of the pod came, in the newest full lists, without the pod's UID as a label: lists of one pod,
    /// which runtimes filter by that label, do not have it and must not be applied.
    pub fn has_unlabelled(&self, uid: &str) -> bool {
        self.unlabelled.contains(uid)
    }

    /// Apply lists of one pod. Items of other pods are ignored. With `force` the pod is reported even if it is as its
    /// record. On an error nothing has changed.
    pub fn observe_pod<'s>(
        &'s mut self,
        uid: &'s str,
        lists: Lists<'_, '_>,
        force: bool,
    ) -> Result<Option<Change<'s>>, DecodeError> {
        let uid = Text::from(uid);
        let found = self.meet(lists, Some(uid))?;
        let built = self.build(lists, Some(uid), &found, self.pods.get(uid).into_iter())?;
        built.into_iter().for_each(|pod| self.replace(pod));
        let differs = self.pods.get(uid).is_some_and(|entry| entry.before.is_some());
        Ok((force || differs).then(|| self.change(uid)))
    }

    /// The pod was inspected: its newest observation becomes its record.
    pub fn advance(&mut self, uid: &str) {
        let uid = Text::from(uid);
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.before = None;
            if entry.now.is_empty() {
                self.pods.remove(uid);
            }
        }
    }

    /// Every pod, by UID.
    pub fn pods(&self) -> Vec<(Text<'_>, &Pod)> {
        self.by_uid(|pod| !pod.is_empty())
    }

    fn by_uid(&self, is_asked: impl Fn(&Pod) -> bool) -> Vec<(Text<'_>, &Pod)> {
        let pods = self.pods.iter().map(|entry| &entry.now).filter(|pod| is_asked(pod));
        let mut found: Vec<_> = pods.map(|pod| (pod.uid(), pod)).collect();
        found.sort_unstable_by_key(|(uid, _)| *uid);
        found
    }

    /// One pod, or None.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.get(uid.into()).map(|entry| &entry.now).filter(|pod| !pod.is_empty())
    }

    /// How many pods there are.
    pub fn pod_count(&self) -> usize {
        self.pods.iter().filter(|entry| !entry.now.is_empty()).count()
    }

    /// Whether something of the pod runs.
    pub fn is_running(&self, uid: &str) -> bool {
        self.pod(uid).is_some_and(|pod| seen(pod).any(|seen| seen == Seen::Running))
    }

    /// The pods of which something runs, but for those of `beside`, by UID.
    pub fn running(&self, beside: &HashSet<String>) -> Vec<(Text<'_>, &Pod)> {
        let is_asked = |pod: &Pod| seen(pod).any(|seen| seen == Seen::Running) && !beside.contains(pod.uid().str());
        self.by_uid(is_asked)
    }

    /// The UIDs of the pods of which something does not run, sorted.
    pub fn uids_with_dead(&self) -> Vec<Text<'_>> {
        self.by_uid(|pod| seen(pod).any(|seen| seen != Seen::Running)).into_iter().map(|(uid, _)| uid).collect()
    }

    /// The UIDs of all pods, sorted.
    pub fn uids(&self) -> Vec<Text<'_>> {
        self.pods().into_iter().map(|(uid, _)| uid).collect()
    }

    /// The ids of all containers, in no order.
    pub fn container_ids(&self) -> Vec<Text<'_>> {
        self.pods.iter().flat_map(|entry| entry.now.list(Kind::Container)).map(|container| container.id).collect()
    }

    /// How many pods and containers there are.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { unmanaged: self.unmanaged, ..Counts::default() };
        for entry in self.pods.iter() {
            counts.running_pods += usize::from(entry.now.list(Kind::Sandbox).any(|sandbox| sandbox.state == 0));
            for container in entry.now.list(Kind::Container) {
                counts.containers[usize::from(container.state).min(3)] += 1;
            }
        }
        counts
    }

    /// Bytes on the heap, not counting what the allocator adds.
    pub fn heap_bytes(&self) -> usize {
        let unlabelled = self.unlabelled.capacity() * std::mem::size_of::<String>();
        let uids: usize = self.unlabelled.iter().map(String::capacity).sum();
        self.pods.heap_bytes() + self.marks.heap_bytes() + unlabelled + uids
    }

    /// The first step: mark unchanged items, return the rest. The marks of a pass that failed are never used.
    fn meet<'a>(&mut self, lists: Lists<'a, '_>, only: Option<Text<'_>>) -> Result<Found<'a>, DecodeError> {
        self.marks.start();
        let mut found = Found::default();
        let mut homeless = Vec::new();
        let mut batch = Vec::with_capacity(BATCH);
        for (kind, chunks) in lists.both() {
            walk(kind, chunks, |view| {
                if view.uid.is_empty() {
                    homeless.push(view);
                } else if only.is_none_or(|only| only == view.uid) {
                    if !view.is_labelled {
                        found.unlabelled.push(view.uid);
                    }
                    self.meet_later(view, &mut batch, &mut found);
                }
                Ok(())
            })?;
        }
        if !homeless.is_empty() {
            let owners = owners(lists)?;
            for view in homeless {
                let uid = owner(&view, &owners);
                if uid.is_empty() {
                    found.unmanaged += 1;
                } else if only.is_none_or(|only| only == uid) {
                    found.unlabelled.push(uid);
                    self.meet_later(View { uid, ..view }, &mut batch, &mut found);
                }
            }
        }
        self.meet_batch(&mut batch, &mut found);
        Ok(found)
    }

    #[inline(always)]
    fn meet_later<'a>(&mut self, view: View<'a>, batch: &mut Vec<Walked<'a>>, found: &mut Found<'a>) {
        batch.push((view, self.marks.digest(view.kind, view.uid, &view.facts)));
        if batch.len() == BATCH {
            self.meet_batch(batch, found);
        }
    }

    fn meet_batch<'a>(&mut self, batch: &mut Vec<Walked<'a>>, found: &mut Found<'a>) {
        for walked in &*batch {
            match self.marks.meet(walked.1) {
                Met::Same => {}
                Met::New => found.fresh.push(*walked),
                Met::Twice => found.again = Some(walked.0),
            }
        }
        batch.clear();
    }

    /// The second step: every pod that is not as it was, from its marked items and the fresh ones. `unmet` are the pods
    /// that may have an item which is not marked.
    fn build<'u>(
        &'u self,
        lists: Lists<'_, '_>,
        only: Option<Text<'_>>,
        found: &'u Found<'_>,
        unmet: impl Iterator<Item = &'u Entry>,
    ) -> Result<Vec<Pod>, DecodeError> {
        if let Some(view) = &found.again {
            return Err(repeated(lists, only, view));
        }
        let fresh = found.fresh.iter().map(|walked| (walked.0.uid, Some(walked)));
        let unmet = unmet.map(|entry| (entry.now.uid(), None));
        let mut told: Vec<(Text<'_>, Option<&Walked<'_>>)> = fresh.chain(unmet).collect();
        told.sort_by_cached_key(|(uid, _)| uid.key()); // stable: the views of a pod stay in the order of the lists
        let of_pods = told.chunk_by(|(one, _), (other, _)| one == other);
        let build = |of_pod: &[(Text<'_>, Option<&Walked<'_>>)]| {
            let uid = of_pod[0].0;
            let fresh: Vec<&Walked<'_>> = of_pod.iter().filter_map(|(_, walked)| *walked).collect();
            self.build_one(uid, &fresh).map_err(|rejection| match rejection {
                Rejection::Repeated => repeated(lists, only, &fresh[0].0),
                Rejection::TooLarge => fresh[0].0.fail(Problem::TooLarge),
            })
        };
        of_pods.map(build).collect()
    }

    fn build_one(&self, uid: Text<'_>, fresh: &[&Walked<'_>]) -> Result<Pod, Rejection> {
        let known = self.pods.get(uid).map(|entry| &entry.now);
        let gather = |kind: Kind| {
            let known = known.into_iter().flat_map(|pod| pod.with_digests(kind));
            let marked = known.filter(|(_, digest)| self.marks.is_met(*digest));
            let news = fresh.iter().filter(|(view, _)| view.kind == kind).map(|(view, digest)| (view.facts, *digest));
            let mut items: Vec<(Facts<'_>, Digest)> = marked.chain(news).collect();
            items.sort_unstable_by_key(|(facts, _)| facts.id);
            let repeated = items.windows(2).any(|pair| pair[0].0.id == pair[1].0.id);
            if repeated {
                Err(Rejection::Repeated)
            } else {
                Ok(items)
            }
        };
        // A UID never changes its name: the first that was told stays.
        let told = fresh.iter().map(|(view, _)| view.pod).find(|pod| !pod.name.is_empty());
        let called = known.map(Pod::called).filter(|pod| !pod.name.is_empty()).or(told).unwrap_or_default();
        Pod::pack(uid, called, gather(Kind::Sandbox)?, gather(Kind::Container)?).ok_or(Rejection::TooLarge)
    }

    /// The third step.
    fn replace(&mut self, pod: Pod) {
        let at = self.pods.hash(pod.uid());
        self.pods.put(at, pod, |old, entry| {
            self.marks.remove(&old);
            self.marks.insert(at, &entry.now);
            let before = entry.before.take().unwrap_or_else(|| Box::new(old));
            let differs = compare(&before, &entry.now).next().is_some();
            entry.before = differs.then_some(before);
            differs || !entry.now.is_empty() // else it came and went between two inspections: nobody knew of it
        });
    }

    /// Return the facts needed to look at a pod, whether it differs from its record or not.
    pub fn change<'s>(&'s self, uid: Text<'s>) -> Change<'s> {
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

/// How everything in a pod stands.
fn seen(pod: &Pod) -> impl Iterator<Item = Seen> + '_ {
    let states = |kind| pod.list(kind).map(move |item| Seen::of(kind, item.state));
    states(Kind::Sandbox).chain(states(Kind::Container))
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
fn owners<'a>(lists: Lists<'a, '_>) -> Result<HashMap<Text<'a>, Text<'a>>, DecodeError> {
    let mut owners = HashMap::new();
    walk(Kind::Sandbox, lists.sandboxes, |view| {
        owners.insert(view.facts.id, view.uid);
        Ok(())
    })?;
    Ok(owners)
}

/// The UID of an item's pod: its own word, else its sandbox's; empty for what no kubelet made.
fn owner<'a>(view: &View<'a>, owners: &HashMap<Text<'a>, Text<'a>>) -> Text<'a> {
    match view.kind {
        Kind::Container if view.uid.is_empty() => owners.get(&view.facts.sandbox_id).copied().unwrap_or_default(),
        _ => view.uid,
    }
}

/// The error of the first item, in the order of the lists, whose id its pod has had already; of `found` if there is none.
fn repeated(lists: Lists<'_, '_>, only: Option<Text<'_>>, found: &View<'_>) -> DecodeError {
    let fail = |view: &View<'_>| view.fail(Problem::Duplicate(view.facts.id.str().to_owned()));
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
