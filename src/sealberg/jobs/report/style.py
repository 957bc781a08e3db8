"""Colours and the style sheet of the page: light, dark, and print.

Every colour is a variable, so that pictures and text change together. Pairs of text and background have a contrast
of 4.5 or more (WCAG AA) in both schemes. Pictures are SVG, because browsers print SVG fills and leave out backgrounds.
"""

from __future__ import annotations

from typing import Final

LIGHT: Final = {
    "paper": "#ffffff",
    "panel": "#f5f7f9",
    "ink": "#13202c",
    "muted": "#55636f",
    "rule": "#d5dde4",
    "accent": "#0a5c80",
    "accent-soft": "#dcecf4",
    "good": "#0c6b43",
    "good-soft": "#e3f4ec",
    "warn": "#855600",
    "warn-soft": "#fcf1da",
    "bad": "#b0231b",
    "bad-soft": "#fdeae8",
}
DARK: Final = {
    "paper": "#0e151b",
    "panel": "#151f28",
    "ink": "#e9eff4",
    "muted": "#a3b3c0",
    "rule": "#2b3a46",
    "accent": "#6cc5ea",
    "accent-soft": "#123243",
    "good": "#62d6a0",
    "good-soft": "#0f2e22",
    "warn": "#f0ba55",
    "warn-soft": "#33270f",
    "bad": "#ff8f86",
    "bad-soft": "#3b1a18",
}
SANS: Final = "Inter, 'Segoe UI', system-ui, -apple-system, 'Helvetica Neue', Arial, sans-serif"
MONO: Final = "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def style_sheet() -> str:
    """The content of the page's one style element."""
    return (
        f":root{{color-scheme:light dark;{_variables(LIGHT)}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}\n"
        # Paper is white: a dark page is printed in the light colours.
        f"@media print{{:root{{color-scheme:light;{_variables(LIGHT)}}}}}\n"
        f"{_RULES.replace('SANS', SANS).replace('MONO', MONO)}"
    )


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


_RULES: Final = """
*{box-sizing:border-box}
html{font:16px/1.55 SANS;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);overflow-wrap:anywhere}
header,main,footer{max-width:66rem;margin:0 auto;padding:0 1.5rem}
header{padding-top:2.25rem;display:flex;justify-content:space-between;gap:.5rem 2rem;flex-wrap:wrap;
  color:var(--muted);font-size:.875rem}
header strong{color:var(--ink);letter-spacing:.02em}
h1,h2,h3{line-height:1.25;margin:0;text-wrap:balance}
h1{font-size:2.5rem;letter-spacing:-.02em;font-weight:700}
h2{font-size:1.375rem;letter-spacing:-.01em;margin:2.5rem 0 .875rem;padding-top:1rem;border-top:2px solid var(--ink)}
h3{font-size:1.0625rem;margin:2.25rem 0 .75rem}
p{margin:.5rem 0;max-width:44rem}
code{font:.84em/1.5 MONO}
.muted{color:var(--muted)}
.verdict{margin:1.5rem 0 0;padding:1.75rem 2rem;border:1px solid var(--rule);border-left:.5rem solid var(--tone);
  border-radius:.375rem;background:var(--soft);display:grid;grid-template-columns:auto 1fr;gap:0 1.5rem;
  align-items:center;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.verdict svg{width:4.5rem;height:4.5rem;grid-row:span 2}
.verdict h1{color:var(--tone)}
.verdict p{margin:.375rem 0 0;font-size:1.0625rem}
.good{--tone:var(--good);--soft:var(--good-soft)}
.warn{--tone:var(--warn);--soft:var(--warn-soft)}
.bad{--tone:var(--bad);--soft:var(--bad-soft)}
.calm{--tone:var(--accent);--soft:var(--accent-soft)}
.figures{display:grid;grid-template-columns:repeat(6,1fr);gap:1px;margin:1.5rem 0 0;padding:0;
  background:var(--rule);border:1px solid var(--rule);border-radius:.375rem;overflow:hidden}
.figures div{background:var(--paper);padding:.875rem 1.125rem;display:flex;flex-direction:column-reverse;
  justify-content:flex-end}
.figures dt{color:var(--muted);font-size:.8125rem}
.figures dd{margin:0;font-size:1.5rem;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.facts{display:grid;grid-template-columns:minmax(8.5rem,max-content) minmax(0,1fr);gap:.375rem 1.75rem;margin:0}
.facts dt{color:var(--muted)}
.facts dd{margin:0}
.pill{display:inline-block;padding:.0625rem .5625rem;border-radius:1rem;border:1px solid currentColor;
  color:var(--tone);background:var(--soft);font-size:.8125rem;font-weight:600;white-space:nowrap}
table{width:100%;border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);font-size:.875rem;padding-bottom:.5rem}
th,td{text-align:left;vertical-align:top;padding:.5625rem .75rem .5625rem 0;border-bottom:1px solid var(--rule)}
th:last-child,td:last-child{padding-right:0}
thead th{color:var(--muted);font-size:.8125rem;font-weight:600;border-bottom-color:var(--muted);overflow-wrap:normal}
tbody th{font-weight:600}
td.number,th.number{text-align:right;white-space:nowrap}
td.tight{white-space:nowrap}
th.name{min-width:8.5rem}
.message{display:block}
.file{display:block;color:var(--muted);font-size:.875em}
figure{margin:0 0 1.5rem}
figcaption{margin-top:.625rem;font-size:.875rem}
.wide{overflow-x:auto}
.wide:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
figure svg{min-width:46rem}
svg{display:block;width:100%;height:auto}
svg text{font-family:SANS;fill:var(--ink);font-size:13px}
svg .id{font-family:MONO;font-size:12px}
svg .head{fill:var(--muted);font-size:11px;font-weight:600;letter-spacing:.06em}
svg .small{fill:var(--muted);font-size:11.5px}
svg .tone{fill:var(--tone)}
svg .strong{font-weight:650}
svg .card{fill:var(--panel);stroke:var(--rule)}
svg .toned{fill:var(--soft);stroke:var(--tone)}
svg .solid{fill:var(--tone)}
svg .faint{fill:var(--soft);stroke:var(--tone);stroke-dasharray:3 3}
svg .track{fill:var(--rule)}
svg .link{fill:none;stroke:var(--muted);stroke-opacity:.55}
svg .broken{fill:none;stroke:var(--bad);stroke-dasharray:4 3}
svg .grid{stroke:var(--rule)}
svg .now{stroke:var(--ink);stroke-width:1.5}
svg .flag{fill:var(--ink)}
svg .on-flag{fill:var(--paper);font-size:11.5px;font-weight:600}
svg .mark{fill:none;stroke:var(--tone);stroke-width:5;stroke-linecap:round;stroke-linejoin:round}
th.bar,td.bar{width:8.5rem;min-width:5rem;padding-left:1.5rem}
.bar svg{margin-top:.4375rem}
ul{margin:.5rem 0;padding-left:1.25rem;max-width:48rem}
li{margin:.25rem 0}
footer{margin-top:3.5rem;padding-top:1rem;padding-bottom:3rem;color:var(--muted);font-size:.875rem}
footer p{border-top:1px solid var(--rule);padding-top:1rem;max-width:none}
@media (max-width:60rem){.figures{grid-template-columns:repeat(3,1fr)}}
@media (max-width:40rem){
  .figures{grid-template-columns:repeat(2,1fr)}
  .wide table{min-width:40rem}
  h1{font-size:1.875rem}
  .verdict{padding:1.25rem;gap:0 1rem}
  .verdict svg{width:3rem;height:3rem}
  .facts{grid-template-columns:1fr;gap:0}
  .facts dd{margin-bottom:.625rem}
}
@media print{
  @page{size:A4;margin:16mm 14mm}
  html{font-size:10.5pt}
  header,main,footer{max-width:none;padding-left:0;padding-right:0}
  header{padding-top:0}
  .figures{grid-template-columns:repeat(3,1fr)}
  h2,h3,caption{break-after:avoid}
  tr,.verdict,.figures,figure,.facts div{break-inside:avoid}
  thead{display:table-header-group}
  .wide{overflow:visible}
  figure svg{min-width:0}
}
"""
