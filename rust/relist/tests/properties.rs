//! Properties that hold for any bytes at all: no panic, no half-applied list, no answer that depends on the order of a
//! list.

mod common;

use std::collections::HashSet;

use _relist::diff::{Change, Lists, Relist};
use common::{container, mutate, sandbox, Chance, Container, Node, Sandbox};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{contextualize_config, TestRunner};

fn nodes() -> impl Strategy<Value = Node> {
    let one = (0..4u64, 0..3u64, 0..2u64, -2..6i64).prop_map(|(id, uid, state, created_at)| Sandbox {
        id: format!("s{id}"),
        uid: format!("u{uid}"),
        state,
        created_at,
        laden: false,
    });
    let two =
        (0..6u64, 0..3u64, 0..4u64, 0..5u64, -2..6i64).prop_map(|(id, uid, sandbox, state, created_at)| Container {
            id: format!("c{id}"),
            uid: format!("u{uid}"),
            sandbox_id: format!("s{sandbox}"),
            name: "web".into(),
            state,
            created_at,
            ..Container::default()
        });
    (vec(one, 0..4), vec(two, 0..6)).prop_map(|(mut sandboxes, mut containers)| {
        let mut seen = HashSet::new();
        sandboxes.retain(|item| seen.insert(item.id.clone()));
        containers.retain(|item| seen.insert(item.id.clone()));
        Node { sandboxes, containers }
    })
}

/// Everything that can be asked, in words.
fn show(relist: &Relist) -> String {
    format!(
        "{:?} {:?}",
        relist.pods().iter().map(|(uid, pod)| describe(uid.str(), pod)).collect::<Vec<_>>(),
        relist.counts()
    )
}

fn describe(uid: &str, pod: &_relist::record::Pod) -> String {
    let list = |kind| pod.newest_first(kind).into_iter().map(|facts| format!("{facts:?}")).collect::<Vec<_>>();
    let (one, two) = (list(_relist::record::Kind::Sandbox), list(_relist::record::Kind::Container));
    format!("{uid} {:?} {one:?} {two:?}", pod.called())
}

fn observe(relist: &mut Relist, one: &[u8], two: &[u8]) -> Result<String, String> {
    relist.take(Lists { sandboxes: &[one], containers: &[two] }).map_err(|error| error.to_string())?;
    Ok(format!("{:?}", changes(relist)))
}

fn changes(relist: &Relist) -> Vec<Change<'_>> {
    relist.due().into_iter().map(|uid| relist.change(uid)).collect()
}

#[test]
fn examples_are_the_same_every_time_unless_more_are_asked_for() {
    let runner = || TestRunner::new(contextualize_config(common::examples(1)));
    let drawn = || vec(any::<u64>(), 8).new_tree(&mut runner()).expect("it is drawn").current();
    let fresh = std::env::var_os("PROPTEST_CASES").is_some() && std::env::var_os("PROPTEST_RNG_SEED").is_none();

    assert_eq!(fresh, drawn() != drawn());
}

proptest! {
    #![proptest_config(common::examples(2_000))]

    #[test]
    fn any_bytes_are_read_or_refused(one in vec(any::<u8>(), 0..64), two in vec(any::<u8>(), 0..64)) {
        let _ = observe(&mut Relist::default(), &one, &two);
    }

    #[test]
    fn a_refused_reply_leaves_everything_as_it_was(
        before in nodes(),
        after in nodes(),
        wounds in vec((any::<u8>(), any::<usize>(), any::<u8>()), 1..4),
        seed in 1..u64::MAX,
    ) {
        let mut relist = Relist::default();
        let mut chance = Chance(seed);
        let (one, two) = before.lists(&mut chance);
        observe(&mut relist, &one, &two).expect("well-formed");
        let shown = show(&relist);
        let told = observe(&mut relist, &one, &two);

        let (mut broken_one, mut broken_two) = after.lists(&mut chance);
        mutate(&mut broken_one, &wounds);
        mutate(&mut broken_two, &wounds);
        if observe(&mut relist, &broken_one, &broken_two).is_err() {
            prop_assert_eq!(shown, show(&relist));
            prop_assert_eq!(told, observe(&mut relist, &one, &two));
        }
    }

    #[test]
    fn neither_the_order_of_a_list_nor_its_chunks_make_a_difference(
        history in vec((nodes(), any::<bool>()), 1..5),
        seed in 1..u64::MAX,
    ) {
        let (mut whole, mut pieces) = (Relist::default(), Relist::default());
        let mut chance = Chance(seed);
        for (node, advance) in history {
            let (one, two) = node.lists(&mut chance);
            let mut shuffled = node.clone();
            chance.shuffle(&mut shuffled.sandboxes);
            chance.shuffle(&mut shuffled.containers);
            let sandboxes: Vec<Vec<u8>> = shuffled.sandboxes.iter().map(|item| written(|out| sandbox(item, &mut chance, out))).collect();
            let containers: Vec<Vec<u8>> =
                shuffled.containers.iter().map(|item| written(|out| container(item, &mut chance, out))).collect();
            let (sandboxes, containers) = (slices(&sandboxes), slices(&containers));

            whole.take(Lists { sandboxes: &[&one], containers: &[&two] }).expect("well-formed");
            pieces.take(Lists { sandboxes: &sandboxes, containers: &containers }).expect("well-formed");
            prop_assert_eq!(changes(&whole), changes(&pieces));
            let uids: Vec<String> = whole.due().into_iter().map(|uid| uid.str().to_owned()).collect();
            if advance {
                uids.iter().for_each(|uid| { whole.advance(uid); pieces.advance(uid); });
            }
            prop_assert_eq!(show(&whole), show(&pieces));
        }
    }

    #[test]
    fn a_list_of_every_pod_alone_says_what_the_full_list_says(history in vec(nodes(), 1..4), seed in 1..u64::MAX) {
        let (mut full, mut single) = (Relist::default(), Relist::default());
        let mut chance = Chance(seed);
        for node in history {
            let (one, two) = node.lists(&mut chance);
            let lists = Lists { sandboxes: &[&one], containers: &[&two] };
            full.take(lists).expect("well-formed");
            let all = format!("{:?}", changes(&full));
            let mut each = Vec::new();
            for uid in ["u0", "u1", "u2"] {
                each.extend(single.observe_pod(uid, lists, false).expect("well-formed").map(|change| format!("{change:?}")));
            }
            prop_assert_eq!(all, format!("[{}]", each.join(", ")));
            prop_assert_eq!(show(&full), show(&single));
        }
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn slices(chunks: &[Vec<u8>]) -> Vec<&[u8]> {
    chunks.iter().map(Vec::as_slice).collect()
}
