"""Teach a model to sort your own photos, here scanned digits of different sizes, from a few hundred right orders.

Run it as it stands to sort by digit, or with the argument `darkness` to sort the same photos by how much ink they
hold: the model is told nothing but orders, so another order is another model. Look at sheet.png afterwards.
"""

import json
import random
import sys
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

import truesort as ts
from truesort.teaching import Recipe, check, contact_sheet

BY = sys.argv[1] if len(sys.argv) > 1 else "digit"
DIGITS = load_digits()
DRAW = random.Random(0)


def save_photos(first: int, last: int, folder: Path) -> dict[str, float]:
    """PNG files as a scanner would leave them, and what we know of each: its digit, or its darkness."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {}
    for number in range(first, last):
        pixels, side = DIGITS.images[number] * 15.9, DRAW.randrange(10, 21)
        photo = Image.fromarray(255 - pixels.astype("uint8")).resize((side, side), Image.Resampling.BICUBIC)
        photo.save(folder / f"{number:04}.png")
        known[f"{number:04}.png"] = float(DIGITS.target[number] if BY == "digit" else pixels.mean())
    return known


def save_orders(known: dict[str, float], number: int, file: Path) -> None:
    """Right orders of five photos each, lowest first; equals share a place."""
    lines = []
    for _ in range(number):
        photos = DRAW.sample(sorted(known), 5)
        order = [[p for p in photos if known[p] == value] for value in sorted({known[p] for p in photos})]
        lines.append(json.dumps(order))
    file.write_text("\n".join(lines))


save_orders(save_photos(0, 1000, Path("photos")), 300, Path("orders.jsonl"))
save_orders(save_photos(1000, 1400, Path("more-photos")), 100, Path("more-orders.jsonl"))

model = ts.teach("photos", "orders.jsonl", Recipe(steps=300, augment=BY == "digit"))
model.save("photos.truesort")
print(f"{model.report.lists} orders held back:\n{model.report}\n")

order = model.sort("more-photos")
Path("sheet.png").write_bytes(contact_sheet("more-photos", order.names))
print(
    f"{len(order)} photos never seen, by {BY}: {', '.join(order.names[:3])}, ... {order.names[-1]}; look at sheet.png"
)
print(check(model, "more-photos", "more-orders.jsonl"))
