"""Operations that plan, explain and watch, and those on the ledger itself."""
