//! The receive path below HTTP/2: bytes from a socket in, gRPC messages out, and everything else left for a protocol
//! library.
//!
//! A list of thousands of containers comes as thousands of DATA frames, since Go's servers send 16 KiB in each. They
//! are told apart here by their nine-byte headers, stripped of padding and of the five-byte prefixes of gRPC messages,
//! and copied once, to where they belong. Frames other than DATA of an open stream pass as they came: the library keeps
//! headers, settings and states. Short header blocks of an open stream are returned separately, so that callers can
//! cache their decoding; at a server every stream is open from its first headers on. GOAWAY is taken out, too, because
//! the library would take it for the end of everything.
//!
//! Nothing here knows a window: the bytes that DATA has used of it are returned with the messages, for the reader to
//! give back.

use std::collections::HashMap;
use std::fmt;
use std::mem::take;

/// With which a client begins, before its first frame.
const PREFACE_BYTES: usize = 24;
const HEADER_BYTES: usize = 9;
const PREFIX_BYTES: usize = 5;
/// The rest of a GOAWAY is a text. A shorter one passes, and the library refuses it.
const GOAWAY_BYTES_MIN: usize = 8;
/// A header block of an open stream is told by itself up to here: longer ones hardly come twice.
const BLOCK_BYTES_MAX: usize = 256;
/// An announced length is believed so far; beyond it, memory is taken as the bytes come.
const BELIEVED_BYTES_MAX: usize = 64 * 1024;
/// News of a stream are told together across this many other streams, whose frames come in turns: of two lists in frames
/// of 1,500 bytes a read of 256 KiB brings two News instead of 170, in two fifths of the time.
const STREAMS_IN_TURNS_MAX: usize = 8;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;

/// One thing that came, in the order of coming as far as it matters: messages never overtake what was before them on
/// their stream, nor on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes for the protocol library.
    Rest(Vec<u8>),
    /// The payload of a GOAWAY frame.
    GoAway(Vec<u8>),
    /// HEADERS of an open stream, if they are short, whole and nothing else.
    Block(Block),
    /// DATA of an open stream.
    News(News),
}

/// A header block, as it came.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Block {
    /// Whose headers.
    pub stream_id: u32,
    /// Whether the stream ends with them.
    pub ends: bool,
    /// In HPACK.
    pub bytes: Vec<u8>,
}

/// The DATA that has arrived on one stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct News {
    /// Whose DATA.
    pub stream_id: u32,
    /// The bytes it has used of the stream's and the connection's window, padding included.
    pub flow_bytes: usize,
    /// The messages it has completed.
    pub messages: Vec<Vec<u8>>,
    /// Whether the stream would cut a message if it ended here.
    pub midway: bool,
    /// Why nothing more can be read from this stream. Further data on it is counted and dropped.
    pub refusal: Option<Refusal>,
    /// Whether the stream ends with this DATA, which the library has not seen.
    pub ends: bool,
}

/// Why a message is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The message is compressed, and no compression was agreed.
    Compressed,
    /// It was announced to be longer than the limit.
    TooLarge {
        /// As announced, in bytes.
        length: u32,
        /// In bytes.
        limit: u32,
    },
}

/// Bytes that are no HTTP/2 as agreed on. Nothing can be read after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A frame longer than the limit; its length in bytes.
    TooLong(usize),
    /// DATA with more padding than there is room for.
    Padding,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Compressed => f.write_str("the message is compressed, which was not agreed on"),
            Refusal::TooLarge { length, limit } => write!(f, "a message of {length} bytes is larger than max {limit}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::TooLong(length) => write!(f, "a frame of {length} bytes"),
            Fault::Padding => f.write_str("a frame with more padding than it has bytes"),
        }
    }
}

impl std::error::Error for Fault {}

/// The message that is arriving on one stream.
#[derive(Debug, Default)]
struct Assembler {
    prefix: Vec<u8>,
    message: Vec<u8>,
    missing: usize,
    refusal: Option<Refusal>,
}

impl Assembler {
    fn feed(&mut self, mut bytes: &[u8], limit: u32, news: &mut News) {
        while !bytes.is_empty() && self.refusal.is_none() {
            if self.prefix.len() < PREFIX_BYTES {
                bytes = fill(&mut self.prefix, PREFIX_BYTES, bytes);
                self.begin(limit);
            } else {
                let part;
                (part, bytes) = bytes.split_at(self.missing.min(bytes.len()));
                self.message.extend_from_slice(part);
                self.missing -= part.len();
            }
            if self.prefix.len() == PREFIX_BYTES && self.missing == 0 && self.refusal.is_none() {
                news.messages.push(take(&mut self.message));
                self.prefix.clear();
            }
        }
        news.midway = !self.prefix.is_empty();
        news.refusal = self.refusal;
    }

    /// Read the prefix, if it is there.
    fn begin(&mut self, limit: u32) {
        let &[flag, a, b, c, d] = &self.prefix[..] else { return };
        let length = u32::from_be_bytes([a, b, c, d]);
        if flag != 0 {
            self.refusal = Some(Refusal::Compressed);
        } else if length > limit {
            self.refusal = Some(Refusal::TooLarge { length, limit });
        } else {
            self.missing = length as usize;
            self.message.reserve_exact(self.missing.min(BELIEVED_BYTES_MAX));
        }
    }
}

/// The treatment of the rest of the frame that is arriving.
#[derive(Debug)]
enum Body {
    /// Hand it to the library.
    Rest { missing: usize },
    /// Collect it.
    GoAway { missing: usize, payload: Vec<u8> },
    /// Collect it.
    Block { missing: usize, block: Block },
    /// Take messages from it. `padding` is unknown until its length has come, and counted in `missing` until then.
    Data { stream_id: u32, missing: usize, padding: Option<usize>, ends: bool },
}

/// Owns the knowledge of where in the incoming bytes the next frame begins, and the messages that are arriving.
#[derive(Debug)]
pub struct Frames {
    frame_bytes_max: usize,
    message_bytes_max: u32,
    serving: bool,
    header: Vec<u8>,
    body: Option<Body>,
    /// A header block is not complete: the next frame must go on with it, and telling is the library's affair.
    in_headers: bool,
    open: HashMap<u32, Assembler>,
    out: Vec<Piece>,
    /// Not in `out` yet; only one of the two is ever filled.
    rest: Vec<u8>,
    news: Vec<News>,
}

impl Frames {
    /// A reader for the beginning of a connection; with `serving`, for a server's end of it, where the client's preface
    /// comes before all frames and its headers open streams. All limits are in bytes.
    pub fn new(frame_bytes_max: usize, message_bytes_max: u32, serving: bool) -> Self {
        Frames {
            frame_bytes_max,
            message_bytes_max,
            serving,
            header: Vec::with_capacity(HEADER_BYTES),
            body: serving.then_some(Body::Rest { missing: PREFACE_BYTES }),
            in_headers: false,
            open: HashMap::new(),
            out: Vec::new(),
            rest: Vec::new(),
            news: Vec::new(),
        }
    }

    /// From the next frame on, DATA of this stream is ours, until the stream ends or is closed.
    pub fn open(&mut self, stream_id: u32) {
        self.open.insert(stream_id, Assembler::default());
    }

    /// Give up this stream's messages: its DATA goes to the library, from the next frame on.
    pub fn close(&mut self, stream_id: u32) {
        self.open.remove(&stream_id);
    }

    /// Return the pieces that the next bytes of the connection complete, wherever they are cut.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<Piece>, Fault> {
        while !bytes.is_empty() {
            if self.body.is_some() {
                bytes = self.go_on(bytes)?;
            } else {
                bytes = fill(&mut self.header, HEADER_BYTES, bytes);
                self.begin()?;
            }
            self.end_if_complete();
        }
        self.flush();
        Ok(take(&mut self.out))
    }

    /// Read the header, if it is there, and decide what the frame is for us.
    fn begin(&mut self) -> Result<(), Fault> {
        let &[l2, l1, l0, kind, flags, i3, i2, i1, i0] = &self.header[..] else { return Ok(()) };
        let missing = u32::from_be_bytes([0, l2, l1, l0]) as usize;
        let stream_id = u32::from_be_bytes([i3 & 0x7f, i2, i1, i0]);
        if missing > self.frame_bytes_max {
            return Err(Fault::TooLong(missing));
        }
        let ends = flags & END_STREAM != 0;
        if self.serving && kind == HEADERS && !self.in_headers {
            self.open.entry(stream_id).or_default();
        }
        self.body = Some(match kind {
            DATA if !self.in_headers && self.open.contains_key(&stream_id) => {
                let padding = if flags & PADDED == 0 { Some(0) } else { None };
                if padding.is_none() && missing == 0 {
                    return Err(Fault::Padding);
                }
                Body::Data { stream_id, missing, padding, ends }
            }
            GOAWAY if !self.in_headers && missing >= GOAWAY_BYTES_MIN => Body::GoAway { missing, payload: Vec::new() },
            HEADERS
                if !self.in_headers
                    && flags & !END_STREAM == END_HEADERS
                    && missing <= BLOCK_BYTES_MAX
                    && self.open.contains_key(&stream_id) =>
            {
                Body::Block { missing, block: Block { stream_id, ends, bytes: Vec::with_capacity(missing) } }
            }
            _ => {
                if kind == RST_STREAM || kind == HEADERS && ends {
                    self.open.remove(&stream_id);
                }
                if matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION) {
                    self.in_headers = flags & END_HEADERS == 0;
                }
                let header = take(&mut self.header);
                self.pass(&header);
                Body::Rest { missing }
            }
        });
        self.header.clear();
        Ok(())
    }

    /// Use what there is of the frame that is arriving; the bytes after it are returned.
    fn go_on<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Fault> {
        let mut body = self.body.take();
        let after = match &mut body {
            None => bytes,
            Some(Body::Rest { missing }) => {
                let (part, after) = split(missing, bytes);
                self.pass(part);
                after
            }
            Some(Body::GoAway { missing, payload }) => {
                let (part, after) = split(missing, bytes);
                payload.extend_from_slice(part);
                after
            }
            Some(Body::Block { missing, block }) => {
                let (part, after) = split(missing, bytes);
                block.bytes.extend_from_slice(part);
                after
            }
            Some(Body::Data { stream_id, missing, padding: padding @ None, .. }) => {
                let (length, after) = split(&mut 1, bytes);
                let length = length.first().copied().map_or(0, usize::from);
                *missing -= 1;
                *missing = missing.checked_sub(length).ok_or(Fault::Padding)?;
                *padding = Some(length);
                self.tell(*stream_id, 1, &[]);
                after
            }
            Some(Body::Data { stream_id, missing, padding: Some(padding), .. }) => {
                let (part, after) = split(missing, bytes);
                let (skipped, after) = split(padding, after);
                self.tell(*stream_id, part.len() + skipped.len(), part);
                after
            }
        };
        self.body = body;
        Ok(after)
    }

    fn end_if_complete(&mut self) {
        match &mut self.body {
            Some(Body::Rest { missing: 0 }) => self.body = None,
            Some(Body::GoAway { missing: 0, payload }) => {
                let payload = take(payload);
                self.body = None;
                self.flush();
                self.out.push(Piece::GoAway(payload));
            }
            Some(Body::Block { missing: 0, block }) => {
                let block = take(block);
                self.body = None;
                if block.ends {
                    self.open.remove(&block.stream_id);
                }
                self.flush();
                self.out.push(Piece::Block(block));
            }
            Some(Body::Data { stream_id, missing: 0, padding: Some(0), ends }) => {
                let (stream_id, ends) = (*stream_id, *ends);
                self.body = None;
                if ends {
                    self.tell(stream_id, 0, &[]).ends = true;
                    self.open.remove(&stream_id);
                }
            }
            _ => {}
        }
    }

    fn pass(&mut self, bytes: &[u8]) {
        if !self.news.is_empty() {
            self.flush();
        }
        self.rest.extend_from_slice(bytes);
    }

    fn tell(&mut self, stream_id: u32, flow_bytes: usize, bytes: &[u8]) -> &mut News {
        if !self.rest.is_empty() {
            self.flush();
        }
        let told = self.news.iter().rev().take(STREAMS_IN_TURNS_MAX).position(|news| news.stream_id == stream_id);
        let place = match told {
            Some(back) => self.news.len() - 1 - back,
            None => {
                self.news.push(News { stream_id, ..News::default() });
                self.news.len() - 1
            }
        };
        let news = &mut self.news[place];
        news.flow_bytes += flow_bytes;
        // It may have been closed in the middle of the frame; its windows are used all the same.
        if let Some(assembler) = self.open.get_mut(&stream_id) {
            assembler.feed(bytes, self.message_bytes_max, news);
        }
        news
    }

    fn flush(&mut self) {
        self.out.extend(self.news.drain(..).map(Piece::News));
        if !self.rest.is_empty() {
            self.out.push(Piece::Rest(take(&mut self.rest)));
        }
    }
}

/// Move bytes to `held` until it has `wanted`; those left over are returned.
fn fill<'a>(held: &mut Vec<u8>, wanted: usize, bytes: &'a [u8]) -> &'a [u8] {
    let (part, after) = split(&mut (wanted - held.len()), bytes);
    held.extend_from_slice(part);
    after
}

/// The bytes that are `missing`, as far as they are there, and those after them.
fn split<'a>(missing: &mut usize, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let (part, after) = bytes.split_at(bytes.len().min(*missing));
    *missing -= part.len();
    (part, after)
}
