"""Hooks: the functions that MkDocs calls, from the module that the program imports too."""

from docs.site.pages import on_config, on_files, on_page_markdown, on_post_page

__all__ = ["on_config", "on_files", "on_page_markdown", "on_post_page"]
