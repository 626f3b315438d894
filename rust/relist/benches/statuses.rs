//! The cost of finding that a status reply has nothing new: `cargo bench --bench statuses`. An inspection of a pod of
//! two containers makes three digests; the adapter's decoding, which they spare, is some ten times as much.

#[path = "../tests/common/mod.rs"]
mod common;

use _relist::record::Kind;
use _relist::statuses::Digester;
use common::status::{container_reply, sandbox_reply};
use common::{entry, message, Chance};
use divan::counter::BytesCount;
use divan::Bencher;

fn main() {
    divan::main();
}

fn digest(bencher: Bencher<'_, '_>, kind: Kind, reply: &[u8]) {
    let digester = Digester::new([7; 16]);
    bencher.counter(BytesCount::of_slice(reply)).bench_local(|| digester.digest(kind, reply).expect("well-formed"));
}

#[divan::bench]
fn sandbox(bencher: Bencher<'_, '_>) {
    digest(bencher, Kind::Sandbox, &sandbox_reply(1, &mut Chance(7)));
}

#[divan::bench]
fn container(bencher: Bencher<'_, '_>) {
    digest(bencher, Kind::Container, &container_reply(1, &mut Chance(7)));
}

/// The cost per byte is not the same for all: beyond the caches, at 100,000 entries, it is some four times that of 100.
#[divan::bench(args = [100, 1_000, 10_000, 100_000])]
fn annotations(bencher: Bencher<'_, '_>, entries: u64) {
    let (mut reply, mut chance) = (Vec::new(), Chance(7));
    message(1, &mut reply, |out| {
        (0..entries).for_each(|_| entry(13, &format!("{:016x}", chance.next()), "value", out))
    });
    digest(bencher, Kind::Container, &reply);
}
