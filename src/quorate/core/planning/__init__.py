"""Planning: when waiting runs start, derived from the state and never remembered.

``profile`` says what is free over time, ``search`` finds the earliest start of one run, ``walk``
goes over the queue and starts, promises or foresees, ``firm`` writes promises and their moves with
causes, ``overstay`` stops what outlived its word in front of a promise, ``room`` is what is left
for everything else. Start reading at ``walk``. docs/adr/0025-planning.md.
"""
