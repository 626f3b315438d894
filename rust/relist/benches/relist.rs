//! The cost of a relist, by the number of containers: `cargo bench`. The cost per container should not depend on it.
//!
//! `unchanged` is the case that counts, once a second for ever; `walk_only` is the part of it that only reads the bytes
//! (of the containers), and `read_only` the least that any program pays who looks at each byte once. `one_percent`,
//! `all_changed` and `first` follow. The lists are those of a busy node, 36 MB at 20,000 containers, in another order than the one before.

#[path = "../tests/common/mod.rs"]
mod common;

use _relist::decode::walk;
use _relist::diff::{Lists, Relist};
use _relist::record::Kind;
use common::{Chance, Node};
use divan::counter::ItemsCount;
use divan::Bencher;

/// Containers; there is a sandbox for every two.
const SIZES: [usize; 5] = [220, 1_000, 5_000, 20_000, 100_000];

fn main() {
    divan::main();
}

fn observe(relist: &mut Relist, reply: &(Vec<u8>, Vec<u8>)) -> usize {
    let lists = Lists { sandboxes: &[&reply.0], containers: &[&reply.1] };
    relist.take(lists).expect("the reply is well-formed");
    relist.due().into_iter().map(|uid| relist.change(uid)).collect::<Vec<_>>().len()
}

fn settled(reply: &(Vec<u8>, Vec<u8>)) -> Relist {
    let mut relist = Relist::default();
    observe(&mut relist, reply);
    let uids: Vec<String> = relist.pods().into_iter().map(|(uid, _)| uid.str().to_owned()).collect();
    uids.iter().for_each(|uid| relist.advance(uid));
    relist
}

#[divan::bench(args = SIZES)]
fn read_only(bencher: Bencher<'_, '_>, containers: usize) {
    let (one, two) = Node::of(containers, true).lists(&mut Chance(7));
    bencher
        .counter(ItemsCount::new(containers))
        .bench_local(|| [&one, &two].map(|bytes| divan::black_box(bytes).iter().fold(0u8, |sum, byte| sum ^ byte)));
}

#[divan::bench(args = SIZES)]
fn walk_only(bencher: Bencher<'_, '_>, containers: usize) {
    let (_, reply) = Node::of(containers, true).lists(&mut Chance(7));
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
    let node = Node::of(containers, true);
    let mut relist = settled(&node.lists(&mut Chance(7)));
    let reply = node.lists(&mut Chance(8));
    bencher.counter(ItemsCount::new(containers)).bench_local(|| observe(&mut relist, &reply));
}

/// Each time the same containers die, or come back: one in a hundred, or all.
fn churn(bencher: Bencher<'_, '_>, containers: usize, one_in: usize) {
    let mut node = Node::of(containers, true);
    let alive = node.lists(&mut Chance(7));
    let mut relist = settled(&alive);
    node.containers.iter_mut().step_by(one_in).for_each(|container| container.state = 2);
    let replies = [node.lists(&mut Chance(8)), alive];
    let mut turn = 0;
    bencher.counter(ItemsCount::new(containers)).bench_local(|| {
        turn += 1;
        observe(&mut relist, &replies[(turn - 1) % 2])
    });
}

#[divan::bench(args = SIZES)]
fn one_percent(bencher: Bencher<'_, '_>, containers: usize) {
    churn(bencher, containers, 100);
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn all_changed(bencher: Bencher<'_, '_>, containers: usize) {
    churn(bencher, containers, 1);
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn first(bencher: Bencher<'_, '_>, containers: usize) {
    let reply = Node::of(containers, true).lists(&mut Chance(7));
    bencher.counter(ItemsCount::new(containers)).bench_local(|| observe(&mut Relist::default(), &reply));
}
