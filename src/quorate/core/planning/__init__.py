"""Planning: when waiting runs start, derived from the state and never remembered.

``queue_walk`` goes over the queue and starts, promises or foresees each run: ``firm_walk`` puts
firm places in, ``start_now`` starts runs, ``firm_or_tentative`` plans the others, ``why_waiting``
says why they wait, ``left_places`` whether it has to begin anew, ``walk_plan`` has what came of it.
``start_search`` finds the earliest start of one run in the profile (``core/profile``):
``start_ask`` has what the run asks for, ``counted_starts`` what counting allows, ``start_payers``
who pays, ``room_now`` what is free at this instant. ``beyond_depth`` starts runs in what the plan
leaves; ``move_causes`` says why a firm start moved; ``overstay`` stops backfill that outlived its
declared end in front of a firm start; ``recall`` takes loans back; ``foresight`` answers readers.
``give_out`` calls all of them after each command. Start reading at ``queue_walk``.
docs/adr/0025-planning.md.
"""
