"""The interfaces of Quorate to the outside, as Protocols, and their errors."""
