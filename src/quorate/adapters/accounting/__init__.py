"""Clients of accounting systems. A service imports them only if a link is configured."""

from quorate.adapters.accounting.waldur_models import leave_models_unread

# This must run before any module here imports a model.
leave_models_unread()
