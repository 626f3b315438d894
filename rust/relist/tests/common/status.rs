//! Status replies as containerd writes them: the labels and annotations of a kubelet's pod, mounts, the image.

use super::{entry, message, number, text, Chance};

/// Entries of a map, in an order drawn by chance.
fn map(field: u64, entries: &[(&str, String)], chance: &mut Chance, out: &mut Vec<u8>) {
    let mut entries: Vec<_> = entries.iter().collect();
    chance.shuffle(&mut entries);
    entries.into_iter().for_each(|(key, value)| entry(field, key, value, out));
}

fn labels(pod: usize) -> Vec<(&'static str, String)> {
    vec![
        ("io.kubernetes.pod.uid", format!("{pod:08x}-0000-4000-8000-000000000000")),
        ("io.kubernetes.pod.name", format!("web-{pod:010}")),
        ("io.kubernetes.pod.namespace", "shop".into()),
        ("io.kubernetes.container.name", "web".into()),
        ("app.kubernetes.io/name", "web".into()),
        ("pod-template-hash", "6f8d9c7b5".into()),
    ]
}

fn annotations() -> Vec<(&'static str, String)> {
    vec![
        ("io.kubernetes.container.hash", "5f4dcc3b".into()),
        ("io.kubernetes.container.restartCount", "0".into()),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log".into()),
        ("io.kubernetes.container.terminationMessagePolicy", "File".into()),
        ("io.kubernetes.container.ports", r#"[{"name":"http","containerPort":8080,"protocol":"TCP"}]"#.into()),
        ("io.kubernetes.pod.terminationGracePeriod", "30".into()),
        ("kubernetes.io/config.source", "api".into()),
    ]
}

/// `PodSandboxStatusResponse`.
pub fn sandbox_reply(pod: usize, chance: &mut Chance) -> Vec<u8> {
    let mut reply = Vec::new();
    message(1, &mut reply, |out| {
        text(1, &format!("{pod:064x}"), out);
        message(2, out, |out| {
            text(1, &format!("web-{pod:010}"), out);
            text(2, &format!("{pod:08x}-0000-4000-8000-000000000000"), out);
            text(3, "shop", out);
        });
        number(4, 1_800_000_000_000_000_000 + pod as u64, out);
        message(5, out, |out| {
            text(1, "10.88.0.7", out);
            message(2, out, |out| text(1, "fd00::7", out));
        });
        message(6, out, |out| message(1, out, |out| message(2, out, |out| number(2, 1, out))));
        map(7, &labels(pod), chance, out);
        map(8, &annotations(), chance, out);
    });
    reply
}

/// `ContainerStatusResponse`.
pub fn container_reply(pod: usize, chance: &mut Chance) -> Vec<u8> {
    let mut reply = Vec::new();
    message(1, &mut reply, |out| {
        text(1, &format!("{pod:064x}"), out);
        message(2, out, |out| text(1, "web", out));
        number(3, 1, out);
        number(4, 1_800_000_000_000_000_000 + pod as u64, out);
        number(5, 1_800_000_000_100_000_000 + pod as u64, out);
        message(8, out, |out| text(1, "registry.example/shop/web:1.27", out));
        text(9, &format!("registry.example/shop/web@sha256:{:064x}", 7), out);
        map(12, &labels(pod), chance, out);
        map(13, &annotations(), chance, out);
        for target in ["/var/run/secrets/kubernetes.io/serviceaccount", "/etc/hosts", "/dev/termination-log"] {
            message(14, out, |out| {
                text(1, target, out);
                text(2, &format!("/var/lib/kubelet/pods/{pod:08x}-0000-4000-8000-000000000000{target}"), out);
                number(3, 1, out);
            });
        }
        text(15, &format!("/var/log/pods/shop_web-{pod:010}/web/0.log"), out);
        text(17, &format!("sha256:{:064x}", 7), out);
    });
    reply
}
