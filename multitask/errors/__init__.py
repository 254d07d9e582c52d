"""Where a finished run is wrong."""
