# SPDX-License-Identifier: Apache-2.0
"""The comparison with PyTorch as a picture: a bar a case, how many times faster a step is here; written as SVG, no library needed."""

WIDTH, LABEL, RIGHT, ROW, BAR, TOP = 760, 170, 150, 26, 16, 54
INK, QUIET, GRID, FILL = "#1f2328", "#59636e", "#d1d9e0", "#2f6f9f"  # on white, readable for the colour-blind too


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(x, y, content, colour=INK, size=12, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}">'
            f"{escaped(content)}</text>")


def svg(table):
    """`table` as compare_pytorch.py writes it."""
    rows = table["rows"]
    highest = max(max(row["ratio"] for row in rows), 1.0)
    ticks = range(0, int(highest) + 2, 1 if highest < 8 else 2)
    scale = (WIDTH - LABEL - RIGHT) / ticks[-1]
    bottom = TOP + ROW * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 48}" viewBox="0 0 {WIDTH} {bottom + 48}" '
           'font-family="sans-serif" role="img">',
           "<title>Training steps: times faster than PyTorch</title>",
           f'<rect width="{WIDTH}" height="{bottom + 48}" fill="#ffffff"/>',
           text(12, 22, "A training step: times faster than PyTorch (better of eager and compiled)", size=14, weight="bold"),
           text(12, 40, f"{table['machine']}, 2 threads, {table['date']}, commit {table['commit']}", QUIET)]
    for tick in ticks:
        x = LABEL + tick * scale
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{GRID}"/>')
        out.append(text(x, bottom + 16, f"{tick}x", QUIET, anchor="middle"))
    for number, row in enumerate(rows):
        y = TOP + ROW * number + (ROW - BAR) / 2
        end = LABEL + row["ratio"] * scale
        theirs = min(row[side]["median_ms"] for side in ("eager", "compiled") if side in row)
        out.append(text(LABEL - 8, y + 12, row["case"], anchor="end"))
        out.append(f'<rect x="{LABEL}" y="{y:.1f}" width="{end - LABEL:.1f}" height="{BAR}" fill="{FILL}"/>')
        out.append(text(end + 6, y + 12, f"{row['ratio']:.2f}x", weight="bold"))
        out.append(text(end + 48, y + 12, f"{row['ours']['median_ms']:.0f} against {theirs:.0f} ms", QUIET))
    x = LABEL + scale
    out.append(f'<line x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{bottom}" stroke="{INK}" stroke-dasharray="4 3"/>')
    out.append(text(x, bottom + 32, "PyTorch", anchor="middle"))
    return "\n".join(out) + "\n</svg>\n"
