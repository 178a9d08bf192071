"""How Sphinx builds the documentation: ``.ci/docs`` calls it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import distforest  # noqa: E402  (the variable is read when it is imported)

project = "distforest"
author = "the authors of distforest"
version = release = distforest.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "above",
    "command_line",
    "formulas",
    "plain_text",
]
exclude_patterns = ["_build", "gallery.md", "gallery/**", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
default_role = "obj"
highlight_language = "none"
nitpicky = True
# Types of other packages: their pages are elsewhere, and the site is built and read without a network.
nitpick_ignore_regex = [(r"py:(class|obj|meth|func|exc|data|mod|attr)", r"(?!distforest).*")]

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

html_math_renderer = "outlines"
html_theme = "pydata_sphinx_theme"
html_title = "distforest"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_sidebars: dict[str, list[str]] = {page: [] for page in ("index", "which-method", "compare", "changelog")}
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 9,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_persistent": ["search-button"],
    "show_toc_level": 2,
    "pygments_light_style": "tango",
}
project_copyright = "the authors of distforest, BSD-3-Clause"

autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["gallery-made"],
    "subsection_order": ["gallery/papers", "gallery/cases"],
    "within_subsection_order": "FileNameSortKey",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "reset_modules": (),
    "abort_on_example_error": True,
    "write_computation_times": False,
    "image_scrapers": ("alt_texts",),
    "plot_gallery": "True",
    "copyfile_regex": "",
}
