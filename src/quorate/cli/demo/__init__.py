"""The demo: five scenes on this machine."""
