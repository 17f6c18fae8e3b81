"""The loop: the engine reads, decides, appends and acts, and reaches the outside through ports."""
