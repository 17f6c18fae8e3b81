"""The ports: interfaces to everything outside the program, as Protocols, and their errors."""
