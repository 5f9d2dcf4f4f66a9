"""A contact sheet: the sorted pictures in reading order, so that one look says whether the order is right."""

import io
import math
from typing import Any

import numpy as np
from PIL import Image

from truesort.data import DataError
from truesort.data.items import Items, Photos, open_items
from truesort.teaching.preparation import Pictures

SIDE = 96
GAP = 4
MOST = 400
"""Pictures on a sheet; of more, evenly many along the order."""
PAPER = 208


def require_pictures(items: Items) -> None:
    """Raise unless there is something to draw."""
    if not isinstance(items, Photos):
        raise DataError(f"{items.source} is not a folder of pictures, so there is no sheet to draw")


def contact_sheet(items: Any, names: list[str]) -> bytes:
    """The PNG of the named pictures of a folder, in the order of their names."""
    require_pictures(items := open_items(items))
    if len(names) > MOST:
        names = [names[round(place)] for place in np.linspace(0, len(names) - 1, MOST)]
    if not names:
        raise DataError("there is no readable picture for the sheet")
    encoded = Pictures((3, SIDE, SIDE)).encode(items.gather(set(names)))
    found = dict(zip(encoded.names, encoded.values.numpy(), strict=True))
    shown = [found[name] for name in names if name in found]
    columns = math.ceil(math.sqrt(len(shown) * 1.5))
    rows = math.ceil(len(shown) / columns)
    step = SIDE + GAP
    page = np.full((rows * step + GAP, columns * step + GAP, 3), PAPER, dtype=np.uint8)
    for place, picture in enumerate(shown):
        top, left = GAP + place // columns * step, GAP + place % columns * step
        page[top : top + SIDE, left : left + SIDE] = picture.transpose(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(page).save(buffer, "PNG")
    return buffer.getvalue()
