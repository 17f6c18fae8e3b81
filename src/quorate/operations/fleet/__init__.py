"""Operations on nodes, claims, conflicts, logs and passing time, and on the fleet as a whole."""
