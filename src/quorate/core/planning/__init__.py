"""Plans when waiting runs start. The plan is derived from the state after each command.

After each command, ``give_out`` is called. ``give_out`` calls the walk (``queue_walk``): one pass
over the firm starts and the queue, which starts or plans each waiting run. Start reading at
``queue_walk``.

- ``walk_plan`` has the results of a walk. ``firm_walk`` inserts firm starts into the profile,
  ``start_now`` starts runs, and ``firm_or_tentative`` plans runs that cannot start now. Only as
  many runs of a pool are planned as the pool's depth allows. ``beyond_depth`` starts runs farther
  back in the queue, in the room that the plan leaves.
- ``start_search`` finds the earliest start of one run in the profile (``core/profile``).
  ``start_ask`` computes the request of the run. ``counted_starts`` finds starts by counting GPUs
  and money, ``start_payers`` finds payers, and ``room_now`` checks for a start at this instant.
- ``why_waiting`` computes why a run waits, and ``move_causes`` why a firm start moves.
- ``overstay`` stops backfill that runs past its declared end, and ``recall`` recalls loans.
- ``left_places`` decides whether the queue has to be walked again. ``hindsight`` decides whether
  the whole decision has to be made again, because a start moved needlessly.
- ``foresight`` computes forecasts for readers.

See docs/adr/0025-planning.md.

A "firm start" is a start that is recorded with its instant, domains and payers. To "put" an entry
into the profile is to count its GPUs and payers as taken. To "lift" an entry is to remove it again.
"""
