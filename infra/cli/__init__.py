"""The command line `signoff`."""
