"""Operations that plan runs, explain waits and watch events; operations on the ledger itself."""
