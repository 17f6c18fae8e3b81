"""Clients of accounting systems, which a service imports only if a link is configured."""

from quorate.adapters.accounting.waldur_models import leave_models_unread

# ``leave_models_unread`` must run before any module here imports a model.
leave_models_unread()
