"""The arguments of ``trikubelet completion``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser


def parser() -> Parser:
    """Return the parser of the arguments of ``completion``."""
    made = Parser(
        "completion",
        "Print a script with which the Tab key of a shell completes the words of this program.",
        [
            ("bash: load it in this shell", "source <(trikubelet completion bash)"),
            (
                "zsh: install it in a directory of $fpath",
                "trikubelet completion zsh > /usr/local/share/zsh/site-functions/_trikubelet",
            ),
            ("fish: install it", "trikubelet completion fish > ~/.config/fish/completions/trikubelet.fish"),
        ],
    )
    made.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    return made
