"""The profile: step functions over time of what is free, by domain, payer, cap and quota.

``profile.py`` holds the step functions. ``expected_returns.py`` computes what leases give back and
when, ``quota_headroom.py`` the headroom of hard quotas, and ``plan_entry.py`` what a planned start
takes. ``firm_places.py`` reads firm starts as entries of the plan, and ``room_left.py`` computes
the room that the plan leaves. ``overstayers.py`` and ``recallable_loans.py`` find the bundles that
may be stopped or recalled.
"""
