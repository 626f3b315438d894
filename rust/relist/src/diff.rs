//! The heart: what was known, what is seen now, and which pods differ.
//!
//! Each pod has its newest observation and, where the two differ, the older record its events are counted from. A pod's
//! record advances only when its inspection succeeded ([`Relist::advance`]); until then the same events are reported
//! again with every list, so a failed inspection loses nothing.
//!
//! A list is applied in two passes. The first walks every item and compares it in place with the item known under the
//! same pod and id; it marks what it saw and changes nothing else, so an error leaves everything as it was. Only pods in
//! which something differs are built anew in the second pass.

use std::collections::{HashMap, HashSet};

use crate::decode::{walk_list, Layout, View, CONTAINER, SANDBOX};
use crate::error::{DecodeError, Problem};
use crate::record::{container_seen, events_of, sandbox_seen, EventKind, Item, Pod, Seen};

/// What happened to one sandbox or container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// To whom.
    pub id: Box<str>,
    /// Whether `id` is a sandbox's.
    pub is_sandbox: bool,
}

/// A pod that must be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The pod's UID.
    pub uid: Box<str>,
    /// The pod's name and namespace.
    pub name: (Box<str>, Box<str>),
    /// What happened since the pod's record was last advanced: containers by id, then sandboxes by id.
    pub events: Vec<Event>,
    /// Every sandbox id now, newest first.
    pub sandboxes: Vec<Box<str>>,
    /// Every container id now, newest first.
    pub containers: Vec<Box<str>>,
}

#[derive(Debug, Default)]
struct Entry {
    now: Pod,
    /// The record events are counted from, when it is not `now`.
    before: Option<Pod>,
}

/// How many there are, by state.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Pods with a ready sandbox.
    pub running_pods: usize,
    /// Containers by the CRI's state number: created, running, exited, unknown.
    pub containers: [usize; 4],
}

/// Owns the last observation of every pod on the node.
#[derive(Debug, Default)]
pub struct Relist {
    pods: HashMap<Box<str>, Entry>,
}

struct Listed<'a> {
    view: View<'a>,
    uid: &'a str,
    is_sandbox: bool,
}

impl Relist {
    /// Apply full lists; the pods that differ from their records, and those in `reinspect`, by UID.
    pub fn observe(
        &mut self,
        sandboxes: &[&[u8]],
        containers: &[&[u8]],
        reinspect: &HashSet<String>,
    ) -> Result<Vec<Change>, DecodeError> {
        let listed = list(sandboxes, containers)?;
        let changed = self.differing(&listed);
        self.rebuild(&listed, &changed)?;
        let mut due: Vec<&str> = self
            .pods
            .iter()
            .filter(|(uid, entry)| entry.before.is_some() || reinspect.contains(&***uid))
            .map(|(uid, _)| &**uid)
            .collect();
        due.extend(reinspect.iter().map(String::as_str).filter(|uid| !self.pods.contains_key(*uid)));
        due.sort_unstable();
        Ok(due
            .into_iter()
            .map(|uid| self.change(uid))
            .filter(|change| !change.events.is_empty() || reinspect.contains(&*change.uid))
            .collect())
    }

    /// Apply lists of one pod. Items of other pods are ignored. With `force` the pod is reported even if it is as before.
    pub fn observe_pod(
        &mut self,
        uid: &str,
        sandboxes: &[&[u8]],
        containers: &[&[u8]],
        force: bool,
    ) -> Result<Option<Change>, DecodeError> {
        let mut listed = list(sandboxes, containers)?;
        listed.retain(|item| item.uid == uid);
        let pod = build(&listed)?;
        self.replace(uid, pod);
        let change = self.change(uid);
        Ok((force || !change.events.is_empty()).then_some(change))
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
        let mut counts = Counts::default();
        for entry in self.pods.values() {
            counts.running_pods += usize::from(entry.now.sandboxes.iter().any(|s| s.state == 0));
            for container in &entry.now.containers {
                counts.containers[usize::from(container.state).min(3)] += 1;
            }
        }
        counts
    }

    /// UIDs of the pods in which something differs from their newest observation.
    fn differing(&self, listed: &[Listed<'_>]) -> HashSet<Box<str>> {
        let mut differing: HashSet<Box<str>> = HashSet::new();
        let mut same: HashMap<&str, usize> = HashMap::with_capacity(self.pods.len());
        for item in listed {
            let known = self.pods.get(item.uid).and_then(|entry| {
                let items = if item.is_sandbox { &entry.now.sandboxes } else { &entry.now.containers };
                items.iter().find(|known| &*known.id == item.view.id)
            });
            match known {
                Some(known) if known.state == item.view.state && known.attempt == item.view.attempt => {
                    *same.entry(item.uid).or_default() += 1;
                }
                _ if !differing.contains(item.uid) => {
                    differing.insert(item.uid.into());
                }
                _ => {}
            }
        }
        for (uid, entry) in &self.pods {
            let known = entry.now.sandboxes.len() + entry.now.containers.len();
            if same.get(&**uid).copied().unwrap_or(0) != known {
                differing.insert(uid.clone());
            }
        }
        differing
    }

    fn rebuild(&mut self, listed: &[Listed<'_>], changed: &HashSet<Box<str>>) -> Result<(), DecodeError> {
        if changed.is_empty() {
            return Ok(());
        }
        let mut items: HashMap<&str, Vec<&Listed<'_>>> = changed.iter().map(|uid| (&**uid, Vec::new())).collect();
        for item in listed {
            if let Some(of_pod) = items.get_mut(item.uid) {
                of_pod.push(item);
            }
        }
        let mut built = Vec::with_capacity(items.len());
        for (uid, of_pod) in items {
            built.push((Box::<str>::from(uid), build(of_pod)?));
        }
        for (uid, pod) in built {
            self.replace(&uid, pod);
        }
        Ok(())
    }

    fn replace(&mut self, uid: &str, pod: Pod) {
        if !self.pods.contains_key(uid) {
            if pod.is_empty() {
                return;
            }
            self.pods.insert(uid.into(), Entry { now: Pod::default(), before: Some(Pod::default()) });
        }
        if let Some(entry) = self.pods.get_mut(uid) {
            if entry.now.is_same_as(&pod) {
                return;
            }
            let mut old = std::mem::replace(&mut entry.now, pod);
            if entry.now.is_empty() {
                entry.now.name = std::mem::take(&mut old.name);
                entry.now.namespace = std::mem::take(&mut old.namespace);
            }
            entry.before.get_or_insert(old);
            if entry.now.is_empty() && entry.before.as_ref().is_some_and(Pod::is_empty) {
                self.pods.remove(uid); // it came and went between two inspections: nobody knew of it
            }
        }
    }

    fn change(&self, uid: &str) -> Change {
        let empty = Entry::default();
        let entry = self.pods.get(uid).unwrap_or(&empty);
        let before = entry.before.as_ref().unwrap_or(&entry.now);
        let mut events = Vec::new();
        compare(&before.containers, &entry.now.containers, false, container_seen, &mut events);
        compare(&before.sandboxes, &entry.now.sandboxes, true, sandbox_seen, &mut events);
        Change {
            uid: uid.into(),
            name: (entry.now.name.clone(), entry.now.namespace.clone()),
            events,
            sandboxes: entry.now.sandboxes.iter().map(|item| item.id.clone()).collect(),
            containers: entry.now.containers.iter().map(|item| item.id.clone()).collect(),
        }
    }
}

fn list<'a>(sandboxes: &[&'a [u8]], containers: &[&'a [u8]]) -> Result<Vec<Listed<'a>>, DecodeError> {
    let mut listed = Vec::new();
    let mut walk = |chunks: &[&'a [u8]], layout: &Layout, is_sandbox: bool| {
        for chunk in chunks {
            walk_list(chunk, layout, |view| {
                let uid = if view.meta_uid.is_empty() { view.label_uid } else { view.meta_uid };
                listed.push(Listed { view, uid, is_sandbox });
                Ok(())
            })?;
        }
        Ok(())
    };
    walk(sandboxes, &SANDBOX, true)?;
    walk(containers, &CONTAINER, false)?;
    if listed.iter().any(|item| !item.is_sandbox && item.uid.is_empty()) {
        let owners: HashMap<&str, &str> =
            listed.iter().filter(|item| item.is_sandbox).map(|item| (item.view.id, item.uid)).collect();
        for item in listed.iter_mut().filter(|item| !item.is_sandbox && item.uid.is_empty()) {
            item.uid = owners.get(item.view.sandbox_id).copied().unwrap_or("");
        }
    }
    // What no kubelet made has no pod; it is not ours to look at.
    listed.retain(|item| !item.uid.is_empty());
    Ok(listed)
}

fn build<'l, 'a: 'l>(items: impl IntoIterator<Item = &'l Listed<'a>>) -> Result<Pod, DecodeError> {
    let mut pod = Pod::default();
    for Listed { view, is_sandbox, .. } in items {
        let (name, namespace) =
            if *is_sandbox { (view.name, view.meta_namespace) } else { (view.label_name, view.label_namespace) };
        if pod.name.is_empty() {
            pod.name = name.into();
            pod.namespace = namespace.into();
        }
        let list = if *is_sandbox { &mut pod.sandboxes } else { &mut pod.containers };
        if list.iter().any(|known| &*known.id == view.id) {
            return Err(DecodeError { offset: view.offset, problem: Problem::Duplicate(view.id.to_owned()) });
        }
        list.push(Item {
            id: view.id.into(),
            name: if *is_sandbox { "".into() } else { view.name.into() },
            sandbox_id: view.sandbox_id.into(),
            attempt: view.attempt,
            state: view.state,
            created_at: view.created_at,
        });
    }
    pod.sort();
    Ok(pod)
}

fn compare(old: &[Item], new: &[Item], is_sandbox: bool, seen: fn(u8) -> Seen, events: &mut Vec<Event>) {
    let mut ids: Vec<&str> = old.iter().chain(new).map(|item| &*item.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let state = |items: &[Item], id: &str| {
        items.iter().find(|item| &*item.id == id).map_or(Seen::Absent, |item| seen(item.state))
    };
    for id in ids {
        for kind in events_of(state(old, id), state(new, id)) {
            events.push(Event { kind: *kind, id: id.into(), is_sandbox });
        }
    }
}
