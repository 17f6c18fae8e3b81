"""The profile: what is taken when, by domain, payer, cap and quota, as step functions over time.

``profile.py`` holds the step functions, ``expected_returns.py`` what leases give back and when,
``quota_headroom.py`` the headroom of hard quotas, ``plan_entry.py`` what a planned start takes,
``firm_places.py`` the recorded places of reservations, ``room_left.py`` the room they leave now;
``overstayers.py`` and ``recallable_loans.py`` which bundles may have to go.
"""
