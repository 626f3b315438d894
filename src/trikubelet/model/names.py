"""The rules for names, labels, keys and addresses in Kubernetes objects.

Each function answers with what is wrong, as the end of a sentence about the value (``must be …``), or with an empty
string when nothing is. The validations of manifests and of the configuration put it behind the field's path.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

LABEL_CHARS_MAX = 63
SUBDOMAIN_CHARS_MAX = 253
PORT_NAME_CHARS_MAX = 15
PORT_MAX = 65535

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PORT_NAME = re.compile(r"[a-z0-9-]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_HEADER = re.compile(r"[-A-Za-z0-9!#$%&'*+.^_`|~]+")
_PROBE_HEADER = re.compile(r"[-A-Za-z0-9]+")
_VARIABLE = re.compile(r"[\x20-\x3c\x3e-\x7e]+")
_SYSCTL = re.compile(r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")


def label_problem(name: str) -> str:
    """A DNS label (RFC 1123), as containers, volumes and namespaces are called."""
    if len(name) > LABEL_CHARS_MAX:
        return _too_long(LABEL_CHARS_MAX)
    if _LABEL.fullmatch(name) is None:
        return "must be lower case letters, digits and '-', with a letter or digit at both ends"
    return ""


def subdomain_problem(name: str) -> str:
    """A DNS name (RFC 1123), as pods, nodes and classes are called."""
    if len(name) > SUBDOMAIN_CHARS_MAX:
        return _too_long(SUBDOMAIN_CHARS_MAX)
    if _SUBDOMAIN.fullmatch(name) is None:
        return "must be lower case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    return ""


def port_name_problem(name: str) -> str:
    """A service name as IANA has them (RFC 6335), as ports are called."""
    if len(name) > PORT_NAME_CHARS_MAX:
        return _too_long(PORT_NAME_CHARS_MAX)
    if _PORT_NAME.fullmatch(name) is None or name[0] == "-" or name[-1] == "-" or "--" in name:
        return "must be lower case letters, digits and single '-' between them"
    if not any(character.isalpha() for character in name):
        return "must have at least one letter"
    return ""


def port_problem(number: int) -> str:
    """A TCP, UDP or SCTP port number."""
    return "" if 1 <= number <= PORT_MAX else f"must be between 1 and {PORT_MAX}"


def qualified_name_problem(name: str) -> str:
    """A name with an optional domain before a slash, as labels, annotations and resources are called."""
    prefix, slash, last = name.rpartition("/")
    if slash and (problem := subdomain_problem(prefix)):
        return f"the part before the '/' {problem}"
    if len(last) > LABEL_CHARS_MAX:
        return f"the name {_too_long(LABEL_CHARS_MAX)}"
    if _QUALIFIED.fullmatch(last) is None:
        return (
            "must be letters, digits, '-', '_' and '.', with a letter or digit at both ends, and may have a 'domain/'"
        )
    return ""


def label_value_problem(value: str) -> str:
    """The value of a label; it may be empty."""
    if len(value) > LABEL_CHARS_MAX:
        return _too_long(LABEL_CHARS_MAX)
    if value and _QUALIFIED.fullmatch(value) is None:
        return "must be empty, or letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return ""


def uid_problem(uid: str) -> str:
    """A UID. API servers make UUIDs, static pods have hashes; one that a person made up becomes part of paths and
    labels as well, so it must not be a way out of a directory. No underscore: systemd's slices have one for each
    hyphen, and names of log directories one between their parts, so that one pod would be taken for another."""
    if len(uid) > LABEL_CHARS_MAX:
        return _too_long(LABEL_CHARS_MAX)
    if "_" in uid or _QUALIFIED.fullmatch(uid) is None:
        return "must be letters, digits, '-' and '.', with a letter or digit at both ends"
    return ""


def variable_problem(name: str) -> str:
    """The name of an environment variable."""
    return "" if _VARIABLE.fullmatch(name) else "must be printable ASCII characters other than '='"


def config_key_problem(key: str) -> str:
    """A key in a ConfigMap or Secret, which may become a file's name."""
    if len(key) > SUBDOMAIN_CHARS_MAX:
        return _too_long(SUBDOMAIN_CHARS_MAX)
    if _CONFIG_KEY.fullmatch(key) is None:
        return "must be letters, digits, '-', '_' and '.'"
    return "must not be '.' or begin with '..'" if key == "." or key.startswith("..") else ""


def probe_header_problem(name: str) -> str:
    """The name of a header that a probe or a hook sends; the API has fewer of them than HTTP."""
    return "" if _PROBE_HEADER.fullmatch(name) else "must be letters, digits and '-'"


def header_problem(name: str) -> str:
    """The name of an HTTP header."""
    return "" if _HEADER.fullmatch(name) else "must be letters, digits and '-', as HTTP headers are called"


def sysctl_problem(name: str) -> str:
    """A kernel parameter, with dots or slashes between its parts."""
    if len(name) > SUBDOMAIN_CHARS_MAX:
        return _too_long(SUBDOMAIN_CHARS_MAX)
    return "" if _SYSCTL.fullmatch(name) else "must be lower case words with '.' or '/' between them"


def ip_problem(address: str) -> str:
    """An IPv4 or IPv6 address without a zone."""
    try:
        read = ip_address(address)
    except ValueError:
        return "must be an IP address, such as 10.9.8.7 or 2001:db8::ffff"
    if isinstance(read, IPv6Address) and read.ipv4_mapped is not None:
        return f"must not be an IPv4 address within an IPv6 one: write {read.ipv4_mapped}"
    return "must be an IP address without a zone" if "%" in address else ""


def canonical_ip(address: str) -> str:
    """An IP address as RFC 5952 writes it, so that two ways of writing one compare as equal; what is none stays."""
    try:
        return str(ip_address(address))
    except ValueError:
        return address


def url_problem(url: str) -> str:
    """A URL to fetch something from."""
    if not url.startswith(("http://", "https://")):
        return "must begin with http:// or https://"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"must be a URL: {error}"
    if not host:
        return "must name a host, as http://host/path does"
    if any(character.isspace() for character in url):
        return "must have no white space"
    return control_characters_problem(url) or host_problem(host)


def host_problem(host: str) -> str:
    """An address, or a name that can be looked up: the resolver raises for any other before it asks a server."""
    if any(character.isspace() for character in host):
        return "must be a host without white space"
    try:
        labels = (host if host.isascii() else host.encode("idna").decode()).removesuffix(".").split(".")
    except UnicodeError:
        labels = [""]
    if any(not 1 <= len(label) <= LABEL_CHARS_MAX for label in labels):
        return f"must be an address, or a name whose parts have between 1 and {LABEL_CHARS_MAX} characters"
    return control_characters_problem(host)


def control_characters_problem(text: str) -> str:
    """A text that goes into a request's head, or to the system's resolver."""
    return "must have no control characters" if any(one < " " or one == "\x7f" for one in text) else ""


def path_in_volume_problem(path: str) -> str:
    """A path that must stay below where it is put: relative, and never up."""
    if path.startswith("/"):
        return "must be a relative path"
    return "must not contain '..'" if ".." in path.split("/") else ""


def nfs_server_problem(server: str) -> str:
    """An nfs server's host name or address. mount(8) and its helper for NFS, which knows no ``--``, would take one with
    a dash at its beginning for an option, by which a pod could mount any directory of its node."""
    return "must not begin with '-'" if server.startswith("-") else ""


def _too_long(chars_max: int) -> str:
    return f"must be no more than {chars_max} characters"
