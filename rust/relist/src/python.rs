//! The Python face of the crate: plain tuples in and out, the GIL released while bytes are walked.

use std::collections::HashSet;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::diff::{Change, Relist};
use crate::error::DecodeError;
use crate::record::Pod;

pyo3::create_exception!(_relist, RelistDecodeError, PyValueError, "A list reply that cannot be read.");

type Event = (u8, String, bool);
type ChangeTuple = (String, String, String, Vec<Event>, Vec<String>, Vec<String>);
type Sandbox = (String, u32, u8);
type Container = (String, String, u32, u8, String);
type Record = (String, String, String, Vec<Sandbox>, Vec<Container>);

/// The last observation of every pod; see `trikubelet.core.relist.Relist`.
#[pyclass(name = "Relist", module = "trikubelet._relist")]
#[derive(Default)]
struct PyRelist {
    inner: Relist,
}

fn raise(error: DecodeError) -> PyErr {
    RelistDecodeError::new_err((error.to_string(), error.offset))
}

fn slices(chunks: &[PyBackedBytes]) -> Vec<&[u8]> {
    chunks.iter().map(|chunk| &**chunk).collect()
}

fn change_tuple(change: Change) -> ChangeTuple {
    (
        change.uid.into(),
        change.name.0.into(),
        change.name.1.into(),
        change.events.into_iter().map(|e| (e.kind as u8, e.id.into(), e.is_sandbox)).collect(),
        change.sandboxes.into_iter().map(Into::into).collect(),
        change.containers.into_iter().map(Into::into).collect(),
    )
}

fn record_tuple(uid: &str, pod: &Pod) -> Record {
    let sandboxes = pod.sandboxes.iter().map(|s| (s.id.to_string(), s.attempt, s.state)).collect();
    let containers = pod
        .containers
        .iter()
        .map(|c| (c.id.to_string(), c.name.to_string(), c.attempt, c.state, c.sandbox_id.to_string()))
        .collect();
    (uid.to_owned(), pod.name.to_string(), pod.namespace.to_string(), sandboxes, containers)
}

#[pymethods]
impl PyRelist {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn observe(
        &mut self,
        py: Python<'_>,
        sandboxes: Vec<PyBackedBytes>,
        containers: Vec<PyBackedBytes>,
        reinspect: HashSet<String>,
    ) -> PyResult<Vec<ChangeTuple>> {
        let inner = &mut self.inner;
        let changes =
            py.detach(|| inner.observe(&slices(&sandboxes), &slices(&containers), &reinspect)).map_err(raise)?;
        Ok(changes.into_iter().map(change_tuple).collect())
    }

    fn observe_pod(
        &mut self,
        py: Python<'_>,
        uid: &str,
        sandboxes: Vec<PyBackedBytes>,
        containers: Vec<PyBackedBytes>,
        force: bool,
    ) -> PyResult<Option<ChangeTuple>> {
        let inner = &mut self.inner;
        let change =
            py.detach(|| inner.observe_pod(uid, &slices(&sandboxes), &slices(&containers), force)).map_err(raise)?;
        Ok(change.map(change_tuple))
    }

    fn advance(&mut self, uid: &str) {
        self.inner.advance(uid);
    }

    fn pods(&self) -> Vec<Record> {
        self.inner.pods().into_iter().map(|(uid, pod)| record_tuple(uid, pod)).collect()
    }

    fn pod(&self, uid: &str) -> Option<Record> {
        self.inner.pod(uid).map(|pod| record_tuple(uid, pod))
    }

    fn counts(&self) -> (usize, [usize; 4]) {
        let counts = self.inner.counts();
        (counts.running_pods, counts.containers)
    }
}

/// The compiled half of `trikubelet.core.relist`.
#[pymodule]
fn _relist(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyRelist>()?;
    m.add("RelistDecodeError", m.py().get_type::<RelistDecodeError>())?;
    Ok(())
}
