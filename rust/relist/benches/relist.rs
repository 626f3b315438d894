//! What a relist costs, by the number of containers: `cargo bench`. The cost per container should not depend on it.
//!
//! `unchanged` is the case that counts, once a second for ever; `walk` is the part of it that only reads the bytes;
//! `one_changed` and `first` follow. Containers are listed in random order, with 1.4 KB of annotations nobody reads, as
//! on nodes where 20,000 of them make a reply of 36 MB.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::HashSet;

use _relist::decode::walk;
use _relist::diff::{Lists, Relist};
use _relist::record::Kind;
use common::{Chance, Node};
use divan::counter::ItemsCount;
use divan::Bencher;

const SIZES: [usize; 4] = [1_000, 5_000, 20_000, 100_000];
const BALLAST: usize = 1_400;

fn main() {
    divan::main();
}

fn observe(relist: &mut Relist, reply: &(Vec<u8>, Vec<u8>)) -> usize {
    let lists = Lists { sandboxes: &[&reply.0], containers: &[&reply.1] };
    relist.observe(lists, &HashSet::new()).expect("the reply is well-formed").len()
}

fn settled(reply: &(Vec<u8>, Vec<u8>)) -> Relist {
    let mut relist = Relist::default();
    observe(&mut relist, reply);
    let uids: Vec<String> = relist.pods().into_iter().map(|(uid, _)| uid.to_owned()).collect();
    uids.iter().for_each(|uid| relist.advance(uid));
    relist
}

#[divan::bench(args = SIZES)]
fn walk_only(bencher: Bencher<'_, '_>, containers: usize) {
    let (_, reply) = Node::of(containers, BALLAST).lists(&mut Chance(7));
    bencher.counter(ItemsCount::new(containers)).bench_local(|| {
        let mut states = 0usize;
        walk(Kind::Container, &[&reply], |view| {
            states += usize::from(view.facts.state);
            Ok(())
        })
        .expect("the reply is well-formed");
        states
    });
}

#[divan::bench(args = SIZES)]
fn unchanged(bencher: Bencher<'_, '_>, containers: usize) {
    let node = Node::of(containers, BALLAST);
    let mut relist = settled(&node.lists(&mut Chance(7)));
    let reply = node.lists(&mut Chance(8));
    bencher.counter(ItemsCount::new(containers)).bench_local(|| observe(&mut relist, &reply));
}

#[divan::bench(args = SIZES)]
fn one_changed(bencher: Bencher<'_, '_>, containers: usize) {
    let mut node = Node::of(containers, BALLAST);
    let mut relist = settled(&node.lists(&mut Chance(7)));
    node.containers[3].state = 2;
    let reply = node.lists(&mut Chance(8));
    bencher.counter(ItemsCount::new(containers)).bench_local(|| observe(&mut relist, &reply));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn first(bencher: Bencher<'_, '_>, containers: usize) {
    let reply = Node::of(containers, BALLAST).lists(&mut Chance(7));
    bencher.counter(ItemsCount::new(containers)).bench_local(|| observe(&mut Relist::default(), &reply));
}
