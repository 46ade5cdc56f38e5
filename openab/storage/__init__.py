"""The only place that knows SQL: one schema, a module per table, both dialects."""
