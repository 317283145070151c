"""Figures, tables and the report page; everything here reads results only."""
