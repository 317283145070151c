"""One file a figure or table: a question, a plan, a view."""
