"""The paper, reproduced: its tables as recipes for the engine, its figures drawn anew, its numbers beside ours.

Nothing outside this room knows the paper. What a table says is in `published.json`, how a cell of it is run in
`recipes`, and what came out in small records that `report` never mixes with records of other settings.
"""
