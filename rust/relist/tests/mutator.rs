//! Bytes that were a list before something happened to them: hours of them, when asked.
//!
//! `cargo test` does a few thousand rounds, the same ones each time. For the long run, which starts somewhere else each
//! time and says where, give it seconds of processor time:
//!
//! ```sh
//! RELIST_FUZZ_SECONDS=3600 cargo test --release --locked -p relist --test mutator -- --nocapture
//! ```
//!
//! A finding is a panic, whose last words are the seed of the round: `RELIST_FUZZ_SEED=…` runs it first.

mod common;

use std::time::{SystemTime, UNIX_EPOCH};

use _relist::diff::{Lists, Relist};
use _relist::record::Kind;
use common::{Chance, Node};

const ROUNDS: u64 = 3_000;

/// Memory kept for one byte of a list, at most; the least of a pod is a sandbox of nine bytes.
const KEPT_BYTES_MAX: usize = 64;

#[test]
fn whatever_happened_to_the_bytes_they_are_read_or_refused_and_nothing_else() {
    let told = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("it is a number"));
    let seconds = told("RELIST_FUZZ_SECONDS");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_nanos() as u64;
    let first = told("RELIST_FUZZ_SEED").unwrap_or_else(|| seconds.map_or(1, |_| now()));
    let (mut refused, mut bytes, mut rounds) = (0u64, 0u64, 0u64);
    while seconds.map_or(rounds < ROUNDS, |seconds| rounds % 1_000 != 0 || processor_seconds() < seconds) {
        let seed = first.wrapping_add(rounds);
        let end = std::panic::catch_unwind(|| round(seed)).unwrap_or_else(|_| panic!("RELIST_FUZZ_SEED={seed}"));
        refused += u64::from(end.refused);
        bytes += end.bytes;
        rounds += 1;
        if rounds % 1_000_000 == 0 {
            println!("{rounds} rounds, {} seconds", processor_seconds());
        }
    }
    assert!(0 < refused && refused < 4 * rounds, "the wounds are too deep or too shallow to prove anything");
    println!("{rounds} rounds from seed {first}, {bytes} bytes, {refused} of {} lists refused, no finding", 4 * rounds);
}

struct End {
    refused: u32,
    bytes: u64,
}

/// A relist that knows something meets four damaged lists, one after the other.
fn round(seed: u64) -> End {
    // Neighbouring seeds are spread over all numbers; 0 is the one that the generator cannot leave.
    let chance = &mut Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut relist = Relist::default();
    let pristine = node(chance).lists(chance);
    observe(&mut relist, &pristine).expect("well-formed");
    let mut end = End { refused: 0, bytes: 0 };
    for _ in 0..4 {
        let mut lists = if chance.next() % 2 == 0 { pristine.clone() } else { node(chance).lists(chance) };
        for _ in 0..=chance.next() % 2 {
            let list = if chance.next() % 3 == 0 { &mut lists.0 } else { &mut lists.1 };
            damage(list, chance);
        }
        end.bytes += (lists.0.len() + lists.1.len()) as u64;
        end.refused += u32::from(!hold(&mut relist, &lists));
    }
    end
}

fn node(chance: &mut Chance) -> Node {
    let mut node = Node::of((chance.next() % 8) as usize, chance.next() % 4 == 0);
    for container in &mut node.containers {
        container.state = chance.next() % 5;
        container.attempt = chance.next() as u32;
        if chance.next() % 4 == 0 {
            container.uid.clear(); // its pod is told by its sandbox
        }
    }
    node
}

/// Observe damaged lists and see that what must hold does. Whether they were accepted.
fn hold(relist: &mut Relist, lists: &(Vec<u8>, Vec<u8>)) -> bool {
    let before = show(relist);
    match observe(relist, lists) {
        Err(error) => {
            let list = if error.list == Kind::Sandbox { &lists.0 } else { &lists.1 };
            assert!(error.offset <= list.len(), "{error}");
            assert_eq!(before, show(relist), "a refused list changed something");
            false
        }
        Ok(()) => {
            let mut fresh = Relist::default();
            observe(&mut fresh, lists).expect("what was accepted once is accepted again");
            assert_eq!(show(&fresh), show(relist), "what is kept depends on what was known");
            assert!(fresh.heap_bytes() <= KEPT_BYTES_MAX * (lists.0.len() + lists.1.len()) + 1_000);
            true
        }
    }
}

/// Every pod is inspected at once, so that what is kept is one observation and no record beside it.
fn observe(relist: &mut Relist, lists: &(Vec<u8>, Vec<u8>)) -> Result<(), _relist::error::DecodeError> {
    let lists = Lists { sandboxes: &[&lists.0], containers: &[&lists.1] };
    relist.take(lists)?;
    let uids: Vec<String> = relist.due().into_iter().map(|uid| uid.str().to_owned()).collect();
    uids.iter().for_each(|uid| relist.advance(uid));
    Ok(())
}

/// All that is kept but the names of pods, of which the first stays.
fn show(relist: &Relist) -> String {
    let of = |pod: &_relist::record::Pod, kind| format!("{:?}", pod.list(kind).collect::<Vec<_>>());
    let pods = relist.pods().into_iter().map(|(uid, pod)| (uid, of(pod, Kind::Sandbox), of(pod, Kind::Container)));
    format!("{:?} {:?}", pods.collect::<Vec<_>>(), relist.counts())
}

/// Damage bytes as transmission, bad memory or a bad runtime do.
fn damage(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let place = |chance: &mut Chance, end: usize| (chance.next() % (end as u64 + 1)) as usize;
    let at = place(chance, bytes.len());
    let piece = at..at + place(chance, (bytes.len() - at).min(64));
    let odd = [0x00, 0x01, 0x07, 0x0a, 0x12, 0x42, 0x7f, 0x80, 0xc3, 0xff];
    let odd = odd[place(chance, odd.len() - 1)];
    match chance.next() % 9 {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, chance.next() as u8),
        2 => bytes.insert(at, odd),
        3 => drop(bytes.drain(piece)),
        4 => {
            let copy = bytes[piece].to_vec();
            let to = place(chance, bytes.len());
            bytes.splice(to..to, copy);
        }
        5 => bytes[piece].fill(odd),
        _ if at == bytes.len() => bytes.push(odd),
        6 => bytes[at] = odd,
        7 => bytes[at] ^= 1 << (chance.next() % 8),
        _ => bytes[at] = bytes[at].wrapping_add(1).wrapping_sub(2 * (chance.next() % 2) as u8),
    }
}

/// How long this thread has had a processor.
fn processor_seconds() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanoseconds = told.split(' ').next().and_then(|word| word.parse::<u64>().ok()).expect("it comes first");
    nanoseconds / 1_000_000_000
}
