"""``sessions completion``."""

from __future__ import annotations

import click

from sessions.cli import output

_WHERE = """\b
bash   sessions completion bash > ~/.local/share/bash-completion/completions/sessions
       or, without the package bash-completion, in ~/.bashrc:
       eval "$(sessions completion bash)"
zsh    in ~/.zshrc, behind compinit:
       eval "$(sessions completion zsh)"
fish   sessions completion fish > ~/.config/fish/completions/sessions.fish
"""


@click.command("completion", epilog=_WHERE)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete commands, options, sessions and checkpoints.

    A session is offered by the title it was given, and by its id: first those of this directory.
    """
    from sessions.cli import completing  # noqa: PLC0415 - the help needs none of it

    output.text(completing.script(context.find_root().command, shell))
