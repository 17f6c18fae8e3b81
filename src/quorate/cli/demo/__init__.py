"""The demo of Quorate: five scenes on this machine."""
