"""The only place that knows SQL: a module per table, or per tight pair."""
