"""Accounting systems, by their own API clients; only installations with a link import these."""

from quorate.adapters.accounting.waldur_models import leave_models_unread

# Before the first module here imports a model.
leave_models_unread()
