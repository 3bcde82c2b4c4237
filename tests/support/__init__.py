"""What several test modules need and pytest has no fixture for."""
