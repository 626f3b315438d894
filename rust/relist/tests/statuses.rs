//! Digests of status replies: the order of a map does not matter, every byte that is read does, and no bytes are too odd
//! to be answered. That a digest stands for what the adapter reads, and for nothing else, is held by the tests in
//! Python (`tests/relist/test_status_digests.py`), which have the protobuf library and the adapter for an oracle.

mod common;

use _relist::error::{Malformed, StatusError};
use _relist::record::Kind;
use _relist::statuses::{Digest, Digester, ENTRIES_MAX};
use common::status::{container_reply, sandbox_reply};
use common::{bytes, message, mutate, Chance};
use proptest::collection::vec;
use proptest::prelude::*;

const KINDS: [Kind; 2] = [Kind::Sandbox, Kind::Container];

fn digest(kind: Kind, reply: &[u8]) -> Result<Digest, StatusError> {
    Digester::new([7; 16]).digest(kind, reply)
}

fn reply(kind: Kind, chance: &mut Chance) -> Vec<u8> {
    match kind {
        Kind::Sandbox => sandbox_reply(1, chance),
        Kind::Container => container_reply(1, chance),
    }
}

#[test]
fn the_same_said_in_another_order_has_the_same_digest() {
    let mut chance = Chance(7);
    for kind in KINDS {
        let (first, second) = (reply(kind, &mut chance), reply(kind, &mut chance));
        assert_ne!(first, second, "runtimes write maps in random order");

        assert_eq!(digest(kind, &first), digest(kind, &second));
    }
}

#[test]
fn another_pod_another_kind_and_another_key_have_other_digests() {
    let chance = &mut Chance(7);
    let (one, two) = (container_reply(1, chance), container_reply(2, chance));

    assert_ne!(digest(Kind::Container, &one), digest(Kind::Container, &two));
    assert_ne!(digest(Kind::Container, b""), digest(Kind::Sandbox, b""));
    assert_ne!(Digester::new([8; 16]).digest(Kind::Container, &one), digest(Kind::Container, &one));
}

#[test]
fn a_list_has_an_end() {
    let addresses = |count: usize| {
        let mut reply = Vec::new();
        message(1, &mut reply, |out| message(5, out, |out| (0..count).for_each(|_| bytes(2, b"", out))));
        reply
    };
    assert!(digest(Kind::Sandbox, &addresses(ENTRIES_MAX)).is_ok());
    let longer = addresses(ENTRIES_MAX + 1);
    let error = digest(Kind::Sandbox, &longer).unwrap_err();

    assert_eq!((Malformed::Entries, longer.len()), (error.fault.problem, error.fault.offset));
    let told = format!("PodSandboxStatus reply, at byte {}: a list has more than {ENTRIES_MAX} entries", longer.len());
    assert_eq!(told, error.to_string());
}

proptest! {
    #![proptest_config(common::examples(2_000))]

    #[test]
    fn any_bytes_are_read_or_refused(reply in vec(any::<u8>(), 0..64)) {
        for kind in KINDS {
            if let Err(error) = digest(kind, &reply) {
                prop_assert!(error.fault.offset <= reply.len());
            }
        }
    }

    #[test]
    fn a_wounded_reply_is_read_or_refused_at_a_place_it_has(
        seed in 1..u64::MAX,
        wounds in vec((any::<u8>(), any::<usize>(), any::<u8>()), 1..5),
    ) {
        for kind in KINDS {
            let mut reply = reply(kind, &mut Chance(seed));
            mutate(&mut reply, &wounds);
            if let Err(error) = digest(kind, &reply) {
                prop_assert!(error.fault.offset <= reply.len());
            }
        }
    }
}
