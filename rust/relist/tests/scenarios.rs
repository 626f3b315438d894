//! Upstream's PLEG scenarios and the edges of our own, on the crate itself. The Python suite has the same tables on both
//! backends; these run without an interpreter's face, and say what is packed, kept and refused.

mod common;

use _relist::decode::ITEMS_MAX;
use _relist::diff::{Change, Counts, Lists, Relist};
use _relist::error::{Malformed, Problem};
use _relist::marks::Digest;
use _relist::record::{EventKind, Facts, Kind, Pod, PodName, Text};
use common::{bytes, container, entry, message, sandbox, text, varint, Chance, Container, Node, Sandbox};

const CREATED: u64 = 0;
const RUNNING: u64 = 1;
const EXITED: u64 = 2;
const UNKNOWN: u64 = 3;

type Told = Vec<(String, Vec<(EventKind, String)>)>;

fn tell(changes: &[Change<'_>]) -> Told {
    let events =
        |change: &Change<'_>| change.events.iter().map(|event| (event.kind, event.id.str().to_owned())).collect();
    changes.iter().map(|change| (change.uid.str().to_owned(), events(change))).collect()
}

fn node(rows: &[(&str, &str, u64)]) -> Node {
    let containers = rows.iter().map(|(uid, id, state)| Container {
        id: (*id).to_owned(),
        uid: (*uid).to_owned(),
        state: *state,
        ..Container::default()
    });
    Node { containers: containers.collect(), ..Node::default() }
}

fn sandboxes(rows: &[(&str, &str, u64)]) -> Node {
    let sandboxes = rows.iter().map(|(uid, id, state)| Sandbox {
        id: (*id).to_owned(),
        uid: (*uid).to_owned(),
        state: *state,
        ..Sandbox::default()
    });
    Node { sandboxes: sandboxes.collect(), ..Node::default() }
}

fn see(relist: &mut Relist, node: &Node) -> Told {
    let (one, two) = node.lists(&mut Chance(5));
    see_bytes(relist, &one, &two).expect("well-formed")
}

fn changes(relist: &Relist) -> Vec<Change<'_>> {
    relist.due().into_iter().map(|uid| relist.change(uid)).collect()
}

fn see_bytes(relist: &mut Relist, one: &[u8], two: &[u8]) -> Result<Told, _relist::error::DecodeError> {
    relist.take(Lists { sandboxes: &[one], containers: &[two] })?;
    Ok(tell(&changes(relist)))
}

fn advance_all(relist: &mut Relist, told: &Told) {
    told.iter().for_each(|(uid, _)| relist.advance(uid));
}

fn told(rows: &[(&str, &[(EventKind, &str)])]) -> Told {
    let events = |events: &[(EventKind, &str)]| events.iter().map(|(kind, id)| (*kind, (*id).to_owned())).collect();
    rows.iter().map(|(uid, row)| ((*uid).to_owned(), events(row))).collect()
}

#[test]
fn every_transition_of_a_container_is_the_events_upstream_has_for_it() {
    use EventKind::{Changed, Died, Removed, Started};
    let table: &[(Option<u64>, Option<u64>, &[EventKind])] = &[
        (None, Some(RUNNING), &[Started]),
        (None, Some(EXITED), &[Died]),
        (None, Some(UNKNOWN), &[Changed]),
        (None, Some(CREATED), &[Changed]),
        (Some(CREATED), Some(UNKNOWN), &[]),
        (Some(CREATED), Some(RUNNING), &[Started]),
        (Some(CREATED), Some(EXITED), &[Died]),
        (Some(CREATED), None, &[Died, Removed]),
        (Some(RUNNING), Some(RUNNING), &[]),
        (Some(RUNNING), Some(EXITED), &[Died]),
        (Some(RUNNING), Some(UNKNOWN), &[Changed]),
        (Some(RUNNING), None, &[Died, Removed]),
        (Some(EXITED), Some(RUNNING), &[Started]),
        (Some(EXITED), Some(EXITED), &[]),
        (Some(EXITED), Some(UNKNOWN), &[Changed]),
        (Some(EXITED), None, &[Removed]),
        (Some(UNKNOWN), Some(RUNNING), &[Started]),
        (Some(UNKNOWN), Some(EXITED), &[Died]),
        (Some(UNKNOWN), None, &[Died, Removed]),
    ];
    for (before, after, expected) in table {
        let at = |state: &Option<u64>| node(&state.map(|state| ("u", "c", state)).into_iter().collect::<Vec<_>>());
        let mut relist = Relist::default();
        let first = see(&mut relist, &at(before));
        advance_all(&mut relist, &first);
        let found: Vec<EventKind> =
            see(&mut relist, &at(after)).into_iter().flat_map(|(_, events)| events).map(|(kind, _)| kind).collect();
        assert_eq!(*expected, &found[..], "{before:?} to {after:?}");
    }
}

#[test]
fn a_sandbox_is_running_while_it_is_ready_and_has_died_when_it_is_not() {
    use EventKind::{Died, Removed, Started};
    let mut relist = Relist::default();
    let first = see(&mut relist, &sandboxes(&[("u", "s", 0), ("u", "t", 1)]));
    assert_eq!(told(&[("u", &[(Started, "s"), (Died, "t")])]), first);
    advance_all(&mut relist, &first);
    assert_eq!(told(&[("u", &[(Died, "s"), (Removed, "t")])]), see(&mut relist, &sandboxes(&[("u", "s", 1)])));
}

#[test]
fn a_record_advances_only_when_it_is_told_to() {
    use EventKind::{Died, Started};
    let mut relist = Relist::default();
    assert_eq!(told(&[("u", &[(Started, "c")])]), see(&mut relist, &node(&[("u", "c", RUNNING)])));
    assert_eq!(told(&[("u", &[(Died, "c")])]), see(&mut relist, &node(&[("u", "c", EXITED)])));
    assert_eq!(told(&[("u", &[(Died, "c")])]), see(&mut relist, &node(&[("u", "c", EXITED)])));
    relist.advance("u");
    assert_eq!(told(&[]), see(&mut relist, &node(&[("u", "c", EXITED)])));
}

#[test]
fn a_state_that_came_back_before_anyone_looked_is_no_news() {
    let mut relist = Relist::default();
    let first = see(&mut relist, &node(&[("u", "c", RUNNING)]));
    advance_all(&mut relist, &first);
    let settled = relist.heap_bytes();
    see(&mut relist, &node(&[("u", "c", EXITED)]));
    assert_eq!(told(&[]), see(&mut relist, &node(&[("u", "c", RUNNING)])));
    assert_eq!(settled, relist.heap_bytes());
}

#[test]
fn a_pod_that_came_and_went_unseen_leaves_nothing() {
    let mut relist = Relist::default();
    see(&mut relist, &node(&[("u", "c", RUNNING)]));
    assert_eq!(told(&[]), see(&mut relist, &Node::default()));
    assert!(relist.pod("u").is_none());
    assert_eq!(Counts::default(), relist.counts());
}

#[test]
fn a_gone_pod_is_told_by_its_name_until_somebody_has_looked() {
    let mut relist = Relist::default();
    let first = see(&mut relist, &node(&[("u", "c", RUNNING)]));
    advance_all(&mut relist, &first);
    for _ in 0..2 {
        relist.take(Lists { sandboxes: &[], containers: &[] }).expect("well-formed");
        let changes = changes(&relist);
        assert_eq!(PodName { name: "pod-u".into(), namespace: "ns".into() }, changes[0].pod);
        assert_eq!((0, 0), (changes[0].sandboxes.len(), changes[0].containers.len()));
    }
    relist.advance("u");
    assert_eq!(told(&[]), see(&mut relist, &Node::default()));
}

#[test]
fn what_belongs_to_no_pod_is_counted_and_left_alone() {
    let mut relist = Relist::default();
    let (mut one, mut two) = (Vec::new(), Vec::new());
    message(1, &mut one, |out| text(1, "somebody's sandbox", out));
    message(1, &mut two, |out| text(1, "somebody's container", out));
    assert_eq!(told(&[]), see_bytes(&mut relist, &one, &two).expect("well-formed"));
    assert_eq!(Counts { unmanaged: 2, ..Counts::default() }, relist.counts());
}

#[test]
fn a_pod_with_something_that_its_label_does_not_find_is_known_until_a_full_list_without_it() {
    let mut relist = Relist::default();
    let (mut one, mut two) = (Vec::new(), Vec::new());
    message(1, &mut one, |out| {
        text(1, "s", out);
        message(2, out, |out| text(2, "u", out));
    });
    message(1, &mut two, |out| {
        text(1, "c", out);
        text(2, "s", out);
    });
    see_bytes(&mut relist, &one, &two).expect("well-formed");
    assert!(relist.has_unlabelled("u"));
    assert!(!relist.has_unlabelled("s"));
    assert!(relist.take(Lists { sandboxes: &[b"\x0a"], containers: &[] }).is_err());
    assert!(relist.has_unlabelled("u"));
    see(&mut relist, &sandboxes(&[("u", "s", 0)]));
    assert!(!relist.has_unlabelled("u"));
}

#[test]
fn counts_are_of_pods_with_a_ready_sandbox_and_of_containers_by_state() {
    let mut relist = Relist::default();
    let mut both = node(&[("a", "c", CREATED), ("a", "d", RUNNING), ("b", "e", RUNNING), ("b", "f", 9)]);
    both.sandboxes = sandboxes(&[("a", "s", 0), ("a", "old", 1), ("b", "t", 1)]).sandboxes;
    see(&mut relist, &both);
    assert_eq!(Counts { running_pods: 1, containers: [1, 2, 0, 1], unmanaged: 0 }, relist.counts());
}

#[test]
fn lists_of_one_pod_leave_the_others_as_they_are() {
    let mut relist = Relist::default();
    let first = see(&mut relist, &node(&[("a", "c", RUNNING), ("b", "d", RUNNING)]));
    advance_all(&mut relist, &first);
    let mut reply = Vec::new();
    for (uid, id) in [("a", "c"), ("b", "d"), ("b", "d")] {
        let (uid, id) = (uid.to_owned(), id.to_owned());
        container(&Container { id, uid, state: EXITED, ..Container::default() }, &mut Chance(5), &mut reply);
    }
    let lists = Lists { sandboxes: &[], containers: &[&reply] };
    let change = relist.observe_pod("a", lists, false).expect("another pod's repetition is its own affair");
    assert_eq!(told(&[("a", &[(EventKind::Died, "c")])]), tell(change.as_slice()));
    assert!(relist.observe_pod("b", lists, false).is_err());
    relist.advance("a");
    assert!(relist.observe_pod("a", lists, false).expect("well-formed").is_none());
    assert!(relist.observe_pod("a", lists, true).expect("well-formed").is_some());
    assert!(relist.observe_pod("unheard of", lists, true).expect("well-formed").is_some());
}

/// Bytes of a container list, the offset at which they are wrong, and how.
fn broken() -> Vec<(Vec<u8>, usize, Malformed)> {
    let item = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        message(1, &mut out, |out| write(out));
        out
    };
    let number_at = |field: u64, out: &mut Vec<u8>| {
        varint(field << 3, out);
        varint(1, out);
    };
    vec![
        (vec![0x0a], 1, Malformed::Truncated),
        (vec![0x0a, 5, 0x0a], 2, Malformed::Truncated),
        (vec![0x80], 0, Malformed::Truncated),
        (vec![0x80; 11], 0, Malformed::Overlong),
        (vec![0x08, 1], 2, Malformed::WireType),
        (vec![0x0b], 1, Malformed::WireType),
        (vec![0x0e], 1, Malformed::WireType),
        (vec![0x00, 1], 1, Malformed::FieldNumber),
        (vec![0xfa, 0xff, 0xff, 0xff, 0xff, 0x7f, 1], 6, Malformed::FieldNumber),
        (vec![0x09, 1, 2], 1, Malformed::Truncated),
        (vec![0x0d, 1, 2], 1, Malformed::Truncated),
        (item(&|out| number_at(1, out)), 4, Malformed::WireType),
        (item(&|out| number_at(2, out)), 4, Malformed::WireType),
        (item(&|out| number_at(3, out)), 4, Malformed::WireType),
        (item(&|out| text(6, "x", out)), 5, Malformed::WireType),
        (item(&|out| text(7, "x", out)), 5, Malformed::WireType),
        (item(&|out| number_at(8, out)), 4, Malformed::WireType),
        (item(&|out| bytes(1, &[0xff], out)), 4, Malformed::Utf8),
        (item(&|out| bytes(1, "ü".as_bytes().split_at(1).0, out)), 4, Malformed::Utf8),
        (item(&|out| message(3, out, |out| number_at(1, out))), 6, Malformed::WireType),
        (item(&|out| message(3, out, |out| text(2, "x", out))), 7, Malformed::WireType),
        (item(&|out| message(8, out, |out| number_at(1, out))), 6, Malformed::WireType),
    ]
}

#[test]
fn a_broken_reply_is_told_by_its_place_and_changes_nothing() {
    for (reply, offset, malformed) in broken() {
        let mut relist = Relist::default();
        let first = see(&mut relist, &node(&[("u", "c", RUNNING)]));
        advance_all(&mut relist, &first);
        let mut good = Vec::new();
        container(&Container { id: "d".into(), uid: "u".into(), ..Container::default() }, &mut Chance(5), &mut good);
        let lists = Lists { sandboxes: &[], containers: &[&good, &reply] };
        let error = relist.take(lists).expect_err("it is broken");
        assert_eq!(Problem::Malformed(malformed), error.problem, "{reply:x?}");
        assert_eq!((Kind::Container, 1, offset), (error.list, error.chunk, error.offset), "{reply:x?}");
        assert_eq!(told(&[]), see(&mut relist, &node(&[("u", "c", RUNNING)])), "{reply:x?}");
    }
}

#[test]
fn a_repeated_id_is_told_by_the_place_of_its_second_coming() {
    // The second of a pair may be the one that is as it was, the one that is not, or both may be new.
    for (known, first, second) in [(RUNNING, RUNNING, EXITED), (RUNNING, EXITED, RUNNING), (UNKNOWN, RUNNING, EXITED)] {
        let mut relist = Relist::default();
        let told_first = see(&mut relist, &node(&[("u", "c", known)]));
        advance_all(&mut relist, &told_first);
        let mut reply = Vec::new();
        let mut offset = 0;
        for state in [first, second, second] {
            let item = Container { id: "c".into(), uid: "u".into(), state, ..Container::default() };
            let begins = reply.len();
            container(&item, &mut Chance(5), &mut reply);
            if offset == 0 && begins > 0 {
                offset = begins + 2; // past the tag and the two bytes of its length
                offset += usize::from(reply[begins + 1] >= 0x80);
            }
        }
        let error = see_bytes(&mut relist, &[], &reply).expect_err("it stands there three times");
        assert_eq!(Problem::Duplicate("c".into()), error.problem);
        assert_eq!(offset, error.offset);
        assert_eq!(told(&[]), see(&mut relist, &node(&[("u", "c", known)])));
    }
}

#[test]
fn the_last_of_a_repeated_field_wins_and_metadata_is_merged() {
    let mut reply = Vec::new();
    message(1, &mut reply, |out| {
        text(1, "first", out);
        message(3, out, |out| text(1, "name", out));
        message(3, out, |out| {
            varint(2 << 3, out);
            varint(7, out);
        });
        entry(8, "io.kubernetes.pod.uid", "first", out);
        entry(8, "io.kubernetes.pod.uid", "u", out);
        text(1, "c", out);
    });
    let mut relist = Relist::default();
    see_bytes(&mut relist, &[], &reply).expect("well-formed");
    let found: Vec<_> = relist.pod("u").expect("it is there").list(Kind::Container).collect();
    assert_eq!(vec![Facts { id: "c".into(), name: "name".into(), attempt: 7, ..Facts::default() }], found);
}

#[test]
fn a_packed_pod_gives_back_what_was_put_in() {
    let sandbox = Facts { id: "s".into(), state: 1, created_at: i64::MIN, ..Facts::default() };
    let of = |id: &'static str, created_at| Facts {
        id: id.into(),
        name: "ü".into(),
        sandbox_id: "s".into(),
        attempt: u32::MAX,
        state: 3,
        created_at,
    };
    let stray = Facts { sandbox_id: "elsewhere".into(), ..of("z", 5) };
    let called = PodName { name: "n".into(), namespace: Text::default() };
    let all = |items: Vec<Facts<'static>>| items.into_iter().map(|facts| (facts, Digest::default())).collect();
    let pod = Pod::pack("u".into(), called, all(vec![sandbox]), all(vec![stray, of("b", 5), of("a", i64::MAX)]))
        .expect("it is small");
    assert_eq!(called, pod.called());
    assert_eq!(vec![sandbox], pod.list(Kind::Sandbox).collect::<Vec<_>>());
    assert_eq!(vec![of("a", i64::MAX), of("b", 5), stray], pod.list(Kind::Container).collect::<Vec<_>>());
    assert_eq!(vec!["a", "b", "z"], pod.newest_first(Kind::Container).iter().map(|f| f.id.str()).collect::<Vec<_>>());
}

#[test]
fn eighteen_thousand_dead_containers_are_carried_in_less_than_8_mb() {
    let mut many = Node::of(18_000, false);
    many.containers.iter_mut().for_each(|container| container.state = EXITED);
    let mut relist = Relist::default();
    let first = see(&mut relist, &many);
    advance_all(&mut relist, &first);
    assert_eq!(18_000, relist.counts().containers[EXITED as usize]);
    assert!(relist.heap_bytes() < 8_000_000, "{} bytes", relist.heap_bytes());
}

#[test]
fn a_repetition_in_another_pod_is_not_what_is_told_of_this_one() {
    let mut reply = Vec::new();
    for (uid, id) in [("b", "d"), ("b", "d"), ("a", "c"), ("a", "c")] {
        container(&Container { id: id.into(), uid: uid.into(), ..Container::default() }, &mut Chance(5), &mut reply);
    }
    let lists = Lists { sandboxes: &[], containers: &[&reply] };
    let error = Relist::default().observe_pod("a", lists, false).expect_err("c stands there twice");
    assert_eq!(Problem::Duplicate("c".into()), error.problem);
}

#[test]
fn an_unchanged_list_leaves_everything_in_its_place() {
    let mut relist = Relist::default();
    let both = node(&[("u", "c", RUNNING), ("u", "d", RUNNING)]);
    let place = |relist: &Relist| {
        let pod = relist.pod("u").expect("it is there");
        let first = pod.list(Kind::Container).next().expect("it has two");
        first.id.str().as_ptr()
    };
    let first = see(&mut relist, &both);
    advance_all(&mut relist, &first);
    let before = place(&relist);
    for _ in 0..3 {
        see(&mut relist, &both);
        assert_eq!(before, place(&relist), "it was built again");
    }
}

#[test]
fn empty_ids_and_the_ends_of_numbers_are_read_as_they_are() {
    for (wire, state, created_at) in [(0, 0, i64::MIN), (4, 3, -1), (1 << 32 | 1, 1, i64::MAX), (u64::MAX, 3, 0)] {
        let item = Container { uid: "u".into(), state: wire, created_at, ..Container::default() };
        let (mut one, mut two) = (Vec::new(), Vec::new());
        sandbox(&Sandbox { uid: "u".into(), state: wire, created_at, ..Sandbox::default() }, &mut Chance(5), &mut one);
        container(&item, &mut Chance(5), &mut two);
        let mut relist = Relist::default();
        see_bytes(&mut relist, &one, &two).expect("well-formed");
        let pod = relist.pod("u").expect("it is there");
        let expected = |state| vec![Facts { state, created_at, ..Facts::default() }];
        assert_eq!(expected(state), pod.list(Kind::Container).collect::<Vec<_>>());
        assert_eq!(expected(state.min(1)), pod.list(Kind::Sandbox).collect::<Vec<_>>());
    }
}

#[test]
fn a_list_of_more_items_than_any_node_has_is_refused_at_the_first_too_many() {
    let (full, one_more) = ([0x0a, 0].repeat(ITEMS_MAX), [0x0a, 0]);
    let mut relist = Relist::default();
    assert_eq!(told(&[]), see_bytes(&mut relist, &full, &full).expect("each list has as many as it may"));
    let lists = Lists { sandboxes: &[], containers: &[&full, &one_more] };
    let error = relist.take(lists).expect_err("it is one too many");
    assert_eq!((Problem::TooMany, 1, 2), (error.problem, error.chunk, error.offset));
    assert_eq!(2 * ITEMS_MAX, relist.counts().unmanaged);
}
