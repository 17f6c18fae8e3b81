"""Operations on nodes, claims, conflicts, logs and due changes, and on the whole fleet."""
