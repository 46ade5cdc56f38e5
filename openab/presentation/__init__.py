"""The presentation plane: disposable, shows the work, decides nothing."""
