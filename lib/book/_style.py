"""How the page looks: a column of text, tables that scroll by themselves, code in grey; in print, no contents."""

STYLE = """
body { margin: 0; font: 16px/1.5 Georgia, serif; color: #222; display: flex; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; flex: 0 0 16rem; background: #f6f6f4; font-size: 14px; }
nav ul { list-style: none; padding: 1rem; margin: 0; }
nav li { margin: 0.5rem 0; }
main { flex: 1; min-width: 0; max-width: 70rem; padding: 0 2rem 4rem; }
section { border-bottom: 1px solid #ccc; padding-bottom: 2rem; }
h1.part { font-size: 1.8rem; border-bottom: 3px solid #0072b2; }
a { color: #0072b2; }
pre { overflow-x: auto; background: #f6f6f4; padding: 0.6rem; font-size: 12.5px; line-height: 1.35; }
code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 0.9em; }
code.tex { font-style: italic; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-size: 13px; }
th, td { border: 1px solid #ddd; padding: 0.3rem 0.5rem; text-align: left; vertical-align: top; }
img { max-width: 100%; }
img.tex { max-width: none; }
.formula { text-align: center; overflow-x: auto; }
.jp-RenderedText pre, .output_area pre { background: #fff; border-left: 3px solid #ccc; }
details { background: #f6f6f4; padding: 0.4rem 0.8rem; }
@media print { nav { display: none; } body { display: block; } }
"""
