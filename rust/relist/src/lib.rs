//! The relist path of trikubelet: undecoded CRI list replies in, changed pods out.
//!
//! Once a second a node agent asks its container runtime for every sandbox and container. Almost always nothing has
//! changed, so the cost that counts is the cost of finding that out. [`decode`] walks the protobuf bytes without
//! copying them, [`marks`] tells which items are as they were, [`record`] says what is kept of them, [`pods`] finds it
//! again, [`diff`] compares and owns it. Nothing is built, and not even looked up, for a pod that did not change. When
//! one did, [`statuses`] tells whether its status replies say anything new.
//! [`parts`] makes one list of those that had to be asked for piece by piece.
//! [`frames`] stands at the beginning of it all and takes the replies out of the bytes of an HTTP/2 connection.
//! `python` is the only file that names `pyo3`.
//!
//! The rules (which states there are, which change is which event) are those of upstream's generic PLEG; a plain
//! Python twin, `trikubelet.core.relist_twin`, must agree with this crate on every input.

pub mod decode;
pub mod diff;
pub mod error;
pub mod frames;
pub mod marks;
pub mod parts;
pub mod pods;
mod python;
pub mod record;
pub mod statuses;
mod wire;
