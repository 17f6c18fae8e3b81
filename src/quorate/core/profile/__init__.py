"""The profile: how much is free over time, as step functions, by domain, payer, cap and quota.

``profile.py`` holds the step functions. ``expected_returns.py`` computes when leases give back GPUs
and concurrency, and ``quota_headroom.py`` computes the headroom of hard quotas. ``plan_entry.py``
has the entry of a planned start. ``firm_places.py`` reads firm starts as entries of the plan, and
``room_left.py`` computes the room that the plan leaves. ``overstayers.py`` and
``recallable_loans.py`` find the bundles that may be stopped or recalled.
"""
