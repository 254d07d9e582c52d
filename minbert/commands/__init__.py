"""How every command starts and ends."""
