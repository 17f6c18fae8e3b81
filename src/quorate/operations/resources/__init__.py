"""Operations on resources of every kind, on runs and on tenants."""
