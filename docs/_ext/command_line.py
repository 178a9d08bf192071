"""The directives ``commands`` and ``service-options``: the help of every command, and the options of the service."""

from __future__ import annotations

from typing import Any

import click
from docutils import nodes
from docutils.parsers.rst import Directive

from distforest.command_line.cli import main
from distforest.service import dask_setup

WIDTH = 96


class Commands(Directive):
    """A section for each command, with its help."""

    def run(self) -> list[nodes.Node]:
        """Write the sections."""
        return [self._section(name, main.commands[name]) for name in sorted(main.commands)]

    def _section(self, name: str, command: click.Command) -> nodes.section:
        group = click.Context(main, info_name="distforest", terminal_width=WIDTH, **main.context_settings)
        context = click.Context(command, parent=group, info_name=name, max_content_width=WIDTH)
        section = nodes.section(ids=[f"distforest-{name}"], names=[f"distforest {name}"])
        section += nodes.title("", "", nodes.literal("", f"distforest {name}"))
        text = command.get_help(context)
        section += nodes.literal_block(text, text, language="none")
        self.state.document.note_explicit_target(section)
        return section


class ServiceOptions(Directive):
    """The options of a service in a scheduler, with their variables and defaults."""

    def run(self) -> list[nodes.Node]:
        """Write them."""
        context = click.Context(dask_setup, info_name="dask scheduler --preload distforest.service")
        formatter = context.make_formatter()
        formatter.width = WIDTH
        dask_setup.format_options(context, formatter)
        return [nodes.literal_block("", formatter.getvalue(), language="none")]


def setup(app: Any) -> dict[str, bool]:
    """Make the directives known."""
    app.add_directive("commands", Commands)
    app.add_directive("service-options", ServiceOptions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
