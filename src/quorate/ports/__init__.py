"""What Quorate needs from the world, as Protocols, and the errors the world may answer with."""
