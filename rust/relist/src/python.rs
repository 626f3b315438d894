//! The Python face of the crate: plain tuples in and out, the GIL released while bytes are walked.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use pyo3::IntoPyObjectExt;

use crate::diff::{Change, Lists, Relist};
use crate::frames::{Block, Frames, News, Piece, Refusal};
use crate::parts::{self, Joiner};
use crate::record::{Kind, Pod, Text};
use crate::statuses::{Digest, Digester};

pyo3::create_exception!(_relist, RelistDecodeError, PyValueError, "A reply of the runtime that cannot be read.");

type Event<'a> = (u8, &'a str, bool);
type ChangeTuple<'a> = (&'a str, &'a str, &'a str, Vec<Event<'a>>, Vec<&'a str>, Vec<&'a str>);
type Sandbox<'a> = (&'a str, u32, u8);
type Container<'a> = (&'a str, &'a str, u32, u8, &'a str);
type Record<'a> = (&'a str, &'a str, &'a str, Vec<Sandbox<'a>>, Vec<Container<'a>>);

/// The last observation of every pod; see `trikubelet.core.relist.Relist`.
#[pyclass(name = "Relist", module = "trikubelet._relist")]
#[derive(Default)]
struct PyRelist {
    inner: Relist,
}

fn raise(py: Python<'_>, offset: usize, error: impl std::error::Error) -> PyErr {
    let raised = RelistDecodeError::new_err(error.to_string());
    match raised.value(py).setattr("offset", offset) {
        Ok(()) => raised,
        Err(failed) => failed,
    }
}

fn slices(chunks: &[PyBackedBytes]) -> Vec<&[u8]> {
    chunks.iter().map(|chunk| &**chunk).collect()
}

fn kind(is_sandbox: bool) -> Kind {
    if is_sandbox {
        Kind::Sandbox
    } else {
        Kind::Container
    }
}

fn strings<'a>(texts: impl IntoIterator<Item = Text<'a>>) -> Vec<&'a str> {
    texts.into_iter().map(Text::str).collect()
}

fn change_tuple<'a>(change: Change<'a>) -> ChangeTuple<'a> {
    let events = change.events.into_iter().map(|event| (event.kind as u8, event.id.str(), event.of == Kind::Sandbox));
    let (uid, name, namespace) = (change.uid.str(), change.pod.name.str(), change.pod.namespace.str());
    (uid, name, namespace, events.collect(), strings(change.sandboxes), strings(change.containers))
}

fn record_tuple<'a>(uid: Text<'a>, pod: &'a Pod) -> Record<'a> {
    let sandboxes = pod.newest_first(Kind::Sandbox).into_iter().map(|s| (s.id.str(), s.attempt, s.state));
    let containers = pod.newest_first(Kind::Container).into_iter();
    let containers = containers.map(|c| (c.id.str(), c.name.str(), c.attempt, c.state, c.sandbox_id.str()));
    let called = pod.called();
    (uid.str(), called.name.str(), called.namespace.str(), sandboxes.collect(), containers.collect())
}

#[pymethods]
impl PyRelist {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn take(&mut self, py: Python<'_>, sandboxes: Vec<PyBackedBytes>, containers: Vec<PyBackedBytes>) -> PyResult<()> {
        let inner = &mut self.inner;
        let (sandboxes, containers) = (slices(&sandboxes), slices(&containers));
        let lists = Lists { sandboxes: &sandboxes, containers: &containers };
        py.detach(|| inner.take(lists)).map_err(|error| raise(py, error.offset, error))
    }

    fn due(&self) -> Vec<&str> {
        strings(self.inner.due())
    }

    fn change<'py>(&self, py: Python<'py>, uid: &str) -> PyResult<Bound<'py, PyAny>> {
        Ok(change_tuple(self.inner.change(uid.into())).into_pyobject(py)?.into_any())
    }

    fn observe_pod<'py>(
        &mut self,
        py: Python<'py>,
        uid: &str,
        sandboxes: Vec<PyBackedBytes>,
        containers: Vec<PyBackedBytes>,
        force: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let inner = &mut self.inner;
        let (sandboxes, containers) = (slices(&sandboxes), slices(&containers));
        let lists = Lists { sandboxes: &sandboxes, containers: &containers };
        let change =
            py.detach(|| inner.observe_pod(uid, lists, force)).map_err(|error| raise(py, error.offset, error))?;
        change.map(|change| Ok(change_tuple(change).into_pyobject(py)?.into_any())).transpose()
    }

    fn advance(&mut self, uid: &str) {
        self.inner.advance(uid);
    }

    fn pods(&self) -> Vec<Record<'_>> {
        self.inner.pods().into_iter().map(|(uid, pod)| record_tuple(uid, pod)).collect()
    }

    fn pod<'py>(&self, py: Python<'py>, uid: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let record = self.inner.pod(uid).map(|pod| record_tuple(uid.into(), pod));
        record.map(|record| Ok(record.into_pyobject(py)?.into_any())).transpose()
    }

    fn has_unlabelled(&self, uid: &str) -> bool {
        self.inner.has_unlabelled(uid)
    }

    fn pod_count(&self) -> usize {
        self.inner.pod_count()
    }

    fn is_running(&self, uid: &str) -> bool {
        self.inner.is_running(uid)
    }

    fn running(&self, beside: HashSet<String>) -> Vec<Record<'_>> {
        self.inner.running(&beside).into_iter().map(|(uid, pod)| record_tuple(uid, pod)).collect()
    }

    fn uids_with_dead(&self) -> Vec<&str> {
        strings(self.inner.uids_with_dead())
    }

    fn uids(&self) -> Vec<&str> {
        strings(self.inner.uids())
    }

    fn container_ids(&self) -> Vec<&str> {
        strings(self.inner.container_ids())
    }

    fn counts(&self) -> (usize, [usize; 4], usize) {
        let counts = self.inner.counts();
        (counts.running_pods, counts.containers, counts.unmanaged)
    }
}

/// Lists that came in parts; see `trikubelet.core.parts.joined`.
#[pyclass(name = "Joiner", module = "trikubelet._relist")]
struct PyJoiner {
    inner: Joiner,
}

#[pymethods]
impl PyJoiner {
    #[new]
    fn new(is_sandbox: bool) -> Self {
        PyJoiner { inner: Joiner::new(kind(is_sandbox)) }
    }

    fn begin_part(&mut self) {
        self.inner.begin_part();
    }

    /// A chunk of which nothing is left out is handed back itself.
    fn add<'py>(
        &mut self,
        py: Python<'py>,
        chunk: Bound<'py, PyBytes>,
        number: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let inner = &mut self.inner;
        let bytes = PyBackedBytes::from(chunk.clone());
        let added = py.detach(|| inner.add(&bytes, number)).map_err(|error| raise(py, error.offset, error))?;
        Ok(match added {
            Cow::Borrowed(_) => chunk,
            Cow::Owned(rewritten) => PyBytes::new(py, &rewritten),
        })
    }
}

/// See `trikubelet.core.parts.pods_of`.
#[pyfunction]
fn pods_of(py: Python<'_>, chunk: PyBackedBytes) -> PyResult<Bound<'_, PyAny>> {
    let found = py.detach(|| parts::pods_of(&chunk)).map_err(|error| raise(py, error.offset, error))?;
    let found: BTreeMap<&str, Vec<&str>> =
        found.into_iter().map(|(namespace, uids)| (namespace.str(), strings(uids))).collect();
    found.into_bound_py_any(py)
}

/// Digests of status replies; see `trikubelet.core.statuses.StatusDigester`. They take a microsecond or two, for which
/// it is not worth to release the GIL.
#[pyclass(name = "StatusDigester", module = "trikubelet._relist", frozen)]
struct PyStatusDigester {
    inner: Digester,
}

impl PyStatusDigester {
    fn digest(&self, py: Python<'_>, kind: Kind, reply: &[u8]) -> PyResult<Digest> {
        self.inner.digest(kind, reply).map_err(|error| raise(py, error.fault.offset, error))
    }
}

#[pymethods]
impl PyStatusDigester {
    #[new]
    fn new(key: [u8; 16]) -> Self {
        PyStatusDigester { inner: Digester::new(key) }
    }

    fn sandbox<'py>(&self, py: Python<'py>, reply: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.digest(py, Kind::Sandbox, reply)?))
    }

    fn container<'py>(&self, py: Python<'py>, reply: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.digest(py, Kind::Container, reply)?))
    }
}

/// Bytes below which letting go of the GIL costs more than it lets others do.
const DETACHED_BYTES_MIN: usize = 64 * 1024;

/// The frames of one connection; see `trikubelet.core.frames.Frames`.
#[pyclass(name = "Frames", module = "trikubelet._relist")]
struct PyFrames {
    inner: Frames,
}

#[pymethods]
impl PyFrames {
    #[new]
    fn new(frame_bytes_max: usize, message_bytes_max: u32, serving: bool) -> Self {
        PyFrames { inner: Frames::new(frame_bytes_max, message_bytes_max, serving) }
    }

    fn open(&mut self, stream_id: u32) {
        self.inner.open(stream_id);
    }

    fn close(&mut self, stream_id: u32) {
        self.inner.close(stream_id);
    }

    fn feed<'py>(&mut self, py: Python<'py>, data: PyBackedBytes) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let inner = &mut self.inner;
        let fed = if data.len() < DETACHED_BYTES_MIN { inner.feed(&data) } else { py.detach(|| inner.feed(&data)) };
        let pieces = fed.map_err(|fault| PyValueError::new_err(fault.to_string()))?;
        pieces.into_iter().map(|piece| python_piece(py, piece)).collect()
    }
}

fn python_piece(py: Python<'_>, piece: Piece) -> PyResult<Bound<'_, PyAny>> {
    Ok(match piece {
        Piece::Rest(bytes) => PyBytes::new(py, &bytes).into_any(),
        Piece::GoAway(payload) => (PyBytes::new(py, &payload),).into_pyobject(py)?.into_any(),
        Piece::Block(Block { stream_id, ends, bytes }) => {
            (stream_id, ends, PyBytes::new(py, &bytes)).into_pyobject(py)?.into_any()
        }
        Piece::News(News { stream_id, flow_bytes, messages, midway, refusal, ends }) => {
            let messages: Vec<_> = messages.iter().map(|message| PyBytes::new(py, message)).collect();
            let refusal = refusal.map(|why| (why.to_string(), matches!(why, Refusal::TooLarge { .. })));
            (stream_id, flow_bytes, messages, midway, refusal, ends).into_pyobject(py)?.into_any()
        }
    })
}

/// Counts up with every change of what Python sees here. `trikubelet.core.compiled` expects the same number.
const INTERFACE: u32 = 6;

/// The compiled half of `trikubelet.core.relist`, `core.parts`, `core.statuses` and `core.frames`.
#[pymodule]
fn _relist(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyRelist>()?;
    m.add_class::<PyStatusDigester>()?;
    m.add_class::<PyFrames>()?;
    m.add_class::<PyJoiner>()?;
    m.add_function(wrap_pyfunction!(pods_of, m)?)?;
    m.add("INTERFACE", INTERFACE)?;
    m.add("RelistDecodeError", m.py().get_type::<RelistDecodeError>())?;
    Ok(())
}
