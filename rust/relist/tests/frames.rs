//! The frame reader on conversations with wounds in them: no panic, nothing kept that did not come, and the same story
//! wherever the bytes are cut. `PROPTEST_CASES` says for how long, and has fresh ones.

mod common;

use _relist::frames::{Block, Fault, Frames, News, Piece};
use proptest::collection::vec;
use proptest::prelude::*;

const FRAME_BYTES_MAX: usize = 300;
const MESSAGE_BYTES_MAX: u32 = 80;
const STREAMS: [u32; 3] = [1, 3, 5];

/// A frame of any kind on a few streams, with flags that mean something for some of them.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![5 => Just(0u8), 2 => Just(1u8), 1 => 2..=9u8, 1 => any::<u8>()];
    let flags = prop_oneof![3 => Just(0u8), 1 => Just(4u8), 2 => any::<u8>().prop_map(|bits| bits & 0x0d)];
    let stream = prop_oneof![6 => prop::sample::select(&STREAMS[..]), 1 => 0..8u32, 1 => any::<u32>()];
    let message = vec(any::<u8>(), 0..60).prop_map(|body| {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes
    });
    let body = prop_oneof![3 => message, 1 => vec(any::<u8>(), 0..40)];
    (kind, flags, stream, body).prop_map(|(kind, flags, stream, body)| {
        let mut bytes = (body.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend_from_slice(&[kind, flags]);
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes
    })
}

fn conversation() -> impl Strategy<Value = Vec<u8>> {
    (vec(frame(), 0..30), vec((0..3u8, any::<usize>(), any::<u8>()), 0..4)).prop_map(|(frames, wounds)| {
        let mut bytes = frames.concat();
        for (how, place, value) in wounds {
            let place = place % (bytes.len() + 1);
            match how {
                0 => bytes.insert(place, value),
                1 => bytes.truncate(place),
                _ if place < bytes.len() => bytes[place] = value,
                _ => {}
            }
        }
        bytes
    })
}

/// All that was told, without regard to the pieces it came in.
#[derive(Debug, Default, PartialEq)]
struct Story {
    rest: Vec<u8>,
    away: Vec<Vec<u8>>,
    blocks: Vec<Block>,
    messages: Vec<(u32, Vec<u8>)>,
    flow_bytes: usize,
    midway: Vec<(u32, bool, bool)>,
    ended: Vec<u32>,
    fault: Option<Fault>,
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Story {
    let mut frames = Frames::new(FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, false);
    STREAMS.iter().for_each(|stream| frames.open(*stream));
    let mut story = Story::default();
    for piece in pieces {
        match frames.feed(piece) {
            Ok(told) => told.into_iter().for_each(|piece| note(&mut story, piece)),
            Err(fault) => {
                story.fault = Some(fault);
                break;
            }
        }
    }
    story.messages.sort_by_key(|(stream, _)| *stream); // stable: in order on each stream
    story.midway.sort_unstable();
    story.ended.sort_unstable();
    story
}

fn note(story: &mut Story, piece: Piece) {
    match piece {
        Piece::Rest(bytes) => story.rest.extend(bytes),
        Piece::GoAway(payload) => story.away.push(payload),
        Piece::Block(block) => story.blocks.push(block),
        Piece::News(News { stream_id, flow_bytes, messages, midway, refusal, ends }) => {
            story.flow_bytes += flow_bytes;
            story.messages.extend(messages.into_iter().map(|message| (stream_id, message)));
            story.midway.retain(|(stream, ..)| *stream != stream_id);
            story.midway.push((stream_id, midway, refusal.is_some()));
            story.ended.extend(ends.then_some(stream_id));
        }
    }
}

proptest! {
    #![proptest_config(common::examples(256))]

    #[test]
    fn the_story_is_the_same_wherever_the_bytes_are_cut(bytes in conversation(), size in 1..50usize) {
        let (one, many) = (read(bytes.chunks(1)), read(bytes.chunks(size)));
        prop_assert_eq!(one.fault, many.fault);
        if one.fault.is_none() {
            prop_assert_eq!(one, many);
        } else {
            // The pieces read of the same bytes as the fault are not returned.
            prop_assert!(one.rest.starts_with(&many.rest));
            prop_assert!(many.flow_bytes <= one.flow_bytes);
        }
    }

    #[test]
    fn nothing_is_told_that_did_not_come(bytes in vec(any::<u8>(), 0..2000)) {
        let story = read(std::iter::once(&bytes[..]));
        let told: usize = story.messages.iter().map(|(_, message)| message.len()).sum();
        prop_assert!(told <= story.flow_bytes);
        prop_assert!(story.rest.len() + story.flow_bytes <= bytes.len());
    }

    #[test]
    fn a_reader_that_has_failed_may_be_asked_again(bytes in conversation(), more in conversation()) {
        let mut frames = Frames::new(FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, false);
        STREAMS.iter().for_each(|stream| frames.open(*stream));
        for piece in [frames.feed(&bytes), frames.feed(&more), frames.feed(&bytes)].into_iter().flatten().flatten() {
            if let Piece::News(news) = piece {
                prop_assert!(STREAMS.contains(&news.stream_id));
            }
        }
    }
}

#[test]
fn an_announced_length_alone_takes_no_memory_to_speak_of() {
    let mut frames = Frames::new(1 << 20, u32::MAX, false);
    for stream in (1..20_001).step_by(2) {
        frames.open(stream);
        let mut bytes = vec![0, 0, 5, 0, 0];
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.extend_from_slice(&[0, 255, 255, 255, 255]);
        let told = frames.feed(&bytes).expect("a frame like any other");
        assert!(matches!(&told[..], [Piece::News(News { midway: true, refusal: None, .. })]));
    }
}
