//! Whether a status reply says what it said before: 128 bits that stand for what the agent reads of it.
//!
//! Most inspections find nothing new, yet the bytes differ each time: runtimes write maps in random order and add times
//! and details that have no readers. So a reply is read as the adapter would (`trikubelet.cri.from_wire` names the
//! fields; a container's user, which never becomes another, is left out), put into one canonical form and hashed. Two
//! replies have the same digest when the same record would be made of them, and with certainty beyond any runtime's
//! lifetime only then: a field is hashed with its length, and the hash is SipHash-2-4 of 128 bits under a secret key,
//! so that not even someone who writes annotations or exit messages to that end can make two replies look alike.
//!
//! Nothing is copied and nothing recurses; of maps the few entries that are read are noted, of lists all, up to a bound.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use crate::decode::UID_LABEL;
use crate::error::{Fault, Malformed, StatusError};
use crate::record::Kind;
use crate::wire::Walker;

/// Stands for what a reply says.
pub type Digest = [u8; 16];

/// The length of one list. Sandboxes have two addresses at most.
pub const ENTRIES_MAX: usize = 1 << 17;

/// `SANDBOX_READY` and `NODE`, the two numbers of their enumerations that mean something to the agent.
const READY: i32 = 0;
const NODE: i32 = 2;

/// A state that is not created, running or exited is unknown, whatever its number.
const CONTAINER_STATES: std::ops::Range<i32> = 0..3;
const UNKNOWN: i32 = 3;

/// Makes digests that can be compared with one another: those of one key.
pub struct Digester {
    key: [u8; 16],
}

impl Digester {
    /// The key should be secret and random.
    pub fn new(key: [u8; 16]) -> Self {
        Digester { key }
    }

    /// Return the digest of a `PodSandboxStatusResponse` or a `ContainerStatusResponse`.
    pub fn digest(&self, kind: Kind, reply: &[u8]) -> Result<Digest, StatusError> {
        let mut ink = Ink(SipHasher24::new_with_key(&self.key));
        ink.number(kind as i64);
        let drawn = match kind {
            Kind::Sandbox => {
                let mut status = Sandbox::default();
                read(reply, |walker| status.read(walker)).map(|()| status.draw(&mut ink))
            }
            Kind::Container => {
                let mut status = Container::default();
                read(reply, |walker| status.read(walker)).map(|()| status.draw(&mut ink))
            }
        };
        drawn.map(|()| ink.0.finish128().as_bytes()).map_err(|fault| StatusError { of: kind, fault })
    }
}

/// The canonical form, as it goes into the hash. The part written first tells how much follows, so that no two
/// different forms give the same bytes.
struct Ink(SipHasher24);

impl Ink {
    fn number(&mut self, value: i64) {
        self.0.write(&value.to_le_bytes());
    }

    fn text(&mut self, value: &str) {
        self.number(value.len() as i64);
        self.0.write(value.as_bytes());
    }

    fn texts<'a>(&mut self, values: impl Iterator<Item = &'a str>) {
        for value in values {
            self.number(1);
            self.text(value);
        }
        self.number(0);
    }
}

/// The annotations of a container that are read.
const HASH: &str = "io.kubernetes.container.hash";
const TERMINATION_PATH: &str = "io.kubernetes.container.terminationMessagePath";

/// `PodSandboxStatus`, as far as it is read.
#[derive(Default)]
struct Sandbox<'a> {
    id: &'a str,
    name: &'a str,
    uid: &'a str,
    namespace: &'a str,
    attempt: u32,
    state: i32,
    created_at: i64,
    ip: &'a str,
    more_ips: Vec<&'a str>,
    network: i32,
    runtime_handler: &'a str,
    label_uid: &'a str,
}

/// `linux.namespaces.options.network`, below `linux`.
const NETWORK_MODE: [u32; 3] = [1, 2, 1];

impl<'a> Sandbox<'a> {
    fn read(&mut self, mut walker: Walker<'a>) -> Result<(), Fault> {
        while let Some((number, value)) = walker.next()? {
            match number {
                1 => self.id = walker.text(value)?,
                2 => self.read_metadata(walker.message(value)?)?,
                3 => self.state = walker.number(&value)? as i32,
                4 => self.created_at = walker.number(&value)? as i64,
                5 => self.read_network(walker.message(value)?)?,
                6 => number_at(walker.message(value)?, &NETWORK_MODE, &mut self.network)?,
                7 => match entry(walker.message(value)?)? {
                    Some((key, uid)) if key.as_bytes() == UID_LABEL => self.label_uid = uid,
                    _ => {}
                },
                9 => self.runtime_handler = walker.text(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_metadata(&mut self, mut walker: Walker<'a>) -> Result<(), Fault> {
        while let Some((number, value)) = walker.next()? {
            match number {
                1 => self.name = walker.text(value)?,
                2 => self.uid = walker.text(value)?,
                3 => self.namespace = walker.text(value)?,
                4 => self.attempt = walker.number(&value)? as u32,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_network(&mut self, mut walker: Walker<'a>) -> Result<(), Fault> {
        while let Some((number, value)) = walker.next()? {
            match number {
                1 => self.ip = walker.text(value)?,
                2 => {
                    let mut inside = walker.message(value)?;
                    let mut ip = "";
                    while let Some((number, value)) = inside.next()? {
                        if number == 1 {
                            ip = inside.text(value)?;
                        }
                    }
                    note(&mut self.more_ips, ip, &inside)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn draw(self, ink: &mut Ink) {
        let uid = or(self.uid, self.label_uid);
        [self.id, uid, self.name, self.namespace, self.runtime_handler].into_iter().for_each(|text| ink.text(text));
        ink.number(self.attempt.into());
        ink.number((self.state == READY).into());
        ink.number(self.created_at);
        ink.number((self.network == NODE).into());
        ink.texts(std::iter::once(self.ip).chain(self.more_ips).filter(|ip| !ip.is_empty()));
    }
}

/// `ContainerStatus`, as far as it is read.
#[derive(Default)]
struct Container<'a> {
    id: &'a str,
    name: &'a str,
    attempt: u32,
    state: i32,
    /// Created, started, finished.
    times: [i64; 3],
    exit_code: i32,
    image: &'a str,
    user_specified_image: &'a str,
    image_ref: &'a str,
    image_id: &'a str,
    reason: &'a str,
    message: &'a str,
    log_path: &'a str,
    hash: &'a str,
    termination_path: &'a str,
    /// Period, quota and shares of processor time, bytes of memory.
    resources: [i64; 4],
}

/// `resources.linux`, below `resources`.
const LINUX: u32 = 1;

impl<'a> Container<'a> {
    fn read(&mut self, mut walker: Walker<'a>) -> Result<(), Fault> {
        while let Some((number, value)) = walker.next()? {
            match number {
                1 => self.id = walker.text(value)?,
                2 => self.read_metadata(walker.message(value)?)?,
                3 => self.state = walker.number(&value)? as i32,
                4..=6 => self.times[number as usize - 4] = walker.number(&value)? as i64,
                7 => self.exit_code = walker.number(&value)? as i32,
                8 => self.read_image(walker.message(value)?)?,
                9 => self.image_ref = walker.text(value)?,
                10 => self.reason = walker.text(value)?,
                11 => self.message = walker.text(value)?,
                13 => match entry(walker.message(value)?)? {
                    Some((HASH, hash)) => self.hash = hash,
                    Some((TERMINATION_PATH, path)) => self.termination_path = path,
                    _ => {}
                },
                15 => self.log_path = walker.text(value)?,
                16 => self.read_resources(walker.message(value)?)?,
                17 => self.image_id = walker.text(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_metadata(&mut self, mut walker: Walker<'a>) -> Result<(), Fault> {
        while let Some((number, value)) = walker.next()? {
            match number {
                1 => self.name = walker.text(value)?,
                2 => self.attempt = walker.number(&value)? as u32,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_image(&mut self, mut walker: Walker<'a>) -> Result<(), Fault> {
        while let Some((number, value)) = walker.next()? {
            match number {
                1 => self.image = walker.text(value)?,
                18 => self.user_specified_image = walker.text(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_resources(&mut self, mut walker: Walker<'a>) -> Result<(), Fault> {
        while let Some((number, value)) = walker.next()? {
            if number != LINUX {
                continue;
            }
            let mut inside = walker.message(value)?;
            while let Some((number, value)) = inside.next()? {
                if let 1..=4 = number {
                    self.resources[number as usize - 1] = inside.number(&value)? as i64;
                }
            }
        }
        Ok(())
    }

    fn draw(self, ink: &mut Ink) {
        let (image, image_id) = (or(self.user_specified_image, self.image), or(self.image_id, self.image_ref));
        let told = [self.reason, self.message, self.log_path, self.hash, self.termination_path];
        [self.id, self.name, image, self.image_ref, image_id].into_iter().chain(told).for_each(|text| ink.text(text));
        ink.number(self.attempt.into());
        ink.number(if CONTAINER_STATES.contains(&self.state) { self.state } else { UNKNOWN }.into());
        self.times.into_iter().for_each(|time| ink.number(time));
        ink.number(self.exit_code.into());
        self.resources.into_iter().for_each(|amount| ink.number(amount));
    }
}

fn or<'a>(first: &'a str, second: &'a str) -> &'a str {
    if first.is_empty() {
        second
    } else {
        first
    }
}

/// Hand the status of a reply, which is its field 1, to `status`; each time it stands there, as protobuf merges them.
fn read<'a>(reply: &'a [u8], mut status: impl FnMut(Walker<'a>) -> Result<(), Fault>) -> Result<(), Fault> {
    let mut walker = Walker::new(reply, 0);
    while let Some((number, value)) = walker.next()? {
        if number == 1 {
            status(walker.message(value)?)?;
        }
    }
    Ok(())
}

/// One entry of a map. With anything but a key and a value it is none to the protobuf library of the adapter.
fn entry<'a>(mut walker: Walker<'a>) -> Result<Option<(&'a str, &'a str)>, Fault> {
    let (mut entry, mut is_known) = (("", ""), true);
    while let Some((number, value)) = walker.next()? {
        match number {
            1 => entry.0 = walker.text(value)?,
            2 => entry.1 = walker.text(value)?,
            _ => is_known = false,
        }
    }
    Ok(is_known.then_some(entry))
}

fn note<'a, T>(list: &mut Vec<T>, item: T, walker: &Walker<'a>) -> Result<(), Fault> {
    if list.len() == ENTRIES_MAX {
        return walker.fail(Malformed::Entries);
    }
    list.push(item);
    Ok(())
}

/// The number at the end of a path of messages.
fn number_at(mut walker: Walker<'_>, path: &[u32], found: &mut i32) -> Result<(), Fault> {
    while let Some((number, value)) = walker.next()? {
        match path {
            [last] if number == *last => *found = walker.number(&value)? as i32,
            [first, rest @ ..] if number == *first => number_at(walker.message(value)?, rest, found)?,
            _ => {}
        }
    }
    Ok(())
}
