"""Planning: when waiting runs start, derived from the state and never recorded as such.

``queue_walk`` goes over the queue and starts or plans each run, firmly or tentatively:
``firm_walk`` inserts firm places into the profile, ``start_now`` starts runs, ``firm_or_tentative``
plans the others, ``why_waiting`` says why they wait, ``left_places`` whether the walk has to begin
again, ``walk_plan`` has the results. ``start_search`` finds the earliest start of one run in the
profile (``core/profile``): ``start_ask`` has what the run asks for, ``counted_starts`` the starts
that counting allows, ``start_payers`` the payers, ``room_now`` the GPUs free at this instant.
``beyond_depth`` starts runs in the room that the plan leaves; ``move_causes`` says why a firm start
moved; ``overstay`` stops backfill that outlived its declared end in front of a firm start;
``recall`` takes loans back; ``foresight`` answers readers. ``give_out`` calls all of them after
each command, and again if ``hindsight`` shows that a start has moved needlessly. Start reading at
``queue_walk``. docs/adr/0025-planning.md.

To "put an entry in" is to insert it into the profile, so that its GPUs and payers count as taken;
to "lift" it is to remove it. A "walk" is one pass over firm places and the queue.
"""
