"""`signoff up`: everything on one machine."""
