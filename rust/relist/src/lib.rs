//! The relist path of trikubelet: undecoded CRI list replies in, changed pods out.
//!
//! Once a second a node agent asks its container runtime for every sandbox and container. Almost always nothing has
//! changed, so the cost that counts is the cost of finding that out. [`decode`] walks the protobuf bytes without
//! copying them, [`record`] says what is kept of them, [`diff`] compares with what was known and owns it. Nothing is
//! built for a pod that did not change. `python` is the only file that names `pyo3`.
//!
//! The rules (which states there are, which change is which event) are those of upstream's generic PLEG; a plain
//! Python twin, `trikubelet.core.relist_twin`, must agree with this crate on every input.

pub mod decode;
pub mod diff;
pub mod error;
mod python;
pub mod record;
