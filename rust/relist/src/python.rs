//! The Python face of the crate: plain tuples in and out, the GIL released while bytes are walked.

use std::collections::HashSet;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::diff::{Change, Lists, Relist};
use crate::error::DecodeError;
use crate::record::{Kind, Pod};

pyo3::create_exception!(_relist, RelistDecodeError, PyValueError, "A list reply that cannot be read.");

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

fn raise(py: Python<'_>, error: DecodeError) -> PyErr {
    let raised = RelistDecodeError::new_err(error.to_string());
    match raised.value(py).setattr("offset", error.offset) {
        Ok(()) => raised,
        Err(failed) => failed,
    }
}

fn slices(chunks: &[PyBackedBytes]) -> Vec<&[u8]> {
    chunks.iter().map(|chunk| &**chunk).collect()
}

fn change_tuple(change: Change<'_>) -> ChangeTuple<'_> {
    let events = change.events.into_iter().map(|event| (event.kind as u8, event.id, event.of == Kind::Sandbox));
    (change.uid, change.pod.name, change.pod.namespace, events.collect(), change.sandboxes, change.containers)
}

fn record_tuple<'a>(uid: &'a str, pod: &'a Pod) -> Record<'a> {
    let sandboxes = pod.newest_first(Kind::Sandbox).into_iter().map(|s| (s.id, s.attempt, s.state));
    let containers = pod.newest_first(Kind::Container).into_iter();
    let containers = containers.map(|c| (c.id, c.name, c.attempt, c.state, c.sandbox_id));
    let called = pod.called();
    (uid, called.name, called.namespace, sandboxes.collect(), containers.collect())
}

#[pymethods]
impl PyRelist {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn observe<'py>(
        &mut self,
        py: Python<'py>,
        sandboxes: Vec<PyBackedBytes>,
        containers: Vec<PyBackedBytes>,
        reinspect: HashSet<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (inner, reinspect) = (&mut self.inner, &reinspect);
        let (sandboxes, containers) = (slices(&sandboxes), slices(&containers));
        let lists = Lists { sandboxes: &sandboxes, containers: &containers };
        let changes = py.detach(|| inner.observe(lists, reinspect)).map_err(|error| raise(py, error))?;
        changes.into_iter().map(change_tuple).collect::<Vec<_>>().into_pyobject(py)
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
        let change = py.detach(|| inner.observe_pod(uid, lists, force)).map_err(|error| raise(py, error))?;
        change.map(|change| Ok(change_tuple(change).into_pyobject(py)?.into_any())).transpose()
    }

    fn advance(&mut self, uid: &str) {
        self.inner.advance(uid);
    }

    fn pods(&self) -> Vec<Record<'_>> {
        self.inner.pods().into_iter().map(|(uid, pod)| record_tuple(uid, pod)).collect()
    }

    fn pod<'py>(&self, py: Python<'py>, uid: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let record = self.inner.pod(uid).map(|pod| record_tuple(uid, pod));
        record.map(|record| Ok(record.into_pyobject(py)?.into_any())).transpose()
    }

    fn counts(&self) -> (usize, [usize; 4], usize) {
        let counts = self.inner.counts();
        (counts.running_pods, counts.containers, counts.strays)
    }
}

/// The compiled half of `trikubelet.core.relist`.
#[pymodule]
fn _relist(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyRelist>()?;
    m.add("RelistDecodeError", m.py().get_type::<RelistDecodeError>())?;
    Ok(())
}
