"""The result of `verify` as a page for people: one HTML file, no script, nothing loaded from elsewhere.

    write_report(result, "audit.html")      Verification ──page──> HTML

document        the frame of a page, and how a page is written
keys_page       the result of `keys`
shred_page      the record of `shred`
erase_page      the record of `erase`
page            the document: verdict, what was checked, findings, what was not checked
table_section   one table: the catalog's state, keys, ages, sizes
key_picture     the key tree as a picture (SVG)
time_line       the ages of KEKs as a picture (SVG)
style           colours for light, dark and print, and the style sheet
markup          elements and text; every string is escaped where it enters an element

A name of a table, column, file or property comes from storage and may be hostile: it is text on the page, never markup.
"""

from __future__ import annotations

from sealberg.jobs.report.page import page, write_report

__all__ = ["page", "write_report"]
