//! Lists as a runtime would send them, for the tests and the benchmark: a protobuf writer of a dozen lines, and a small
//! generator of numbers so that order can be random and repeatable.

#![allow(dead_code)] // each test file uses its part

/// Numbers that look random and are the same every time (xorshift).
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, (self.next() % (index as u64 + 1)) as usize);
        }
    }
}

pub fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A number, left out when it is 0, as proto3 has it.
pub fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        varint(field << 3, out);
        varint(value, out);
    }
}

pub fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// A string, left out when it is empty.
pub fn text(field: u64, value: &str, out: &mut Vec<u8>) {
    if !value.is_empty() {
        bytes(field, value.as_bytes(), out);
    }
}

pub fn message(field: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    write(&mut body);
    bytes(field, &body, out);
}

pub fn entry(field: u64, key: &str, value: &str, out: &mut Vec<u8>) {
    message(field, out, |out| {
        text(1, key, out);
        text(2, value, out);
    });
}

#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    pub id: String,
    pub uid: String,
    pub state: u64,
    pub created_at: i64,
}

#[derive(Clone, Debug, Default)]
pub struct Container {
    pub id: String,
    pub uid: String,
    pub sandbox_id: String,
    pub name: String,
    pub attempt: u32,
    pub state: u64,
    pub created_at: i64,
    /// Bytes of annotations that nobody reads.
    pub ballast: usize,
}

pub fn sandbox(item: &Sandbox, out: &mut Vec<u8>) {
    message(1, out, |out| {
        text(1, &item.id, out);
        message(2, out, |out| {
            text(1, &format!("pod-{}", item.uid), out);
            text(2, &item.uid, out);
            text(3, "ns", out);
        });
        number(3, item.state, out);
        number(4, item.created_at as u64, out);
        entry(5, "io.kubernetes.pod.uid", &item.uid, out);
        entry(5, "app", "something", out);
    });
}

pub fn container(item: &Container, out: &mut Vec<u8>) {
    message(1, out, |out| {
        text(1, &item.id, out);
        text(2, &item.sandbox_id, out);
        message(3, out, |out| {
            text(1, &item.name, out);
            number(2, item.attempt.into(), out);
        });
        message(4, out, |out| text(1, "registry.example/some/image:1", out));
        text(5, "sha256:0000", out);
        number(6, item.state, out);
        number(7, item.created_at as u64, out);
        entry(8, "io.kubernetes.container.name", &item.name, out);
        entry(8, "io.kubernetes.pod.uid", &item.uid, out);
        entry(8, "io.kubernetes.pod.name", &format!("pod-{}", item.uid), out);
        entry(8, "io.kubernetes.pod.namespace", "ns", out);
        if item.ballast > 0 {
            entry(9, "ballast", &"x".repeat(item.ballast), out);
        }
    });
}

/// What a node has: pods of one sandbox and two containers.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub sandboxes: Vec<Sandbox>,
    pub containers: Vec<Container>,
}

impl Node {
    pub fn of(containers: usize, ballast: usize) -> Node {
        let uid = |pod: usize| format!("{pod:08x}-0000-4000-8000-000000000000");
        // Ids are hashes and come in no order.
        let id = |kind: u64, number: usize| format!("{:064x}", Chance(kind << 32 | (number as u64 + 1)).next());
        Node {
            sandboxes: (0..containers / 2)
                .map(|n| Sandbox { id: id(1, n), uid: uid(n), state: 0, created_at: n as i64 })
                .collect(),
            containers: (0..containers)
                .map(|n| Container {
                    id: id(2, n),
                    uid: uid(n / 2),
                    sandbox_id: id(1, n / 2),
                    name: format!("container-{}", n % 2),
                    attempt: 0,
                    state: 1,
                    created_at: n as i64,
                    ballast,
                })
                .collect(),
        }
    }

    /// Both lists, each in an order of its own, as containerd writes them.
    pub fn lists(&self, chance: &mut Chance) -> (Vec<u8>, Vec<u8>) {
        let (mut sandboxes, mut containers) = (self.sandboxes.clone(), self.containers.clone());
        chance.shuffle(&mut sandboxes);
        chance.shuffle(&mut containers);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        sandboxes.iter().for_each(|item| sandbox(item, &mut one));
        containers.iter().for_each(|item| container(item, &mut two));
        (one, two)
    }
}
