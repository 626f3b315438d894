//! Lists as a runtime would send them, for the tests and the benchmark: a protobuf writer of a dozen lines, and a small
//! generator of numbers so that order can be random and repeatable.

#![allow(dead_code)] // each test file uses its part

pub mod status;

use proptest::test_runner::{Config, RngSeed};

/// So many examples for a property, the same ones each time. A run with another number of them (`PROPTEST_CASES`) has
/// fresh ones; `PROPTEST_RNG_SEED` selects them.
pub fn examples(cases: u32) -> Config {
    let rng_seed = if std::env::var_os("PROPTEST_CASES").is_some() { RngSeed::Random } else { RngSeed::Fixed(1) };
    Config { cases, failure_persistence: None, rng_seed, ..Config::default() }
}

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
    /// As of a container.
    pub laden: bool,
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
    /// True if it carries the further fields of a kubelet's containers, which are not read here.
    pub laden: bool,
}

/// A map as Go writes it: in an order of its own each time.
fn map(field: u64, mut pairs: Vec<(&str, &str)>, chance: &mut Chance, out: &mut Vec<u8>) {
    chance.shuffle(&mut pairs);
    pairs.iter().for_each(|(key, value)| entry(field, key, value, out));
}

const PORTS: &str =
    r#"[{"name":"http","containerPort":8080,"protocol":"TCP"},{"name":"metrics","containerPort":9090}]"#;
const HOOK: &str = r#"{"exec":{"command":["/bin/sh","-c","test -f /tmp/drained || (touch /tmp/drained \u0026\u0026 kill -s QUIT 1 \u0026\u0026 sleep 10)"]},"comment":"let the balancer see that this one is going away"}"#;
const APPLIED: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{},"name":"web","namespace":"ns"},"spec":{"containers":[{"image":"registry.example/some/image:1","name":"container-0","resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}]}}"#;

pub fn sandbox(item: &Sandbox, chance: &mut Chance, out: &mut Vec<u8>) {
    let name = format!("pod-{}", item.uid);
    message(1, out, |out| {
        text(1, &item.id, out);
        message(2, out, |out| {
            text(1, &name, out);
            text(2, &item.uid, out);
            text(3, "ns", out);
        });
        number(3, item.state, out);
        number(4, item.created_at as u64, out);
        let mut labels = vec![("io.kubernetes.pod.uid", &*item.uid), ("app", "something")];
        if item.laden {
            labels.extend([
                ("io.kubernetes.pod.name", &*name),
                ("io.kubernetes.pod.namespace", "ns"),
                ("app.kubernetes.io/component", "frontend"),
                ("app.kubernetes.io/part-of", "something-larger"),
                ("pod-template-hash", "5d5f8d8b5c"),
            ]);
        }
        map(5, labels, chance, out);
        if item.laden {
            let annotations = vec![
                ("kubectl.kubernetes.io/last-applied-configuration", APPLIED),
                ("kubernetes.io/config.seen", "2026-01-02T03:04:05.678901234Z"),
                ("kubernetes.io/config.source", "api"),
                ("prometheus.io/scrape", "true"),
                ("prometheus.io/path", "/metrics"),
                ("checksum/config", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
                ("linkerd.io/inject", "enabled"),
            ];
            map(6, annotations, chance, out);
        }
    });
}

pub fn container(item: &Container, chance: &mut Chance, out: &mut Vec<u8>) {
    let pod = format!("pod-{}", item.uid);
    let digest = format!("sha256:{:064x}", item.created_at);
    message(1, out, |out| {
        text(1, &item.id, out);
        text(2, &item.sandbox_id, out);
        message(3, out, |out| {
            text(1, &item.name, out);
            number(2, item.attempt.into(), out);
        });
        message(4, out, |out| text(1, "registry.example/some/image:1", out));
        text(5, &digest, out);
        number(6, item.state, out);
        number(7, item.created_at as u64, out);
        let labels = vec![
            ("io.kubernetes.container.name", &*item.name),
            ("io.kubernetes.pod.uid", &*item.uid),
            ("io.kubernetes.pod.name", &*pod),
            ("io.kubernetes.pod.namespace", "ns"),
        ];
        map(8, labels, chance, out);
        if item.laden {
            let annotations = vec![
                ("io.kubernetes.container.hash", "5f3a1c2e"),
                ("io.kubernetes.container.ports", PORTS),
                ("io.kubernetes.container.preStopHandler", HOOK),
                ("io.kubernetes.container.restartCount", "0"),
                ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
                ("io.kubernetes.container.terminationMessagePolicy", "File"),
                ("io.kubernetes.pod.terminationGracePeriod", "30"),
            ];
            map(9, annotations, chance, out);
            text(10, &digest, out);
        }
    });
}

/// The first thing on a node was made then, in nanoseconds since the epoch.
const SINCE: i64 = 1_767_323_045_678_901_234;

/// The pods of a node, of one sandbox and two containers.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub sandboxes: Vec<Sandbox>,
    pub containers: Vec<Container>,
}

impl Node {
    pub fn of(containers: usize, laden: bool) -> Node {
        let uid = |pod: usize| format!("{pod:08x}-0000-4000-8000-000000000000");
        // Ids are hashes and come in no order.
        let id = |kind: u64, number: usize| format!("{:064x}", Chance(kind << 32 | (number as u64 + 1)).next());
        Node {
            sandboxes: (0..containers / 2)
                .map(|n| Sandbox { id: id(1, n), uid: uid(n), state: 0, created_at: SINCE + n as i64, laden })
                .collect(),
            containers: (0..containers)
                .map(|n| Container {
                    id: id(2, n),
                    uid: uid(n / 2),
                    sandbox_id: id(1, n / 2),
                    name: format!("container-{}", n % 2),
                    attempt: 0,
                    state: 1,
                    created_at: SINCE + n as i64,
                    laden,
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
        sandboxes.iter().for_each(|item| sandbox(item, chance, &mut one));
        containers.iter().for_each(|item| container(item, chance, &mut two));
        (one, two)
    }
}

/// Insert, cut, change or remove bytes: how, where, what.
pub fn mutate(bytes: &mut Vec<u8>, wounds: &[(u8, usize, u8)]) {
    for (how, place, value) in wounds {
        let place = place % (bytes.len() + 1);
        match how % 4 {
            0 => bytes.insert(place, *value),
            1 => bytes.truncate(place),
            _ if place == bytes.len() => bytes.push(*value),
            2 => bytes[place] = *value,
            _ => drop(bytes.remove(place)),
        }
    }
}
