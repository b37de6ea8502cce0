"""Keeps only the icons that the site shows: 20 of 2,000, or 10 kB instead of 370 kB on every page.

The theme brings all of Font Awesome, as three fonts and a style rule for each icon.
"""

import re
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

ICON = re.compile(r"\bfa-[a-z0-9-]+")
RULE = re.compile(r'((?:\.fa-[\w-]+:{1,2}before,?)+)\{content:"\\([0-9a-f]+) ?"\}')
GLYPH = re.compile(r'"\\([ef][0-9a-f]{3})"')
WOFF2 = re.compile(r'url\([^)]*webfonts/[^)]*\.woff2\) format\("woff2"\),')


def used_icons(out):
    """Names of the icons that stand in a page or in a script that may put one there."""
    files = [*out.rglob("*.html"), *out.glob("_static/*.js"), *out.glob("_static/scripts/*.js")]
    return {name for path in files for name in ICON.findall(path.read_text(encoding="utf-8"))}


def slim_sheet(css, icons):
    """The style sheet without the rules of other icons, and the glyphs that it still asks for."""

    def keep(rule):
        return rule[0] if icons & set(ICON.findall(rule[1])) else ""

    # The fonts are cut from the .ttf files, so the .woff2 files with all icons must not be found.
    css = RULE.sub(keep, WOFF2.sub("", css))
    return css, {int(glyph, 16) for glyph in GLYPH.findall(css)}


def cut_font(path, glyphs):
    options = Options()
    options.layout_features, options.notdef_outline = [], True
    with TTFont(path, recalcTimestamp=False) as font:  # every build writes the same bytes
        subsetter = Subsetter(options)
        subsetter.populate(unicodes=glyphs)
        subsetter.subset(font)
        font.save(path)


def slim(app, exception):
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    icons, glyphs = used_icons(out), set()
    for sheet in out.glob("_static/styles/*.css"):
        css, asked = slim_sheet(sheet.read_text(encoding="utf-8"), icons)
        sheet.write_text(css, encoding="utf-8")
        glyphs |= asked
    for font in out.glob("_static/vendor/fontawesome/webfonts/*"):
        if font.suffix == ".ttf":
            cut_font(font, glyphs)
        else:
            font.unlink()


def setup(app):
    app.connect("build-finished", slim)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
