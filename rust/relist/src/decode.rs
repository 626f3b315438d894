//! Reading lists: only the fields the relist needs, borrowed from the reply.
//!
//! Sandboxes and containers have the same shape with other field numbers, so one walker reads both by a [`Layout`].
//! Fields of no interest are skipped without looking inside. As protobuf has it, the last of a repeated scalar wins and
//! a message that stands twice is merged. Nothing recurses, and nothing is allocated.

use crate::error::{DecodeError, Fault, Problem};
use crate::record::{Facts, Kind, PodName, Text};
use crate::wire::Walker;

/// Where a kind of item has its fields. A number of 0 stands for "has no such field".
struct Layout {
    id: u32,
    sandbox_id: u32,
    metadata: u32,
    state: u32,
    created_at: u32,
    labels: u32,
    meta_uid: u32,
    meta_namespace: u32,
    meta_attempt: u32,
    /// The largest state number that exists, which is also what any other number is taken for.
    state_max: u8,
}

/// `runtime.v1.PodSandbox`.
const SANDBOX: Layout = Layout {
    id: 1,
    sandbox_id: 0,
    metadata: 2,
    state: 3,
    created_at: 4,
    labels: 5,
    meta_uid: 2,
    meta_namespace: 3,
    meta_attempt: 4,
    state_max: 1,
};

/// `runtime.v1.Container`.
const CONTAINER: Layout = Layout {
    id: 1,
    sandbox_id: 2,
    metadata: 3,
    state: 6,
    created_at: 7,
    labels: 8,
    meta_uid: 0,
    meta_namespace: 0,
    meta_attempt: 2,
    state_max: 3,
};

pub(crate) const UID_LABEL: &[u8] = b"io.kubernetes.pod.uid";
const NAME_LABEL: &[u8] = b"io.kubernetes.pod.name";
const NAMESPACE_LABEL: &[u8] = b"io.kubernetes.pod.namespace";

/// One item of a list, borrowed from the reply. Absent strings are empty.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Which list it stands in.
    pub kind: Kind,
    /// The chunk of that list.
    pub chunk: usize,
    /// Where in the chunk the item begins, in bytes.
    pub offset: usize,
    /// The facts that are kept of it.
    pub facts: Facts<'a>,
    /// The UID of its pod, when the item itself tells it: a sandbox's metadata, else its labels; a container's labels.
    pub uid: Text<'a>,
    /// Whether a label tells that UID: only then is the item in a list that is filtered by the label.
    pub is_labelled: bool,
    /// The pod's name, when the item tells it.
    pub pod: PodName<'a>,
}

impl View<'_> {
    /// A problem with this item, told with its place.
    pub fn fail(&self, problem: Problem) -> DecodeError {
        DecodeError { list: self.kind, chunk: self.chunk, offset: self.offset, problem }
    }
}

/// The fields read of an item before its pod is known.
#[derive(Default)]
struct Draft<'a> {
    facts: Facts<'a>,
    meta_uid: Text<'a>,
    meta_namespace: Text<'a>,
    label_uid: Text<'a>,
    label_name: Text<'a>,
    label_namespace: Text<'a>,
}

/// A node with this many sandboxes or containers is a broken runtime's invention. Without a bound an item of two bytes
/// could cost two hundred times as many in memory while it is looked at.
pub const ITEMS_MAX: usize = 1 << 18;

/// Hand every item of a list to `each`. Items are field 1 of every reply, in unary and streamed lists alike.
pub fn walk<'a>(
    kind: Kind,
    chunks: &[&'a [u8]],
    mut each: impl FnMut(View<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut items = 0;
    for (chunk, bytes) in chunks.iter().enumerate() {
        let mut walker = Walker::new(bytes, 0);
        let located = |fault: Fault| fault.located(kind, chunk);
        while let Some((number, value)) = walker.next().map_err(located)? {
            if number == 1 {
                let inside = walker.message(value).map_err(located)?;
                let offset = inside.base;
                items += 1;
                if items > ITEMS_MAX {
                    return Err(DecodeError { list: kind, chunk, offset, problem: Problem::TooMany });
                }
                let mut draft = Draft::default();
                let read = match kind {
                    Kind::Sandbox => item(inside, &SANDBOX, &mut draft),
                    Kind::Container => item(inside, &CONTAINER, &mut draft),
                };
                read.map_err(located)?;
                each(view(&draft, kind, chunk, offset))?;
            }
        }
    }
    Ok(())
}

#[inline(always)] // else a view is copied once more on its way to whoever wants it
fn view<'a>(draft: &Draft<'a>, kind: Kind, chunk: usize, offset: usize) -> View<'a> {
    let mut facts = draft.facts;
    let (mut uid, mut name, mut namespace) = (draft.label_uid, draft.label_name, draft.label_namespace);
    if kind == Kind::Sandbox {
        // A sandbox's metadata names the pod; what it lacks is taken from the labels.
        let metadata_else = |told: Text<'a>, label| if told.is_empty() { label } else { told };
        uid = metadata_else(draft.meta_uid, uid);
        name = metadata_else(std::mem::take(&mut facts.name), name);
        namespace = metadata_else(draft.meta_namespace, namespace);
    }
    let is_labelled = !uid.is_empty() && uid == draft.label_uid;
    View { kind, chunk, offset, facts, uid, is_labelled, pod: PodName { name, namespace } }
}

#[inline]
fn item<'a>(mut walker: Walker<'a>, layout: &Layout, draft: &mut Draft<'a>) -> Result<(), Fault> {
    while let Some((number, value)) = walker.next()? {
        if number == layout.labels {
            label(walker.message(value)?, draft)?;
        } else if number == layout.id {
            draft.facts.id = walker.raw_text(value)?;
        } else if number == layout.sandbox_id {
            draft.facts.sandbox_id = walker.raw_text(value)?;
        } else if number == layout.metadata {
            metadata(walker.message(value)?, layout, draft)?;
        } else if number == layout.state {
            // An enumeration is an int32 on the wire, whatever the length of its varint.
            let state = walker.number(&value)? as u32;
            draft.facts.state = u8::try_from(state).unwrap_or(u8::MAX).min(layout.state_max);
        } else if number == layout.created_at {
            draft.facts.created_at = walker.number(&value)? as i64;
        }
    }
    Ok(())
}

fn metadata<'a>(mut walker: Walker<'a>, layout: &Layout, draft: &mut Draft<'a>) -> Result<(), Fault> {
    while let Some((number, value)) = walker.next()? {
        if number == 1 {
            draft.facts.name = walker.raw_text(value)?;
        } else if number == layout.meta_uid {
            draft.meta_uid = walker.raw_text(value)?;
        } else if number == layout.meta_namespace {
            draft.meta_namespace = walker.raw_text(value)?;
        } else if number == layout.meta_attempt {
            draft.facts.attempt = walker.number(&value)? as u32;
        }
    }
    Ok(())
}

fn label<'a>(mut walker: Walker<'a>, draft: &mut Draft<'a>) -> Result<(), Fault> {
    let pair = walker.pair()?;
    let target = match pair.key {
        UID_LABEL => &mut draft.label_uid,
        NAME_LABEL => &mut draft.label_name,
        NAMESPACE_LABEL => &mut draft.label_namespace,
        _ => return Ok(()),
    };
    *target = pair.text()?;
    Ok(())
}
