"""The presentation plane: shows running turns. Disposable; it decides nothing."""
